"""Summarise a guarantee: its promise, its calibration rows, and the precision of its sets."""

from __future__ import annotations

from dataclasses import dataclass

from scipy.stats import beta

from wassloss.decisions._thresholds import rank_of

_USUAL = (0.05, 0.95)  # quantiles of the coverage in the report


@dataclass(frozen=True)
class Report:
    """The figures of a guarantee's report; `str` formats them."""

    level: float | None
    distance: float | None
    each: str | None  # "class" or "group" if the promise holds for each one
    rows: int
    fewest: int  # rows of the smallest class or group
    ties: int  # rows at the threshold
    labels: int
    size: float  # mean number of labels per set
    single: float  # share of sets with one label
    everything: float  # share of sets with all labels
    right: float  # share of sets with the true label

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
            rests += f"; in nine of ten such samples, coverage is {low:.1%} to {high:.1%}"
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
