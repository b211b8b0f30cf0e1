"""Counts of the outcomes of a batch of calls."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Tally:
    """Counts by example; calls without a batch count as one."""

    calls: int = 0
    refused: int = 0  # with an error of ours
    doubtful: int = 0  # with a ConvergenceWarning
    loose: int = 0  # where the reference has fewer than six digits

    def __add__(self, other: Tally) -> Tally:
        return Tally(
            self.calls + other.calls,
            self.refused + other.refused,
            self.doubtful + other.doubtful,
            self.loose + other.loose,
        )
