"""Every kind of call that is tested, by its name in the report."""

from collections.abc import Callable

from numpy.random import Generator

from tests.fuzz.long.kinds import (
    algorithm_one,
    balanced,
    debiased,
    measures,
    metrics,
    nearest,
    reductions,
    relaxed,
    scores,
    senseless,
)
from tests.fuzz.long.tally import Tally

# Each draws a batch of calls, makes them, raises if an answer is wrong, and counts.
KINDS: dict[str, Callable[[Generator], Tally]] = {
    "balanced": balanced.entropic,
    "exact": balanced.exact,
    "relaxed": relaxed.relaxed,
    "one-sided": relaxed.one_sided,
    "nearest": nearest.nearest,
    "debiased": debiased.debiased,
    "iterations": algorithm_one.fixed_iterations,
    "distances": measures.distances,
    "plans": measures.plans,
    "reductions": reductions.reductions,
    "metrics": metrics.metrics,
    "scores": scores.scores,
    "decisions": scores.decisions,
    "senseless": senseless.senseless,
}
