"""Worker threads of compiled code: started and stopped correctly in any thread at any time."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from tests.evaluators import needs_native

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def four_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(4)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize("when", ["after-main", pytest.param("atexit", marks=pytest.mark.slow)])
def test_after_the_main_thread(when: str) -> None:
    """A thread that outlives it, or a hook at exit: the same answers."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.kernels.late_run", when],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
        env={**os.environ, "OMP_WAIT_POLICY": "passive"},
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    said = [line.split() for line in done.stdout.splitlines()]
    assert [words[0] for words in said] == ["early"] + ["late"] * (2 if when == "atexit" else 1)
    expected, *later = ([float(word) for word in words[1:]] for words in said)
    for answers in later:
        assert answers == pytest.approx(expected, rel=1e-5)


LOSS = """
import os, torch
import wassloss as wl

torch.set_num_threads(4)
# So few numbers that torch's own operations start no threads, which do not survive a fork.
logits = torch.randn(200, 64, generator=torch.Generator().manual_seed(0))
loss_fn = wl.WassersteinLoss(wl.ground.Ordinal(64), reduction="none")
target = wl.SparseTarget(torch.arange(400).view(200, 2) % 64, torch.full((200, 2), 0.5))
loss_fn(logits, target)
expected = loss_fn(logits, target)
child = os.fork()
if child == 0:
    os._exit(0 if torch.equal(loss_fn(logits, target), expected) else 1)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
assert torch.equal(loss_fn(logits, target), expected)
"""


# Without the core, torch's own threads are used, which do not survive a fork.
@needs_native
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs POSIX: fork")
def test_a_loss_after_a_fork() -> None:
    done = subprocess.run(
        [sys.executable, "-c", LOSS], capture_output=True, text=True, timeout=200, check=False
    )
    assert done.returncode == 0, done.stderr
