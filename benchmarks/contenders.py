"""Contenders, and the error of their solutions, computed in the same way for all."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from problems import Case, Work
from torch import Tensor

OURS = "wassloss"
GRAPH = "CUDA graph"
MOST_ITERATIONS = 100_000
COLUMNS_AT_ONCE = 1000  # of a plan, when its error is computed


@dataclass(frozen=True)
class Attempt:
    """One library, ready to solve one problem; only `run` is timed."""

    run: Callable[[], Any]
    error: Callable[[Any], float | None]
    iterations: Callable[[Any], int | None] = lambda answer: None


@dataclass(frozen=True)
class Contender:
    """One way to solve a problem.

    Attributes:
        name: its name in the table.
        prepare: makes an attempt from the problem and a limit on iterations.
        one_by_one: whether it solves examples one at a time, so that timing a few predicts the
            rest.
        gigabytes: the size of its largest arrays.
        most_iterations: the limit on iterations if it does not reach the tolerance.
        iterations_at_once: the smallest number of iterations that it can run.
        suits: whether it applies to a case.
        device: the only kind of device it runs on, or None for any.
        searched: whether it has no tolerance, so that the fewest iterations that reach ours are
            searched for, outside the timing.
        trials: whether runs with growing numbers of iterations predict how many fit in the
            limit.
        compiles: whether its first call on a case compiles kernels, which are cached on disk.
    """

    name: str
    prepare: Callable[[Work, int], Attempt]
    one_by_one: bool = False
    gigabytes: Callable[[Case], float] = lambda case: 0.0
    most_iterations: int = MOST_ITERATIONS
    iterations_at_once: int = 1
    suits: Callable[[Case], bool] = lambda case: True
    device: str | None = None
    searched: bool = False
    trials: bool = True
    compiles: Callable[[Case], bool] = lambda case: False

    @property
    def library(self) -> str:
        """The process that measures it: one per library, and a separate one for ours in graphs."""
        word = self.name.split(",")[0].split()[0]
        ours = word in (OURS, "CrossEntropyLoss", "WassersteinLoss", "GEMM")
        return (f"{OURS}, graphs" if GRAPH in self.name else OURS) if ours else word


def marginal_error(work: Work, f: Tensor, g: Tensor) -> float:
    """The largest ℓ1 error of both marginals of `T = exp((f + g − M)/ε)`, over the batch.

    Args:
        work: the problem.
        f: potentials of the prediction, `(batch, labels)`.
        g: potentials of the target over all labels or its support; `−inf` where there is no mass.
    """
    f, g = (x.detach().to(work.h.device, torch.float64) for x in (f, g))
    errors = [_example_error(work, i, f[i], g[i]) for i in range(work.case.batch)]
    # Python's max may skip NaN, and a failed solve must not look like a good one.
    return float(torch.tensor(errors).max())


def _example_error(work: Work, example: int, f: Tensor, g: Tensor) -> float:
    restricted = g.shape[0] != work.case.labels
    # Leave out columns at −inf; their target mass counts as missing below.
    columns = torch.isfinite(g).nonzero().squeeze(1)
    labels = work.target.indices[example][columns] if restricted else columns
    rows, reached = torch.zeros_like(f), torch.zeros_like(f)
    for some, at in zip(columns.split(COLUMNS_AT_ONCE), labels.split(COLUMNS_AT_ONCE), strict=True):
        cost = work.metric.cost_columns(at).double()  # (columns, labels)
        plan = ((f + g[some].unsqueeze(1) - cost) / work.case.epsilon).exp()
        rows += plan.sum(0)
        reached.index_add_(0, at, plan.sum(1))
    wrong = (rows - work.h[example].double()).abs().sum()
    return float(wrong + (reached - work.dense_target[example].double()).abs().sum())
