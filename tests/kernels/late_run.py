"""Losses and a training step, early and late: `after-main`, in a thread, or `atexit`, in a hook."""

import atexit
import sys
import threading
import time

WHEN = sys.argv[1]


def late() -> None:
    if WHEN == "after-main":
        while threading.main_thread().is_alive():
            time.sleep(0.01)
    sys.stdout.write(f"late {answers()}\n")


if WHEN == "atexit":
    atexit.register(late)  # registered before those of the imports below, so called after them

import torch  # noqa: E402

import wassloss as wl  # noqa: E402
from wassloss.transport import network_simplex  # noqa: E402

torch.set_num_threads(4)


def answers() -> str:
    """A number for everything that is distributed over threads."""
    generator = torch.Generator().manual_seed(0)
    metric = wl.ground.Grid((8, 8), scale="median")
    logits = torch.randn(10_000, 64, generator=generator, requires_grad=True)
    ids = torch.randint(64, (10_000,), generator=generator)
    few = wl.SparseTarget(torch.stack([ids, (ids + 7) % 64], 1), torch.full((10_000, 2), 0.5))
    values = []
    for loss_fn in (
        wl.WassersteinLoss(metric, kl_weight=0.0, normalize_cost=False),
        wl.NearestWassersteinLoss(metric, kl_weight=0.0, normalize_cost=False),
    ):
        for target in (ids, few):  # each is large enough for several threads
            loss = loss_fn(logits, target)
            values += [loss.detach(), *torch.autograd.grad(loss, logits)]
    h = logits.detach()[:20].softmax(1)
    exact = network_simplex.NetworkSimplex()
    values += [wl.wasserstein(h, h.flip(0), metric, solver=exact)]
    model = wl.models.Linear(64, 64)
    for parameter in model.parameters():
        torch.nn.init.zeros_(parameter)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loss_fn = wl.WassersteinLoss(metric, kl_weight=0.0, normalize_cost=False)
    loss_fn(model(logits.detach()), few).backward()
    optimizer.step()
    values += [parameter.detach() for parameter in model.parameters()]
    return " ".join(f"{value.double().abs().sum():.9g}" for value in values)


sys.stdout.write(f"early {answers()}\n")
if WHEN == "after-main":
    threading.Thread(target=late).start()
elif WHEN == "atexit":
    atexit.register(late)
