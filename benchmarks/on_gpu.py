"""Measure on a GPU the figures quoted outside the tables: `python benchmarks/on_gpu.py [name …]`.

memory          memory of the loss beyond its inputs
dense           `wl.solve` for targets with mass on every label
million         a million labels: time of loss and gradient, and memory
paper_setting   100 000 training steps at the paper's sizes, KL alone and W + KL
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import replace

import torch
from problems import MANY_DIMENSIONS, Case, Work
from training import replayed

import wassloss as wl

MEGABYTE = 2**20


def memory() -> None:
    for support in (5, 20):
        case = Case(batch=1024, support=support, dtype="float32", tol=1e-5)
        peak = peak_megabytes(case)
        print(f"{case}: {peak:.1f} MB, the gradient's 3.9 MB among them")


def peak_megabytes(case: Case) -> float:
    """The peak memory during loss and gradient, minus what was in use before."""
    work = Work.of(case, "cuda")
    logits = work.h.log().requires_grad_()
    loss_fn = wl.WassersteinLoss(
        work.metric, epsilon=case.epsilon, kl_weight=0.1, normalize_cost=False
    ).cuda()
    peak = 0
    for _ in range(2):  # the second time excludes one-time allocations, such as compiled kernels
        logits.grad = None
        torch.cuda.synchronize()
        before = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        loss_fn(logits, work.target).backward()
        torch.cuda.synchronize()
        peak = torch.cuda.max_memory_allocated() - before
    return peak / MEGABYTE


def dense() -> None:
    single = Case(support=1000, dtype="float32", tol=1e-5, epsilon=0.1)
    double = Case(support=1000)
    for case in (single, double):
        for dimensions in (case.dimensions, MANY_DIMENSIONS):
            work = Work.of(replace(case, dimensions=dimensions), "cuda")
            took, solution = _median(work)
            iterations = float(solution.n_iterations.float().mean())
            print(
                f"{work.case}: {took:.1f} ms, {iterations:.0f} iterations, {solution.status.name}"
            )


def _median(work: Work) -> tuple[float, wl.Solution]:
    def solve() -> wl.Solution:
        case = work.case
        return wl.solve(work.h, work.dense_target, work.metric, epsilon=case.epsilon, tol=case.tol)

    solution = solve()
    return statistics.median(_milliseconds(solve) for _ in range(9)), solution


def _milliseconds(run: Callable[[], object]) -> float:
    torch.cuda.synchronize()
    start = time.perf_counter()
    run()
    torch.cuda.synchronize()
    return 1e3 * (time.perf_counter() - start)


def million(labels: int = 1_000_000, batch: int = 32) -> None:
    torch.manual_seed(0)
    nodes = labels * 10 // 9  # ten children each
    metrics = {
        "Ordinal": lambda: wl.ground.Ordinal(labels),
        "Tree": lambda: wl.ground.Tree([-1, *((node - 1) // 10 for node in range(1, nodes))]),
        "Embedding": lambda: wl.ground.Embedding(torch.randn(labels, 50)),
    }
    for name, build in metrics.items():
        loss_fn = wl.WassersteinLoss(build()).cuda()
        logits = torch.randn(batch, loss_fn.metric.size, device="cuda", requires_grad=True)
        ids = torch.randint(loss_fn.metric.size, (batch, 5), device="cuda")
        several = wl.SparseTarget(ids, torch.full((batch, 5), 0.2, device="cuda"))
        for what, target in (("class ids", ids[:, 0].contiguous()), ("five labels", several)):
            took, peak = _loss_and_gradient(loss_fn, logits, target)
            size = logits.numel() * 4 / MEGABYTE
            print(f"{name}, {what}: {took:.1f} ms, {peak / size:.2f} × the logits of {size:.0f} MB")


def _loss_and_gradient(
    loss_fn: wl.WassersteinLoss, logits: torch.Tensor, target: torch.Tensor | wl.SparseTarget
) -> tuple[float, float]:
    """Return milliseconds, and megabytes minus inputs and the gradient."""

    def run() -> None:
        logits.grad = None
        loss_fn(logits, target).backward()

    run()
    logits.grad = None
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    run()
    peak = torch.cuda.max_memory_allocated() - before - logits.numel() * 4
    return statistics.median(_milliseconds(run) for _ in range(7)), peak / MEGABYTE


def paper_setting(iterations: int = 100_000) -> None:
    examples, features, labels, tags = 20_000, 1280, 1000, 5
    torch.manual_seed(0)
    x = torch.randn(examples, features, device="cuda")
    metric = wl.ground.Embedding(torch.randn(labels, 100), power=2, scale="median").to("cuda")
    indices = torch.rand(examples, labels, device="cuda").topk(tags).indices
    weights = torch.full((examples, tags), 1 / tags, device="cuda")
    loss_fn = wl.WassersteinLoss(metric, epsilon=0.02, kl_weight=0.1, normalize_cost=False).cuda()
    dense_target = torch.zeros(examples, labels, device="cuda").scatter(1, indices, weights)
    for name, loss, target in (
        ("KL", torch.nn.CrossEntropyLoss(), dense_target),
        ("W + 0.1 KL", loss_fn, wl.SparseTarget(indices, weights)),
    ):
        model = wl.models.Linear(features, labels).cuda()
        optimizer = torch.optim.SGD(
            [
                {"params": [model.linear.weight], "weight_decay": 0.001},
                {"params": [model.linear.bias]},
            ],
            lr=0.01,
            momentum=0.7,
            fused=True,
        )
        rows = torch.zeros(100, dtype=torch.int64, device="cuda")

        def step(model=model, loss=loss, target=target, optimizer=optimizer, rows=rows) -> None:
            optimizer.zero_grad()
            loss(model(x[rows]), target[rows]).backward()
            optimizer.step()

        replay = replayed(step)
        began = time.perf_counter()
        for first in range(0, iterations, examples // 100):
            order = torch.randperm(examples, device="cuda").view(-1, 100)
            for batch in order[: iterations - first]:
                rows.copy_(batch)
                replay()
        torch.cuda.synchronize()
        print(f"{name}: {iterations} iterations in {time.perf_counter() - began:.1f} s")
    print(f"unsolved: {int(loss_fn.unsolved)}")


if __name__ == "__main__":
    parts = {"memory": memory, "dense": dense, "million": million, "paper_setting": paper_setting}
    for name in sys.argv[1:] or parts:
        parts[name]()
