"""What a fused kernel is told, and what it answers."""

from __future__ import annotations

import math
from functools import cache
from typing import NamedTuple

import torch
from torch import Tensor

from wassloss import _checks
from wassloss.losses.inputs import mass_tolerance
from wassloss.losses.spec import LossSpec
from wassloss.transport.newton.solver import Newton
from wassloss.transport.objective import Objective, Regularizer
from wassloss.transport.precision import default_tolerance, smallest_mass

_mass_tolerance = cache(mass_tolerance)


class Fused(NamedTuple):
    """What a kernel makes of a batch."""

    value: Tensor  # (batch,)
    gradient: Tensor  # (batch, labels), in the logits
    status: Tensor  # (batch,), see wassloss.kernels.status
    known_worst: int | None = None  # of all statuses, where the kernel knows

    def worst(self) -> int:
        """The worst status of the batch; on a GPU, the host waits for it."""
        return int(self.status.max()) if self.known_worst is None else self.known_worst

    @staticmethod
    def joined(parts: list[Fused]) -> Fused:
        """The parts of a batch as one."""
        if len(parts) == 1:
            return parts[0]
        value, gradient, status, _ = zip(*parts, strict=True)
        return Fused(torch.cat(value), torch.cat(gradient), torch.cat(status))


class LossRule(NamedTuple):
    """What the examples of a batch have in common.

    Attributes:
        objective: of the transport; balanced, or with a free target.
        tol, max_iterations: how hard to solve.
        scaling_iterations: of Algorithm 1, where just so many are asked for.
        kl_weight: the paper's α.
        normalize_target: divide each target by its sum.
        mass_tolerance: else, how far that sum may be from 1.
        ignore_index: the class id of examples that do not count.
        unsolved: a count that kernels add to, if any.
    """

    objective: Objective
    tol: float
    max_iterations: int
    scaling_iterations: int | None
    kl_weight: float
    normalize_target: bool
    mass_tolerance: float
    ignore_index: int
    unsolved: Tensor | None

    @classmethod
    def of(cls, spec: LossSpec, logits: torch.dtype, target: torch.dtype) -> LossRule:
        """The rule of a loss, for logits and targets of these types."""
        recipe = spec.recipe
        return cls(
            recipe.objective,
            default_tolerance(logits) if recipe.tol is None else recipe.tol,
            Newton.max_iterations if recipe.max_iterations is None else recipe.max_iterations,
            recipe.scaling_iterations,
            spec.kl_weight,
            spec.normalize_target,
            _mass_tolerance(logits, target),
            spec.ignore_index,
            None if _checks.can_read_values() else spec.unsolved,
        )

    @property
    def entropy_of_one_label(self) -> float:
        """What the only plan to one label is charged for its entropy `Σ h log h`; see `OneHot`."""
        plan = self.objective.regularizer is Regularizer.PLAN
        return self.objective.epsilon if plan else 0.0


class Costs(NamedTuple):
    """Rows of costs, each to all labels, and which row belongs to target `j` of example `b`."""

    rows: Tensor  # (any number, labels)
    tabulated: bool  # row `index[b, j]`, for the table has all labels; else row `b * support + j`


@cache
def lowest_log_mass(dtype: torch.dtype) -> float:
    """What the log of a label's mass is raised to; see `smallest_mass`."""
    return math.log(smallest_mass(dtype))
