"""What a loss computes, apart from its data: the objective, and how hard to solve for it."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, SupportsIndex, TypedDict

from torch import Tensor

from wassloss import _checks
from wassloss.ground import GroundMetric
from wassloss.transport import (
    Objective,
    Problem,
    Regularizer,
    SolveOptions,
    Solver,
    choose_solver,
)


class SolverKeywords(TypedDict, total=False):
    """Keywords every transport function shares; :mod:`wassloss.losses` explains them."""

    regularizer: str
    tol: float | None
    max_iterations: int | None
    scaling_iterations: int | None
    solver: Solver | None


class TransportKeywords(SolverKeywords, total=False):
    """Keywords of the functions that are not named for one kind of transport."""

    gamma: float | Iterable[float]
    debiased: bool


@dataclass(frozen=True)
class Recipe:
    """A checked set of the keywords that every transport function shares.

    Attributes:
        objective: `epsilon`, `gamma` and `regularizer`.
        debiased: subtract half of what each measure costs to itself.
        tol: marginal error to solve to; None for the dtype's default.
        max_iterations: iterations after which to give up (and warn); None for the solver's own.
        scaling_iterations: run the paper's Algorithm 1 for exactly this many iterations instead.
        solver: answer with this solver instead of the automatic choice.
    """

    objective: Objective
    debiased: bool = False
    tol: float | None = None
    max_iterations: int | None = None
    scaling_iterations: int | None = None
    solver: Solver | None = None

    @classmethod
    def checked(
        cls,
        *,
        epsilon: float,
        gamma: float | Iterable[float] = math.inf,
        regularizer: str = "plan",
        debiased: bool = False,
        tol: float | None = None,
        max_iterations: int | None = None,
        scaling_iterations: int | None = None,
        solver: Solver | None = None,
    ) -> Recipe:
        objective = _objective(epsilon, gamma, regularizer)
        debiased = _checks.check_flag("debiased", debiased)
        if debiased and not objective.balanced:
            raise ValueError(
                f"gamma must be infinite where debiased=True, got gamma={objective.gamma}: the "
                "divergence compares measures of equal mass"
            )
        options = SolveOptions.checked(
            tol=tol,
            max_iterations=max_iterations,
            scaling_iterations=scaling_iterations,
            solver=solver,
        )
        options.check_objective(objective)
        return cls(
            objective,
            debiased,
            options.tol,
            options.max_iterations,
            options.scaling_iterations,
            solver,
        )

    def check_fits(self, metric: GroundMetric) -> None:
        """Refuse a divergence under costs that are no distance.

        Raises:
            ValueError: it would not be 0 for equal measures, nor the same both ways.
        """
        if self.debiased and not metric.is_distance:
            raise ValueError(
                f"debiased must be False for {metric!r}: the divergence subtracts what each "
                "measure costs to itself, which takes a distance, symmetric and 0 from a label to "
                "itself; if these costs are one, use Matrix"
            )

    def solver_for(self, problem: Problem) -> Solver:
        """The solver this recipe answers a problem with."""
        options = SolveOptions(self.tol, self.max_iterations, self.scaling_iterations, self.solver)
        return choose_solver(problem, options)


@dataclass(frozen=True)
class LossSpec:
    """What a loss on logits computes, apart from its data: `W + kl_weight · KL`, all checked.

    Attributes:
        metric: the ground metric of the labels.
        recipe: the transport's objective, and how hard to solve for it.
        kl_weight: the paper's α.
        normalize_target: divide each target by its sum.
        ignore_index: the class id of examples whose loss is 0.
        unsolved: a count to which, while a CUDA graph is captured, examples that go wrong are
            added: a graph has no other way to tell.
    """

    metric: GroundMetric
    recipe: Recipe
    kl_weight: float = 0.0
    normalize_target: bool = False
    ignore_index: int = -100
    unsolved: Tensor | None = None


def _objective(epsilon: float, gamma: float | Iterable[float], regularizer: str) -> Objective:
    epsilon, pair = _checks.check_strength("epsilon", epsilon), check_gamma(gamma)
    _checks.check_choice("regularizer", regularizer, [kind.value for kind in Regularizer])
    objective = Objective(epsilon, pair, Regularizer(regularizer))
    nearest = objective.free_target and math.isinf(pair[0])  # defined without an entropy too
    if objective.exact and not (objective.balanced or nearest):
        raise ValueError(
            f"epsilon must be positive where gamma is finite, got epsilon=0 and gamma={pair}: "
            "relaxed transport is defined with an entropy"
        )
    return objective


def check_ignore_index(value: SupportsIndex) -> int:
    """A class id as int64 holds them, which need not be one that occurs."""
    try:
        index = None if isinstance(value, bool) else operator.index(value)
    except TypeError:
        index = None
    if index is None:
        raise TypeError(f"ignore_index must be an integer, got {value!r}")
    if not -(2**63) <= index < 2**63:
        raise ValueError(f"ignore_index must be an int64, got {index}")
    return index


def check_gamma(gamma: float | Iterable[float]) -> tuple[float, float]:
    """One positive number for both sides or one for each; infinity is a constraint.

    The target's may be 0, which leaves its marginal free.
    """
    given: Any = gamma
    try:
        if isinstance(given, int | float):  # torch.compile cannot follow the attempt below
            given = [gamma, gamma]
        given = [gamma] if isinstance(given, str) else list(given)
    except TypeError:  # not iterable, or only in name, as a tensor without dimensions
        given = [gamma, gamma]
    pair = [_checks.check_number("gamma", g) for g in given]
    if len(pair) != 2 or not (pair[0] > 0 and pair[1] >= 0):
        raise ValueError(
            "gamma must be a positive number, or two (for the prediction and the target, whose own "
            f"may be 0), got {tuple(pair)}"
        )
    return pair[0], pair[1]
