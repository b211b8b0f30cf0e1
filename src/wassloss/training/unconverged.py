"""Solves that did not converge, counted while a run goes on and reported once at its end."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch import Tensor

from wassloss.transport import ConvergenceWarning


class Unconverged:
    """How often the loss warned or, inside a CUDA graph, where it cannot, counted by itself."""

    def __init__(self, loss_fn: object) -> None:
        self.warned = 0
        self.last = "a CUDA graph does not tell what was wrong; train without one to see."
        self._read = 0
        counter = getattr(loss_fn, "unsolved", None)
        self._counter = counter if isinstance(counter, Tensor) else None
        self._before = 0 if self._counter is None else int(self._counter)

    def count(self) -> int:
        counted = 0 if self._counter is None else int(self._counter) - self._before
        return self.warned + counted

    def since_last(self) -> int:
        """How often since the last call."""
        count = self.count()
        new, self._read = count - self._read, count
        return new


@contextmanager
def counting_unconverged(loss_fn: object = None) -> Iterator[Unconverged]:
    """Count the :class:`~wassloss.ConvergenceWarning` raised inside, and say so once after it.

    Other warnings go where they always go. `loss_fn` is asked for what it counts itself.
    """
    seen = Unconverged(loss_fn)
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
