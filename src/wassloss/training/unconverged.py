"""Solves that did not converge, counted while a run goes on and reported once at its end."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from wassloss.transport import ConvergenceWarning


class Unconverged:
    """How often the loss warned."""

    def __init__(self) -> None:
        self.count = 0
        self.last = ""
        self._read = 0

    def since_last(self) -> int:
        """How often since the last call."""
        new, self._read = self.count - self._read, self.count
        return new


@contextmanager
def counting_unconverged() -> Iterator[Unconverged]:
    """Count the :class:`~wassloss.ConvergenceWarning` raised inside, and say so once after it.

    Other warnings go where they always go.
    """
    seen = Unconverged()
    with warnings.catch_warnings():
        others = warnings.showwarning

        def count(message: Warning | str, category: type[Warning], *where: Any) -> None:
            if issubclass(category, ConvergenceWarning):
                seen.count += 1
                seen.last = str(message)
            else:
                others(message, category, *where)

        warnings.filterwarnings("always", category=ConvergenceWarning)
        warnings.showwarning = count  # type: ignore[assignment]
        yield seen
    if seen.count:
        warnings.warn(
            f"{seen.count} batches had solves that did not converge; the last said: {seen.last}",
            ConvergenceWarning,
            stacklevel=3,
        )
