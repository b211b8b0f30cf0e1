"""A million labels on a CPU: only a few whole columns of costs at a time."""

import subprocess
import sys

import pytest

from tests.evaluators import needs_native

pytestmark = needs_native

PROGRAM = """
import ctypes, gc, sys
import torch, wassloss as wl
torch.manual_seed(0)
LABELS, BATCH, MB = 1_000_000, 32, 2**20

def metric(kind):
    if kind == "ordinal":
        return wl.ground.Ordinal(LABELS)
    if kind == "tree":  # ten children each
        nodes = LABELS * 10 // 9
        return wl.ground.Tree([-1, *((node - 1) // 10 for node in range(1, nodes))])
    return wl.ground.Embedding(torch.randn(LABELS, 50))

def loss_and_gradient(loss_fn, labels, batch):
    logits = torch.randn(batch, labels, requires_grad=True)
    ids = torch.randint(labels, (batch, 5))
    several = wl.SparseTarget(ids, torch.full((batch, 5), 0.2))
    for target in (ids[:, 0].contiguous(), several):
        logits.grad = None
        gc.collect()
        ctypes.CDLL(None).malloc_trim(0)
        open("/proc/self/clear_refs", "w").write("5")  # forget the highest memory so far
        before = memory("VmRSS")
        loss = loss_fn(logits, target)
        loss.backward()
        highest = memory("VmHWM")
        assert loss.isfinite() and logits.grad.isfinite().all()
        assert abs(logits.grad.sum()) < 1e-4
        yield (highest - before) / (logits.numel() * 4) - 1

def memory(name):
    lines = dict(line.split(":") for line in open("/proc/self/status"))
    return int(lines[name].split()[0]) * 1024

list(loss_and_gradient(wl.WassersteinLoss(wl.ground.Ordinal(3000)), 3000, 2))  # compiled
loss_fn = wl.WassersteinLoss(metric(sys.argv[1]))
print(*(f"{times:.2f}" for times in loss_and_gradient(loss_fn, loss_fn.metric.size, BATCH)))
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="needs Linux: memory is read from /proc")
@pytest.mark.parametrize("kind", ["ordinal", "tree", "embedding"])
def test_memory_is_bounded_by_the_logits(kind: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, kind], capture_output=True, text=True, check=True
    )
    # Minus inputs and gradient, relative to the logits; the loss keeps one copy until backward.
    assert all(float(times) < 2 for times in done.stdout.split()), done.stdout
