"""Timing: warm-up, repeats, and contenders that would take too long."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from contenders import Contender
from problems import Work

ENOUGH_RUNS, MOST_RUNS = 5, 50  # repeats, whatever their time
ASKED = (1, 5, 25)  # divisors of the tolerance, tried while a contender's own norm stops it early
PATIENCE = 20.0  # seconds after which no more repeats are needed
TRIAL_SHARE, TRIAL_GROWTH = 0.1, 8  # share of the limit; growth of iterations between trials
SINGLE_TRIAL = 5  # checks of the error in the one trial, if every number is compiled
FIRST_SEARCHED, SEARCH_PRECISION = 8, 0.1  # first number of iterations; relative precision
SMALL = 0.1  # an error that a few iterations reach


@dataclass(frozen=True)
class Limits:
    """The limits of one contender."""

    seconds: float
    gigabytes: float
    enough: float = 1.0  # seconds of repeats


@dataclass(frozen=True)
class Measurement:
    """The result of one contender on one problem.

    Attributes:
        contender: its name.
        seconds: the time of each repeat, for the whole batch.
        error: the largest ℓ1 marginal error (for exact transport, that of the value), if any.
        examples: how many were solved; the time is scaled up to the whole batch.
        stopped_after: the iteration at which it reached the time limit.
        not_run: why there is no time.
        iterations: its own count, for the example that took most.
        gigabytes: the peak GPU memory minus what was allocated before, if torch reports it.
        asked: the tolerance it was given, if lower than ours because its own norm is easier.
    """

    contender: str
    seconds: list[float] = field(default_factory=list)
    error: float | None = None
    examples: int | None = None
    stopped_after: int | None = None
    not_run: str | None = None
    iterations: int | None = None
    gigabytes: float | None = None
    asked: float | None = None

    @property
    def median(self) -> float:
        return statistics.median(self.seconds) if self.seconds else math.nan


def measure(contender: Contender, work: Work, limits: Limits) -> Measurement:
    """Time one contender; a failure of another library is a result, not an error."""
    need = contender.gigabytes(work.case)
    if need > limits.gigabytes:
        return Measurement(contender.name, not_run=f"needs {need:.0f} GB")
    try:
        return _to_the_same_error(contender, work, limits)
    except ImportError as missing:
        return Measurement(contender.name, not_run=f"missing: {missing}")
    except Exception as failure:  # including ours: one failure must not end the run
        lines = f"{type(failure).__name__}: {failure}".splitlines()
        return Measurement(contender.name, not_run=f"failed: {lines[0][:200]}")


def _to_the_same_error(contender: Contender, work: Work, limits: Limits) -> Measurement:
    """Lower the tolerance in a contender's own norm until the error is within ours.

    Keep the first result if no tolerance achieves this.
    """
    first: Measurement | None = None
    for part in ASKED:
        asked = work.asking(work.case.tol / part)
        found = _measure(contender, asked, limits)
        first = first or found
        error = found.error
        if error is None or error <= work.case.tol:
            return replace(found, asked=asked.case.tol) if part > 1 else found
        near = error <= work.case.tol * math.sqrt(work.case.labels)
        if not near or found.stopped_after or contender.searched:
            break
    return first


def _measure(contender: Contender, work: Work, limits: Limits) -> Measurement:
    if not contender.one_by_one:
        return _measure_allowed(contender, work, limits, _allowed(contender, work, limits))
    one, batch = work.first(1), work.case.batch
    allowed = _allowed(contender, one, limits)
    took, _ = _timed(contender.prepare(one, allowed).run, one)
    fits = took * batch <= limits.seconds
    count = batch if fits else max(1, min(batch, int(limits.seconds / 4 / took)))
    result = _measure_allowed(contender, work.first(count), limits, allowed)
    return replace(result, seconds=[s * batch / count for s in result.seconds])


def _measure_allowed(contender: Contender, work: Work, limits: Limits, allowed: int) -> Measurement:
    attempt = contender.prepare(work, allowed)
    before = _memory(work)
    seconds, output = _repeated(attempt.run, work, limits)
    peak = None if before is None else (torch.cuda.max_memory_allocated() - before) / 1e9
    error, iterations = attempt.error(output), attempt.iterations(output)
    reached = error is None or error <= work.case.tol
    short = contender.searched or max(seconds) > limits.seconds / 2
    cut = allowed < contender.most_iterations and not reached and short
    stopped = allowed if cut else None
    count = work.case.batch
    return Measurement(contender.name, seconds, error, count, stopped, None, iterations, peak)


def _memory(work: Work) -> int | None:
    """The GPU memory in use, after resetting the peak."""
    if work.h.device.type != "cuda":
        return None
    torch.cuda.reset_peak_memory_stats()
    return torch.cuda.memory_allocated()


def _allowed(contender: Contender, work: Work, limits: Limits) -> int:
    """The number of iterations that fit in the limit, or that are enough."""
    if contender.searched:
        return _fewest(contender, work, limits.seconds)
    unit, most = contender.iterations_at_once, contender.most_iterations
    if not contender.trials:
        return _allowed_after_one_trial(contender, work, limits)
    took = _iteration_seconds(contender, work, limits.seconds)
    return min(most, max(unit, int(limits.seconds / took) // unit * unit))


def _allowed_after_one_trial(contender: Contender, work: Work, limits: Limits) -> int:
    """As `_allowed`, for a contender that compiles each number of iterations."""
    unit, most = contender.iterations_at_once, contender.most_iterations
    count = min(SINGLE_TRIAL * unit, most)
    trial = contender.prepare(work, count)
    trial.run()
    took, output = _timed(trial.run, work)
    used = trial.iterations(output)
    if used is not None and 0 < used < count:
        return count
    return min(most, max(unit, int(limits.seconds * count / took) // unit * unit))


def _fewest(contender: Contender, work: Work, limit: float) -> int:
    """The fewest iterations, up to 10 %, that reach the tolerance; else those that fit the limit.

    Double the number until the error is small enough, then bisect. Give up when a small error has
    not decreased for two doublings, because it is then limited by precision.
    """
    low, high, spent, errors = 0, FIRST_SEARCHED, 0.0, [math.inf] * 2
    while True:
        took, error = _tried(contender, work, high)
        spent += took
        errors.append(error)
        if error <= work.case.tol:
            break
        stuck = error < SMALL and not min(errors[-2:]) < 0.9 * min(errors[:-2])
        if stuck or spent + 2 * took > limit or 2 * high > contender.most_iterations:
            return high
        low, high = high, 2 * high
    while high - low > max(1, SEARCH_PRECISION * high) and spent < limit:
        middle = (low + high) // 2
        took, error = _tried(contender, work, middle)
        spent += took
        low, high = (low, middle) if error <= work.case.tol else (middle, high)
    return high


def _tried(contender: Contender, work: Work, iterations: int) -> tuple[float, float]:
    attempt = contender.prepare(work, iterations)
    if iterations == FIRST_SEARCHED:
        attempt.run()  # compiles
    took, output = _timed(attempt.run, work)
    error = attempt.error(output)
    return took, math.inf if error is None or math.isnan(error) else error


def _iteration_seconds(contender: Contender, work: Work, limit: float) -> float:
    """Estimate from growing numbers of iterations until start-up is negligible; also a warm-up.

    Once a contender has reached its tolerance, further iterations take almost no time.
    """
    count = contender.iterations_at_once
    while True:
        trial = contender.prepare(work, count)
        took, _ = _timed(trial.run, work)
        if took > TRIAL_SHARE * limit or count >= contender.most_iterations:
            return took / count
        count = min(TRIAL_GROWTH * count, contender.most_iterations)


def _repeated(run: Callable[[], Any], work: Work, limits: Limits) -> tuple[list[float], Any]:
    seconds: list[float] = []
    output = None
    while not _enough(seconds, limits):
        output = None  # free the memory for the next run
        took, output = _timed(run, work)
        seconds.append(took)
    return seconds, output


def _enough(seconds: list[float], limits: Limits) -> bool:
    total = sum(seconds)
    repeated = total >= limits.enough and len(seconds) >= ENOUGH_RUNS
    return repeated or len(seconds) >= MOST_RUNS or total >= min(PATIENCE, limits.seconds)


def _timed(run: Callable[[], Any], work: Work) -> tuple[float, Any]:
    _synchronize(work)
    start = time.perf_counter()
    output = run()
    _synchronize(work)
    return time.perf_counter() - start, output


def _synchronize(work: Work) -> None:
    if work.h.device.type == "cuda":
        torch.cuda.synchronize()
