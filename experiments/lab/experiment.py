"""The definition of an experiment: settings, computation, figures and conclusions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, TypeAlias

from experiments.lab.cache import Cache

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# The JSON: settings, machine, versions, timings, and the computed values under "found".
Result: TypeAlias = Mapping[str, Any]


class Outcome(Enum):
    """Whether a claim held."""

    HELD = "held"
    PARTLY = "held in part"
    FAILED = "did not hold"


@dataclass(frozen=True)
class Verdict:
    """Whether a claim of the paper held.

    claim: the claim, in a sentence.
    outcome: whether it held.
    effect: its size, in numbers with their intervals.
    words: conditions, exceptions and reasons.
    """

    claim: str
    outcome: Outcome
    effect: str
    words: str


@dataclass(frozen=True)
class Experiment:
    """One result of the paper, or one beyond it.

    Attributes:
        name: its name on the command line.
        title: one line for readers.
        claim: the claim to test.
        figure: its place in the paper.
        quick: settings (a frozen dataclass) that take minutes on a small machine.
        full: settings with the paper's own sizes.
        compute: maps settings to numbers, caching finished parts; independent of figures.
        draw: maps the JSON to figures by name.
        verdict: maps the JSON to conclusions.
        html: maps the JSON to a part of the page next to the figures, if any.
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
