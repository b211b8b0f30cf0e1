"""Compare the speed of two versions of wassloss on the same work.

    git worktree add build/before v0.1.0
    python benchmarks/versions_of_ours.py build/before/src src [--device cuda]

The versions alternate, each in its own processes, so that a machine that slows down slows both.
Figures are microseconds, the median over all processes (the minimum for first calls); the last
column is the second version's time divided by the first's. First calls are those of a new process
with empty caches, after importing torch and the loss. `--out FILE` writes the figures as JSON.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median

import output

ROUNDS = 5  # processes per version
BUDGET = 0.4  # seconds per case and process
KINDS = ("class ids", "sparse", "dense")  # of targets, for first calls


def cases(device: str) -> Iterator[tuple[str, Callable[[], object]]]:
    """Yield names and steps: each computes a loss and its gradient, launched or replayed."""
    import torch

    import wassloss as wl

    torch.manual_seed(0)

    def metric(labels: int, dimensions: int = 2) -> wl.ground.GroundMetric:
        return wl.ground.Embedding(torch.randn(labels, dimensions), scale="median")

    def sparse(batch: int, labels: int, support: int) -> wl.SparseTarget:
        indices = torch.rand(batch, labels).argsort(1)[:, :support].contiguous()
        return wl.SparseTarget(
            indices.to(device), torch.full((batch, support), 1 / support).to(device)
        )

    def step(
        loss_fn: torch.nn.Module, batch: int, labels: int, target: object
    ) -> Callable[[], object]:
        loss_fn = loss_fn.to(device)
        logits = torch.randn(batch, labels).to(device).requires_grad_()
        return lambda: torch.autograd.grad(loss_fn(logits, target), logits)[0]

    cross_entropy = torch.nn.CrossEntropyLoss()
    for labels, batch in ((10, 100), (1000, 100), (1000, 1024)):
        ids, size = torch.randint(labels, (batch,)).to(device), f"K={labels} B={batch}"
        yield f"cross-entropy, {size}", step(cross_entropy, batch, labels, ids)
        loss_fn = wl.WassersteinLoss(metric(labels))
        yield f"class ids, the default, {size}", step(loss_fn, batch, labels, ids)
        target = sparse(batch, labels, 5)
        yield f"5 labels, the default, {size}", step(loss_fn, batch, labels, target)
    few = wl.WassersteinLoss(wl.ground.Ordinal(10), kl_weight=0.1)
    yield "class ids, K=10 B=32", step(few, 32, 10, torch.randint(10, (32,)).to(device))
    for batch in (100, 1024):
        loss_fn = wl.WassersteinLoss(metric(1000), epsilon=0.02, kl_weight=0.1)
        yield (
            f"class ids, K=1000 B={batch}",
            step(loss_fn, batch, 1000, torch.randint(1000, (batch,)).to(device)),
        )
        for support in (5, 20):
            target = sparse(batch, 1000, support)
            yield f"{support} labels, K=1000 B={batch}", step(loss_fn, batch, 1000, target)
    nearest = wl.NearestWassersteinLoss(metric(1000), kl_weight=0.1)
    yield "nearest, 5 labels, K=1000 B=100", step(nearest, 100, 1000, sparse(100, 1000, 5))
    relaxed = wl.RelaxedWassersteinLoss(metric(1000), epsilon=0.05, kl_weight=0)
    yield "relaxed, 5 labels, K=1000 B=100", step(relaxed, 100, 1000, sparse(100, 1000, 5))
    dense = torch.rand(100, 1000).softmax(1).to(device)
    yield (
        "dense, K=1000 B=100 ε=0.1",
        step(wl.WassersteinLoss(metric(1000, 50), epsilon=0.1), 100, 1000, dense),
    )
    if device == "cuda":
        large = wl.WassersteinLoss(metric(100_000, 50), epsilon=0.02, kl_weight=0.1)
        yield (
            "class ids, K=100 000 B=256",
            step(large, 256, 100_000, torch.randint(100_000, (256,)).to(device)),
        )
        indices = torch.randint(100_000, (256, 5)).to(device)
        target = wl.SparseTarget(indices, torch.full((256, 5), 0.2).to(device))
        yield "5 labels, K=100 000 B=256", step(large, 256, 100_000, target)


def replayed(step: Callable[[], object]) -> Callable[[], object]:
    """Return the step as a CUDA graph."""
    import torch

    graph = torch.cuda.CUDAGraph()
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for _ in range(3):
            step()
    torch.cuda.synchronize()
    with torch.cuda.graph(graph):
        step()
    return graph.replay


def seconds(step: Callable[[], object], device: str) -> float:
    import torch

    def once(times: int) -> float:
        begin = time.perf_counter()
        for _ in range(times):
            step()
        if device == "cuda":
            torch.cuda.synchronize()
        return (time.perf_counter() - begin) / times

    once(3)
    each = once(3)
    times = max(1, int(BUDGET / 10 / max(each, 1e-7)))
    return median(once(times) for _ in range(10))


def measure(device: str) -> dict[str, float]:
    """Microseconds of each case, and of `import wassloss` with a loss."""
    begin = time.perf_counter()
    import wassloss as wl

    _ = wl.WassersteinLoss
    found = {"import": 1e6 * (time.perf_counter() - begin)}
    for name, step in cases(device):
        found[name] = 1e6 * seconds(step, device)
        if device == "cuda" and "dense" not in name and "relaxed" not in name:
            found[f"{name}, in a graph"] = 1e6 * seconds(replayed(step), device)
    return found


def first_call(kind: str, device: str) -> float:
    """Microseconds of the first loss and gradient of this process."""
    import torch

    import wassloss as wl

    logits = torch.randn(32, 10).to(device).requires_grad_()
    loss_fn = wl.WassersteinLoss(wl.ground.Ordinal(10)).to(device)
    torch.nn.functional.cross_entropy(logits, torch.zeros(32, dtype=torch.long).to(device))
    target = {
        "class ids": torch.arange(32) % 10,
        "sparse": wl.SparseTarget(torch.arange(64).view(32, 2) % 10, torch.full((32, 2), 0.5)),
        "dense": torch.full((32, 10), 0.1),
    }[kind].to(device)
    begin = time.perf_counter()
    loss_fn(logits, target).backward()
    if device == "cuda":
        torch.cuda.synchronize()
    return 1e6 * (time.perf_counter() - begin)


def run(source: str, *arguments: str) -> object:
    """Return what this program prints with one version of the package and empty caches."""
    with tempfile.TemporaryDirectory() as empty:
        caches = ("NUMBA_CACHE_DIR", "XDG_CACHE_HOME", "TRITON_CACHE_DIR")
        path = os.pathsep.join([source, os.environ.get("PYTHONPATH", "")])
        done = subprocess.run(
            [sys.executable, "-W", "ignore", __file__, *arguments],
            env={**os.environ, "PYTHONPATH": path, **dict.fromkeys(caches, empty)},
            capture_output=True,
            text=True,
            check=False,
        )
    if done.returncode:
        sys.exit(done.stderr)
    return json.loads(done.stdout)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "sources", nargs="*", help="directories that hold the package, the older one first"
    )
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--first", choices=KINDS, help=argparse.SUPPRESS)
    parser.add_argument("--out", type=Path, help="file to write the figures to, as JSON")
    chosen = parser.parse_args()
    if not chosen.sources:
        one = chosen.first
        found = measure(chosen.device) if one is None else first_call(one, chosen.device)
        json.dump(found, sys.stdout)
        return
    on = "--device", chosen.device
    runs: dict[str, list[dict[str, float]]] = {source: [] for source in chosen.sources}
    for _ in range(chosen.rounds):
        for source in chosen.sources:
            firsts = {f"first call, {kind}": run(source, *on, "--first", kind) for kind in KINDS}
            runs[source].append({**firsts, **run(source, *on)})
    first = chosen.sources[0]
    table = {
        name: [
            (min if "first" in name else median)(one[name] for one in runs[source])
            for source in chosen.sources
        ]
        for name in runs[first][0]
    }
    for name, (before, *after) in table.items():
        ratios = "".join(f"{t:12.1f} {t / before:6.2f}" for t in after)
        print(f"{name:45}{before:12.1f}{ratios}")
    if chosen.out is not None:
        output.write_record(chosen.out, table)


if __name__ == "__main__":
    main()
