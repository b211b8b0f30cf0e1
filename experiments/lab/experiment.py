"""What an experiment is: settings, how to compute, how to draw, and what to conclude."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, TypeAlias

from experiments.lab.cache import Cache

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# What JSON holds: settings, machine, versions, timings, and under "found" what was computed.
Result: TypeAlias = Mapping[str, Any]


class Outcome(Enum):
    """What became of a claim."""

    HELD = "held"
    PARTLY = "held in part"
    FAILED = "did not hold"


@dataclass(frozen=True)
class Verdict:
    """Whether a claim of the paper held.

    Attributes:
        claim: the claim, in a sentence.
        outcome: whether it held.
        effect: how much, in numbers with their interval.
        words: what to know about it: conditions, exceptions, reasons.
    """

    claim: str
    outcome: Outcome
    effect: str
    words: str


@dataclass(frozen=True)
class Experiment:
    """One result of the paper, or one beyond it.

    Attributes:
        name: what the command line calls it.
        title: one line for readers.
        claim: what is tested.
        figure: where it is in the paper.
        quick: settings (a frozen dataclass) for minutes on a small machine.
        full: settings of the paper's own sizes.
        compute: from settings to numbers, caching finished parts; independent of figures.
        draw: from the JSON to figures by name.
        verdict: from the JSON to conclusions.
        html: from the JSON to a part of the page next to the figures, if any.
    """

    name: str
    title: str
    claim: str
    figure: str
    quick: Any
    full: Any
    compute: Callable[[Any, Cache], dict[str, Any]]
    draw: Callable[[Result], dict[str, Figure]]
    verdict: Callable[[Result], list[Verdict]]
    html: Callable[[Result], str] | None = None
