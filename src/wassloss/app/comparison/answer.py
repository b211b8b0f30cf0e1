"""The result of a comparison: scores of each loss and decision rule, and a sentence about them."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from wassloss.app.model import TableModel

if TYPE_CHECKING:
    from wassloss.scores.differences import Difference

PROBABLE, LEAST_COST, NEAREST = "probable", "least cost", "nearest"  # decision rules
RULE = {PROBABLE: "probable", LEAST_COST: "least_cost"}  # the classifier's names for them
SAID = {"better": "Milder mistakes", "worse": "Graver mistakes", "unclear": "No clear gain"}
CE, W, SOFT, RIDGE = "cross-entropy", "W + KL", "softened", "ridge"


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """A loss and a decision rule, with their scores on the held-out rows.

    Attributes:
        loss, decision: their names.
        guess: the predicted label of each held-out row, as an index into the metric.
        accuracy, distance, nll: scores of each held-out row; `nll` is None for a regression.
        versus: the difference in `distance` from cross-entropy with the most probable label.
        settings: the chosen parameters of the loss and the penalty.
        validation: the mean distance by which they were chosen.
    """

    loss: str
    decision: str
    guess: NDArray[np.int64] = field(repr=False)
    accuracy: NDArray[np.float64] = field(repr=False)
    distance: NDArray[np.float64] = field(repr=False)
    nll: NDArray[np.float64] | None = field(default=None, repr=False)
    versus: Difference
    settings: dict[str, float] = field(default_factory=dict)
    validation: float = np.nan

    @property
    def name(self) -> str:
        """The loss and the decision rule in words."""
        return f"{self.loss}, {self.decision} label"

    @property
    def verdict(self) -> str:
        """Whether its mean distance is better or worse than cross-entropy's, or unclear."""
        return self.versus.verdict(more_is_better=False)


@dataclass(frozen=True)
class Comparison:
    """The result of :func:`wassloss.compare`; `str` returns a sentence and a table.

    Attributes:
        candidates: the losses and decision rules; cross-entropy with the most probable label is
            first.
        best: the model with the lowest validation distance, fitted to all rows.
        rows: the numbers of training and held-out rows.
        held: the held-out rows.
        truth: their labels, as indices into the metric.
    """

    candidates: tuple[Candidate, ...]
    best: TableModel
    rows: tuple[int, int]
    held: NDArray[np.int64] = field(repr=False)
    truth: NDArray[np.int64] = field(repr=False)

    @property
    def answer(self) -> str:
        """The finding in a sentence."""
        plain, ours = self.candidates[0], self.ours
        decided = next(c for c in self.candidates if (c.loss, c.decision) == (CE, LEAST_COST))
        right = [f"{100 * c.accuracy.mean():.1f} %" for c in (plain, ours)]
        return (
            f"{SAID[ours.verdict]}: on {self.rows[1]} held-out rows the mean distance is "
            f"{plain.distance.mean():.3g} with cross-entropy, {decided.distance.mean():.3g} if it "
            f"decides by least expected cost, and {ours.distance.mean():.3g} with the Wasserstein "
            f"loss and the {ours.decision} label, as chosen in tuning ({self.change(ours)} %); "
            f"accuracy {right[0]} (cross-entropy) and {right[1]} (Wasserstein)."
        )

    @property
    def kept(self) -> Candidate:
        """The candidate that `best` was fitted as, which is never a regression."""
        return min((c for c in self.candidates if c.nll is not None), key=lambda c: c.validation)

    @property
    def ours(self) -> Candidate:
        """W + KL with the decision rule that has the lower validation distance."""
        return min((c for c in self.candidates if c.loss == W), key=lambda c: c.validation)

    def change(self, candidate: Candidate) -> str:
        """The change in mean distance from the first candidate, in %."""
        return in_percent(candidate.versus, float(self.candidates[0].distance.mean()))

    @property
    def labels(self) -> list[str]:
        """The names of the labels, in the metric's order."""
        return list(self.best.labels)

    def table(self) -> tuple[list[str], list[list[str]]]:
        """A header, and a row of text for each candidate."""
        rows = []
        for c in self.candidates:
            own = "" if c is self.candidates[0] else self.change(c)
            nll = "" if c.nll is None else f"{c.nll.mean():.3f}"
            accuracy, distance = f"{100 * c.accuracy.mean():.1f} %", f"{c.distance.mean():.3f}"
            rows.append([c.loss, c.decision, accuracy, distance, nll, own, own and c.verdict])
        return ["loss", "answer", "accuracy", "mean distance", "NLL", "change, %", ""], rows

    def __str__(self) -> str:
        header, rows = self.table()
        widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
        lines = (map(str.ljust, row, widths) for row in [header, *rows])
        return "\n".join([self.answer, "", *("  ".join(line).rstrip() for line in lines)])


def in_percent(gap: Difference, before: float) -> str:
    """A difference and its interval, in % of the reference mean.

    >>> import numpy as np, wassloss as wl
    >>> in_percent(wl.scores.paired_difference(np.array([-0.4, -0.5, -0.6])), 5.0)
    '-10.0 [-15.0, -5.0]'
    >>> in_percent(wl.scores.paired_difference(np.array([-0.5])), 5.0)
    '-10.0 [no interval]'
    """
    if not before:
        return "–"  # nothing is relative to 0
    mean, low, high = (100 * x / before for x in (gap.mean, gap.low, gap.high))
    ends = "no interval" if math.isnan(low) else f"{low:+.1f}, {high:+.1f}"
    return f"{mean:+.1f} [{ends}]"
