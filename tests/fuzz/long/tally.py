"""What a batch of calls came to."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Tally:
    """Counted by example; a kind of call that has no batches counts each call."""

    calls: int = 0
    refused: int = 0  # with an error of ours
    doubtful: int = 0  # with a ConvergenceWarning
    loose: int = 0  # where the reference has the value to less than six digits

    def __add__(self, other: Tally) -> Tally:
        return Tally(
            self.calls + other.calls,
            self.refused + other.refused,
            self.doubtful + other.doubtful,
            self.loose + other.loose,
        )
