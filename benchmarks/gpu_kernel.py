"""Time the fused kernel alone and a whole `wl.solve` on an NVIDIA GPU.

The kernel is replayed from a CUDA graph, so its time excludes Python. Every answer is first
compared with that of the torch solver.

    python benchmarks/gpu_kernel.py docs/benchmarks/h200-kernel.json
"""

from __future__ import annotations

import sys
import time
from dataclasses import asdict
from pathlib import Path
from statistics import median

import torch
from machine import describe, versions
from output import write_record
from problems import Case, Work

import wassloss as wl
from wassloss.transport import Newton
from wassloss.transport.newton.gpu import launch
from wassloss.transport.objective import Objective
from wassloss.transport.problem import Problem

REPEATS = 15
CASES = [
    Case(labels, support, epsilon, batch, dtype, tol)
    for dtype, tol in (("float32", 1e-5), ("float64", 1e-8))
    for labels, support, epsilon in (
        (1000, 2, 0.02),
        (1000, 5, 0.02),
        (1000, 12, 0.02),
        (1000, 20, 0.02),
        (1000, 5, 0.1),
        (1000, 5, 0.002),
        (10_000, 5, 0.02),
    )
    for batch in (100, 1024)
]


def kernel_seconds(problem: Problem, tol: float) -> float:
    launch(problem, None, tol, 1000)  # compiles
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        launch(problem, None, tol, 1000)
    times = []
    for _ in range(REPEATS):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        graph.replay()
        end.record()
        torch.cuda.synchronize()
        times.append(begin.elapsed_time(end) / 1e3)
    return median(times)


def solve_seconds(work: Work, metric: wl.ground.GroundMetric) -> float:
    times = []
    for _ in range(REPEATS):
        torch.cuda.synchronize()
        began = time.perf_counter()
        wl.solve(work.h, work.target, metric, epsilon=work.case.epsilon, tol=work.case.tol)
        torch.cuda.synchronize()
        times.append(time.perf_counter() - began)
    return median(times)


def measure(case: Case) -> dict[str, object]:
    work = Work.of(case, "cuda")
    metric = work.metric.tabulated()
    problem = Problem.from_log(
        work.h.log(), work.target.weights, work.target.indices, metric, Objective(case.epsilon)
    )
    _, _, value, error, n_iterations, converged = launch(problem, None, case.tol, 1000)
    torch_solution = Newton(case.tol).solve(problem)
    return {
        **asdict(case),
        "kernel_seconds": kernel_seconds(problem, case.tol),
        "solve_seconds": solve_seconds(work, metric),
        "mean_iterations": float(n_iterations.double().mean()),
        "all_converged": bool(converged.all()),
        "largest_error": float(error.max()),
        "value_off_torch": float((value - torch_solution.value).abs().max()),
    }


def main() -> None:
    output = Path(sys.argv[1])
    rows = []
    for case in CASES:
        rows.append(measure(case))
        print({k: f"{v:.3g}" if isinstance(v, float) else v for k, v in rows[-1].items()})
        record = {"machine": describe("cuda"), "versions": versions(), "rows": rows}
        write_record(output, record)


if __name__ == "__main__":
    main()
