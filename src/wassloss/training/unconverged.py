"""Solves that did not converge, counted while a run goes on and reported once at its end."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from torch import Tensor, nn

from wassloss.transport import ConvergenceWarning


class Unconverged:
    """How often the losses warned or, in CUDA graphs, where they cannot, counted themselves."""

    def __init__(self, losses: Sequence[object]) -> None:
        self.warned = 0
        self.last = "CUDA graphs do not record what was wrong; train without one to see."
        self._read = 0
        self._losses = losses
        self._before = self._counted()

    def count(self) -> int:
        return self.warned + self._counted() - self._before

    def since_last(self) -> int:
        """How often since the last call."""
        count = self.count()
        new, self._read = count - self._read, count
        return new

    def _counted(self) -> int:
        # Asked of the losses anew each time, because they move between devices.
        counters = (
            getattr(part, "unsolved", None)
            for loss in self._losses
            for part in (loss.modules() if isinstance(loss, nn.Module) else [loss])
        )
        return sum(int(counter) for counter in counters if isinstance(counter, Tensor))


@contextmanager
def counting_unconverged(losses: Sequence[object] = ()) -> Iterator[Unconverged]:
    """Count each :class:`~wassloss.ConvergenceWarning` raised inside, and warn once at the end.

    Other warnings are shown as usual.
    """
    seen = Unconverged(losses)
    with warnings.catch_warnings():
        others = warnings.showwarning

        def count(message: Warning | str, category: type[Warning], *where: Any) -> None:
            if issubclass(category, ConvergenceWarning):
                seen.warned += 1
                seen.last = str(message)
            else:
                others(message, category, *where)

        warnings.filterwarnings("always", category=ConvergenceWarning)
        warnings.showwarning = count  # type: ignore[assignment]
        yield seen
    if seen.count():
        warnings.warn(
            f"{seen.count()} solves did not converge; the last said: {seen.last}",
            ConvergenceWarning,
            stacklevel=3,
        )
