"""Learning-rate schedules: pure functions of the iteration, so that nothing of them needs saving.

`factor(iteration, iterations)` multiplies the optimiser's learning rate; iterations count from 0.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Protocol

from wassloss._checks import check_count, check_strength


class Schedule(Protocol):
    """How the learning rate changes over a run."""

    def factor(self, iteration: int, iterations: int) -> float: ...


@dataclass(frozen=True)
class Constant:
    """The same learning rate throughout.

    >>> Constant().factor(50, 100)
    1.0
    """

    def factor(self, iteration: int, iterations: int) -> float:
        return 1.0


@dataclass(frozen=True)
class Cosine:
    """Half a cosine, from the full learning rate down to the share `final` of it.

    >>> [round(Cosine().factor(i, 100), 3) for i in (0, 50, 99)]
    [1.0, 0.5, 0.0]
    """

    final: float = 0.0

    def __post_init__(self) -> None:
        check_strength("final", self.final)

    def factor(self, iteration: int, iterations: int) -> float:
        done = min(1.0, iteration / iterations)
        return self.final + (1 - self.final) * (1 + math.cos(math.pi * done)) / 2


@dataclass(frozen=True)
class Step:
    """Multiplied by `ratio` every `every` iterations.

    >>> [Step(every=10, ratio=0.5).factor(i, 100) for i in (9, 10, 20)]
    [1.0, 0.5, 0.25]
    """

    every: int
    ratio: float = 0.1

    def __post_init__(self) -> None:
        check_count("every", self.every)
        check_strength("ratio", self.ratio)

    def factor(self, iteration: int, iterations: int) -> float:
        return float(self.ratio ** (iteration // self.every))


@dataclass(frozen=True)
class WarmUp:
    """A straight line up over the first `steps` iterations, then another schedule from its start.

    >>> [WarmUp(4).factor(i, 100) for i in range(5)]
    [0.25, 0.5, 0.75, 1.0, 1.0]
    """

    steps: int
    then: Schedule = field(default_factory=Constant)

    def __post_init__(self) -> None:
        check_count("steps", self.steps)

    def factor(self, iteration: int, iterations: int) -> float:
        if iteration < self.steps:
            return (iteration + 1) / self.steps
        return self.then.factor(iteration - self.steps, max(1, iterations - self.steps))
