"""The settings of a loss, checked on construction."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, SupportsIndex, TypedDict

from numpy.typing import NDArray
from torch import Tensor

from wassloss._checks import check_choice, check_flag, check_number, check_strength
from wassloss.ground import GroundMetric
from wassloss.ground.matrix import as_ground_metric
from wassloss.losses.softened import LEAST_SOFTENING
from wassloss.transport.objective import Objective, Regularizer
from wassloss.transport.solver import SolveOptions, Solver


class TransportKeywords(TypedDict, total=False):
    """Keywords documented in :mod:`wassloss.losses`."""

    gamma: float | Iterable[float]
    regularizer: str
    debiased: bool
    tol: float | None
    max_iterations: int | None
    scaling_iterations: int | None
    solver: Solver | None


@dataclass(frozen=True)
class LossSpec:
    """The settings of a loss: transport with its objective and solver, plus `kl_weight · KL`.

    Attributes:
        metric: the ground metric of the labels.
        objective: `epsilon`, `gamma` and `regularizer`.
        options: the solver and its tolerance and budget.
        debiased: subtract half the transport cost from each measure to itself.
        kl_weight: the paper's α.
        softening: temperature of the softened labels in KL, in units of the cost.
        transport_weight: weight of the transport; 0 leaves only KL.
        normalize_target: divide each target by its sum.
        ignore_index: the class id of examples whose loss is 0.
        unnormalized: whether predictions are logs of masses rather than logits.
    """

    metric: GroundMetric
    objective: Objective
    options: SolveOptions
    debiased: bool = False
    kl_weight: float = 0.0
    softening: float = 0.0
    transport_weight: float = 1.0
    normalize_target: bool = False
    ignore_index: int = -100
    unnormalized: bool = False

    def __post_init__(self) -> None:
        self.options.check_objective(self.objective)
        for name in ("kl_weight", "softening", "transport_weight"):
            object.__setattr__(self, name, check_strength(name, getattr(self, name)))
        object.__setattr__(self, "debiased", check_flag("debiased", self.debiased))
        object.__setattr__(self, "normalize_target", bool(self.normalize_target))
        object.__setattr__(self, "ignore_index", check_ignore_index(self.ignore_index))
        if self.debiased and not self.objective.balanced:
            raise ValueError(
                f"gamma must be infinite if debiased=True, got gamma={self.objective.gamma}: "
                "the divergence compares measures of equal mass"
            )
        if self.debiased and not self.metric.is_distance:
            # The divergence would be neither 0 for equal measures nor symmetric.
            raise ValueError(
                f"debiased must be False for {self.metric!r}: the divergence requires a distance, "
                "which is symmetric, and 0 from a label to itself; if these costs are a distance, "
                "use Matrix"
            )

    @property
    def name_of_prediction(self) -> str:
        """The name of the predictions in error messages."""
        return "log_h" if self.unnormalized else "logits"

    @property
    def entropy_of_one_label(self) -> float:
        """Factor of the entropy `Σ h log h` of the only plan to one label; see `OneHot`."""
        plan = self.objective.regularizer is Regularizer.PLAN
        return self.transport_weight * self.objective.epsilon if plan else 0.0

    @property
    def per_softening(self) -> float:
        """Factor of the costs in softened labels, for kernels; 0 without softening."""
        if not (self.softening and self.kl_weight):
            return 0.0
        return 1 / max(self.softening, LEAST_SOFTENING)

    @classmethod
    def checked(
        cls,
        metric: GroundMetric | Tensor | NDArray[Any],
        *,
        epsilon: float,
        gamma: float | Iterable[float] = math.inf,
        regularizer: str = "plan",
        tol: float | None = None,
        max_iterations: int | None = None,
        scaling_iterations: int | None = None,
        solver: Solver | None = None,
        **others: Any,
    ) -> LossSpec:
        """Build settings from the user's keywords, and check them."""
        metric, objective = as_ground_metric(metric), _objective(epsilon, gamma, regularizer)
        options = SolveOptions(tol, max_iterations, scaling_iterations, solver)
        return cls(metric, objective, options, **others)


def _objective(epsilon: float, gamma: float | Iterable[float], regularizer: str) -> Objective:
    epsilon, pair = check_strength("epsilon", epsilon), _gamma(gamma)
    # Spelled out, because torch.compile cannot iterate over an Enum before torch 2.13.
    check_choice("regularizer", regularizer, ["plan", "product"])
    objective = Objective(epsilon, pair, Regularizer(regularizer))
    nearest = objective.free_target and math.isinf(pair[0])  # defined even without entropy
    if objective.exact and not (objective.balanced or nearest):
        raise ValueError(
            f"epsilon must be positive if gamma is finite, got epsilon=0 and gamma={pair}: "
            "relaxed transport requires an entropy"
        )
    return objective


def _gamma(gamma: float | Iterable[float]) -> tuple[float, float]:
    """Check one positive number for both sides, or one for each; infinity is a constraint.

    The target's number may be 0, which leaves its marginal free.
    """
    given: Any = gamma
    try:
        if isinstance(given, int | float):  # torch.compile cannot follow the attempt below
            given = [gamma, gamma]
        given = [gamma] if isinstance(given, str) else list(given)
    except TypeError:  # not iterable, or only in name, like a tensor without dimensions
        given = [gamma, gamma]
    pair = [check_number("gamma", g) for g in given]
    if len(pair) != 2 or not (pair[0] > 0 and pair[1] >= 0):
        raise ValueError(
            "gamma must be a positive number, or two numbers (for the prediction, and for the "
            f"target, where it may be 0), got {tuple(pair)}"
        )
    return pair[0], pair[1]


def check_ignore_index(value: SupportsIndex) -> int:
    """Check that the class id, which need not be a label, is an int64."""
    try:
        index = None if isinstance(value, bool) else operator.index(value)
    except TypeError:
        index = None
    if index is None:
        raise TypeError(f"ignore_index must be an integer, got {value!r}")
    if not -(2**63) <= index < 2**63:
        raise ValueError(f"ignore_index must be an int64, got {index}")
    return index
