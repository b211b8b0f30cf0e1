"""What a contender is, and how the error of its answer is taken, alike for all."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from problems import Case, Work
from torch import Tensor

OURS = "wassloss"
MOST_ITERATIONS = 100_000


@dataclass(frozen=True)
class Attempt:
    """One library, ready to solve one work: only `run` is timed."""

    run: Callable[[], Any]
    error: Callable[[Any], float | None]


@dataclass(frozen=True)
class Contender:
    """One way to do the work.

    Attributes:
        name: as the table shows it.
        prepare: from the work and a limit on iterations to an attempt.
        one_by_one: whether it solves one example after another, so that some of them tell the rest.
        gigabytes: what its largest arrays need.
        most_iterations: where to stop if the tolerance does not stop it.
        iterations_at_once: the fewest it can be made to run.
        suits: whether it makes sense for a case at all.
        device: the only kind of device it runs on, if there is one.
    """

    name: str
    prepare: Callable[[Work, int], Attempt]
    one_by_one: bool = False
    gigabytes: Callable[[Case], float] = lambda case: 0.0
    most_iterations: int = MOST_ITERATIONS
    iterations_at_once: int = 1
    suits: Callable[[Case], bool] = lambda case: True
    device: str | None = None


def marginal_error(work: Work, f: Tensor, g: Tensor) -> float:
    """The largest ℓ1 error of both marginals of `T = exp((f + g − M)/ε)`, over the batch.

    Args:
        work: the problem.
        f: potentials of the prediction, `(batch, labels)`.
        g: potentials of the target over all labels or its support; `−inf` where there is no mass.
    """
    f, g = (x.detach().to(work.h.device, torch.float64) for x in (f, g))
    errors = [_example_error(work, i, f[i], g[i]) for i in range(work.case.batch)]
    # Not Python's max, which may pass over NaN: a failed solve must not pass for a good one.
    return float(torch.tensor(errors).max())


def _example_error(work: Work, example: int, f: Tensor, g: Tensor) -> float:
    restricted = g.shape[0] != work.case.labels
    # A column at −inf carries nothing: left out, its mass counts as missed below.
    columns = torch.isfinite(g).nonzero().squeeze(1)
    labels = work.target.indices[example][columns] if restricted else columns
    cost = work.metric.cost_columns(labels).double()  # (columns, labels)
    plan = ((f + g[columns].unsqueeze(1) - cost) / work.case.epsilon).exp()
    reached = torch.zeros_like(f).index_add(0, labels, plan.sum(1))
    rows = (plan.sum(0) - work.h[example].double()).abs().sum()
    error = rows + (reached - work.dense_target[example].double()).abs().sum()
    return float(error)
