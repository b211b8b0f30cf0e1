"""Which examples of a batch have converged, and with which potentials."""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor


class Iterations(Protocol):
    """Whatever improves the target's potentials of a batch."""

    error: Tensor  # (batch,)

    def g(self) -> Tensor:
        """`(batch, support)`."""
        ...


class ConvergedExamples:
    """Keeps what converged examples found, while the rest of their batch goes on.

    An example keeps the potentials at which its error was first seen within the tolerance, whatever
    the rest of its batch does.
    """

    def __init__(self, g: Tensor) -> None:
        """From the potentials to start from, `(batch, support)`."""
        self._g = g
        self._n_iterations = torch.zeros_like(g[:, 0], dtype=torch.long)
        self._finished = torch.zeros_like(self._n_iterations, dtype=torch.bool)
        self._count = 0  # of those that have finished
        # Once some have left: where the others belong among all, and what all have found so far.
        self._active: Tensor | None = None
        self._all: tuple[Tensor, Tensor] = self._g, self._n_iterations

    @property
    def share(self) -> float:
        """How much of the present batch has finished."""
        return self._count / len(self._finished)

    def look(self, steps: Iterations, iteration: int, tol: float, *, last: bool) -> None:
        """Note which examples are within `tol`; the `last` time, note the potentials of all."""
        finished = self._finished | (steps.error <= tol)  # a NaN compares false
        count = int(finished.sum())  # the one time the host waits for the device
        if count > self._count or last:
            g, some = steps.g(), self._count > 0
            self._g = torch.where(self._finished.unsqueeze(1), self._g, g) if some else g
            self._n_iterations.masked_fill_(~self._finished, iteration)
            self._finished, self._count = finished, count

    def leave(self) -> Tensor:
        """Go on without the examples that have finished; returns the mask of those that stay."""
        self._store()
        staying = ~self._finished
        active = torch.arange(len(staying), device=staying.device)
        self._active = (active if self._active is None else self._active)[staying]
        self._g, self._n_iterations = self._g[staying], self._n_iterations[staying]
        self._finished, self._count = self._finished[staying], 0
        return staying

    def of_all(self) -> tuple[Tensor, Tensor]:
        """Potentials `(batch, support)` and numbers of iterations `(batch,)` of all examples."""
        self._store()
        return self._all

    def _store(self) -> None:
        if self._active is None:
            self._all = self._g, self._n_iterations
        else:
            self._all[0][self._active] = self._g
            self._all[1][self._active] = self._n_iterations
