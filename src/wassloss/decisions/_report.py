"""What a guarantee promises, on how many rows it rests, and how precise its answers are."""

from __future__ import annotations

from dataclasses import dataclass

from scipy.stats import beta

from wassloss.decisions._thresholds import rank_of

_USUAL = (0.05, 0.95)  # between which the share that is right lies nine times in ten


@dataclass(frozen=True)
class Report:
    """What a guarantee rests on, in numbers; its `str` is in words."""

    level: float | None
    distance: float | None
    each: str | None  # for which parts the promise holds by itself
    rows: int
    fewest: int  # rows of a part
    ties: int
    labels: int
    size: float
    single: float
    everything: float
    right: float

    def __str__(self) -> str:
        by = f" for every {self.each}" if self.each else ""
        if self.level is None:
            promise = f"the expected distance to the set is at most {self.distance:g}{by}"
        else:
            promise = f"a set contains the truth with probability at least {self.level:.4g}{by}"
        rests = f"{self.rows} calibration rows"
        if self.each:
            rests += f", {self.fewest} in the smallest {self.each}"
        if self.level is not None:
            rank = rank_of(self.level, self.fewest)
            low, high = beta.ppf(_USUAL, rank, self.fewest + 1 - rank)
            rests += f"; with so many, {low:.1%} to {high:.1%} are right nine times in ten"
        lines = [
            f"promise    {promise}, on average over new rows",
            f"rests on   {rests}",
            f"precision  {self.size:.3g} of {self.labels} labels on average; "
            f"{self.single:.1%} single labels, {self.everything:.1%} all labels",
            f"seen       {self.right:.1%} of the sets of the calibration rows contain the truth",
        ]
        if self.ties > 1:
            lines.append(
                f"ties       {self.ties} rows are at the threshold, so sets are right more often "
                "than promised"
            )
        lines.append("assumes    new rows are from the same source; this cannot be checked here")
        return "\n".join(lines)
