"""Dense targets, from logits to loss and gradient: Sinkhorn's scalings as matrix products.

At the `ε` of a loss, plain scalings converge in a few tens of iterations, each of two products and
two divisions. Unusual examples are only marked, and left to the next evaluator.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import cast

import torch
from torch import Tensor

from wassloss.kernels.status import FINE, INVALID, UNCONVERGED
from wassloss.losses.spec import LossSpec
from wassloss.transport.conditions import Conditions
from wassloss.transport.kernel_sums import Products
from wassloss.transport.precision import smallest_mass
from wassloss.transport.problem import Problem
from wassloss.transport.sinkhorn.iterations import LogIterations, ScalingIterations

FIRST_ITERATIONS, STRIDE = 20, 10  # before the host first reads the error, and between reads
PLAIN_ITERATIONS = 60  # after which steps are over-relaxed
MOST_ITERATIONS = 400  # after which another evaluator takes over


class DensePass:
    """The pass over batches of one shape; its tensors are overwritten at every call."""

    def __init__(
        self, spec: LossSpec, logits: Tensor, weights: Tensor, tol: float, mass_tolerance: float
    ) -> None:
        self._spec, self._tol, self._mass_tolerance = spec, tol, mass_tolerance
        self._logits, self._weights = logits, weights
        table = cast(Tensor, spec.metric.known_costs).double()
        kernel = (table / -spec.objective.epsilon).exp().to(logits.dtype)
        self._sums = Products(None, (kernel,), plain=True)
        self._support = torch.arange(len(kernel), device=kernel.device).unsqueeze(0)
        self._g, self._error = torch.empty_like(logits), torch.empty_like(logits[:, 0])
        self.left = torch.empty_like(self._error, dtype=torch.long)[0]

    def begin(self) -> None:
        """Read logits and weights, and run the first plain steps."""
        x, weights, spec = self._logits, self._weights, self._spec
        total = weights.sum(1, keepdim=True)
        self._valid = ((weights >= 0) & (weights < math.inf)).all(1) & x.amax(1).isfinite()
        self._valid &= (total > 0).squeeze(1)
        if not spec.normalize_target:
            self._valid &= ((total - 1).abs() <= self._mass_tolerance).squeeze(1)
        self._y = weights / total if spec.normalize_target else weights
        self._log_h = x.log_softmax(1)
        self._problem = Problem.from_log(
            self._log_h, self._y, self._support, spec.metric, spec.objective
        )
        self._conditions = Conditions.of(self._problem, self._sums)
        start = self._conditions.initial_potential(None)
        self._plain = ScalingIterations(self._conditions, self._sums, start)
        self._advance(self._plain, FIRST_ITERATIONS)

    def iterate(self) -> None:
        """Run more plain steps."""
        self._advance(self._plain, STRIDE)

    def begin_relaxed(self) -> None:
        """Run the first over-relaxed steps, from the result of the plain steps."""
        self._relaxed = LogIterations(self._conditions, self._g)
        self.iterate_relaxed()

    def iterate_relaxed(self) -> None:
        """Run more over-relaxed steps."""
        self._advance(self._relaxed, STRIDE)

    def run(self) -> tuple[Tensor, Tensor, Tensor, int]:
        """Run the whole pass; return losses, gradients, statuses, and the worst status."""
        return self.run_by(lambda piece: getattr(self, piece)())

    def run_by(self, run_piece: Callable[[str], object]) -> tuple[Tensor, Tensor, Tensor, int]:
        """Run the whole pass, each piece by its name; the host reads the error in between."""
        run_piece("begin")
        iterations, relaxed = FIRST_ITERATIONS, False
        while int(self.left) and iterations < MOST_ITERATIONS:
            if iterations < PLAIN_ITERATIONS:
                run_piece("iterate")
            else:
                run_piece("iterate_relaxed" if relaxed else "begin_relaxed")
                relaxed = True
            iterations += STRIDE
        run_piece("end")
        return self.value, self.gradient, self.status, int(self.worst)

    def _advance(self, steps: ScalingIterations | LogIterations, count: int) -> None:
        """Run steps; record the potentials, the error, and how many examples are unsolved.

        Always in the same tensors, because the reader does not know which piece ran last.
        """
        steps.step(count)
        self._g.copy_(steps.g())
        self._error.copy_(steps.error)
        self.left.copy_((self._valid & ~(self._error <= self._tol)).sum())

    def end(self) -> None:
        """Compute losses `(batch,)`, gradients `(batch, labels)` and statuses `(batch,)`."""
        y, kl_weight, conditions = self._y, self._spec.kl_weight, self._conditions
        f, h = conditions.f_of(self._g), self._problem.log_h.exp()
        mean = (h * f).sum(1, keepdim=True)
        value = conditions.dual(f, self._g, h.sum(1))
        gradient = h * (f - mean)
        if kl_weight:
            # A weight of zero must not meet an infinite log.
            log_h = self._log_h.where(y > 0, 0.0)
            log_y = y.clamp(min=smallest_mass(y.dtype)).log()
            value = value + kl_weight * (y * (log_y - log_h)).sum(1)
            gradient += kl_weight * (h * y.sum(1, keepdim=True) - y)
        fine = self._valid & value.isfinite() & mean.squeeze(1).isfinite()
        code = torch.where(self._error <= self._tol, FINE, UNCONVERGED)
        self.status = torch.where(fine, code, INVALID).to(torch.uint8)
        self.worst = self.status.max()
        self.value = value.where(fine, math.nan)
        self.gradient = gradient.where(fine.unsqueeze(1), math.nan)
