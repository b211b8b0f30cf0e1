"""How hard to solve, and with what: the keywords that every loss shares."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from wassloss._checks import check_count, check_number
from wassloss.transport.objective import Objective

if TYPE_CHECKING:
    from wassloss.transport.solver import Solver


@dataclass(frozen=True)
class SolveOptions:
    """The budget of a solve, checked when it is built.

    Attributes:
        tol: marginal error to solve to; None for the dtype's default.
        max_iterations: iterations after which to give up (and warn); None for the solver's own.
        scaling_iterations: run the paper's Algorithm 1 for exactly this many iterations instead.
        solver: answer with this solver instead of the automatic choice.
    """

    tol: float | None = None
    max_iterations: int | None = None
    scaling_iterations: int | None = None
    solver: Solver | None = None

    @classmethod
    def checked(
        cls,
        *,
        tol: float | None = None,
        max_iterations: int | None = None,
        scaling_iterations: int | None = None,
        solver: Solver | None = None,
    ) -> SolveOptions:
        """The options in plain numbers, because compiled code takes no others.

        Raises:
            TypeError, ValueError: an option is not of its kind, or excludes another.
        """
        if tol is not None:
            given, tol = tol, check_number("tol", tol)
            if not tol > 0:
                raise ValueError(f"tol must be positive, got {given}")
        if solver is not None and (isinstance(solver, type) or not hasattr(solver, "solve")):
            raise TypeError(
                f"solver must be a solver of wassloss.transport, such as Newton(), got {solver!r}"
            )
        max_iterations = _check_count("max_iterations", max_iterations)
        scaling_iterations = _check_count("scaling_iterations", scaling_iterations)
        limits = {
            "tol": tol,
            "max_iterations": max_iterations,
            "scaling_iterations": scaling_iterations,
        }
        names = [name for name, value in limits.items() if value is not None]
        if solver is not None and names:
            raise ValueError(f"solver has its own budget: leave out {', '.join(names)}")
        if scaling_iterations is not None and len(names) > 1:
            raise ValueError(
                f"scaling_iterations is the whole budget: leave out {', '.join(names[:-1])}"
            )
        return cls(tol, max_iterations, scaling_iterations, solver)

    def check_objective(self, objective: Objective) -> None:
        """Refuse an objective for which Algorithm 1 is not defined.

        Raises:
            ValueError: `scaling_iterations` is given where the answer is a closed form or exact.
        """
        if self.scaling_iterations is None:
            return
        if objective.free_target:
            raise ValueError(
                "scaling_iterations must be left out where gamma is 0 for the target, got "
                f"{self.scaling_iterations}: the answer is a closed form"
            )
        if objective.exact:
            raise ValueError(
                "epsilon must be positive where "
                f"scaling_iterations={self.scaling_iterations}, got 0"
            )


def _check_count(name: str, count: int | None) -> int | None:
    if count is None:
        return None
    count = check_count(name, count)
    if count >= 2**63:
        raise ValueError(f"{name} must be less than 2**63, got {count}")
    return count
