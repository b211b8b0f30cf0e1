"""Timing: warm-up, repeats, and contenders that would take too long."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from contenders import OURS, Contender
from problems import Work

ENOUGH_SECONDS, ENOUGH_RUNS = 1.0, 5  # repeat until there are this many and this time has passed
PATIENCE = 20.0  # seconds after which no more repeats are needed
TRIAL_SHARE, TRIAL_GROWTH = 0.1, 8  # share of the limit; growth of iterations between trials


@dataclass(frozen=True)
class Limits:
    """The limits of one contender."""

    seconds: float
    gigabytes: float


@dataclass(frozen=True)
class Measurement:
    """The result of one contender on one problem.

    Attributes:
        contender: its name.
        seconds: the time of each repeat, for the whole batch.
        error: the largest ℓ1 marginal error (for exact transport, that of the value), if any.
        examples: how many were solved; the time is scaled up to the whole batch.
        stopped_after: the iteration at which the time limit ended it.
        not_run: why there is no time.
    """

    contender: str
    seconds: list[float] = field(default_factory=list)
    error: float | None = None
    examples: int | None = None
    stopped_after: int | None = None
    not_run: str | None = None

    @property
    def median(self) -> float:
        return statistics.median(self.seconds) if self.seconds else math.nan


def measure(contender: Contender, work: Work, limits: Limits) -> Measurement:
    """Time one contender; a failure of another library is a result, not an error."""
    need = contender.gigabytes(work.case)
    if need > limits.gigabytes:
        return Measurement(contender.name, not_run=f"needs {need:.0f} GB")
    run = _measure_examples if contender.one_by_one else _measure_batch
    try:
        return run(contender, work, limits.seconds)
    except ImportError as missing:
        return Measurement(contender.name, not_run=f"missing: {missing}")
    except Exception as failure:
        if contender.name == OURS:
            raise
        reason = f"{type(failure).__name__}: {failure}".splitlines()[0][:200]
        return Measurement(contender.name, not_run=f"failed: {reason}")


def _measure_examples(contender: Contender, work: Work, limit: float) -> Measurement:
    allowed, batch = _allowed(contender, work.first(1), limit), work.case.batch
    took, _ = _timed(contender.prepare(work.first(1), allowed).run, work)
    count = batch if took * batch <= limit else max(1, min(batch, int(limit / 4 / took)))
    result = _measure_allowed(contender, work.first(count), limit, allowed)
    return replace(result, seconds=[s * batch / count for s in result.seconds])


def _measure_batch(contender: Contender, work: Work, limit: float) -> Measurement:
    return _measure_allowed(contender, work, limit, _allowed(contender, work, limit))


def _measure_allowed(contender: Contender, work: Work, limit: float, allowed: int) -> Measurement:
    attempt = contender.prepare(work, allowed)
    seconds, output = _repeated(attempt.run, work, limit)
    error = attempt.error(output)
    reached = error is None or error <= work.case.tol
    cut = allowed < contender.most_iterations and not reached and max(seconds) > limit / 2
    stopped = allowed if cut else None
    return Measurement(contender.name, seconds, error, work.case.batch, stopped)


def _allowed(contender: Contender, work: Work, limit: float) -> int:
    """The number of iterations that fit in the limit."""
    unit, most = contender.iterations_at_once, contender.most_iterations
    fitting = int(limit / _iteration_seconds(contender, work, limit)) // unit * unit
    return min(most, max(unit, fitting))


def _iteration_seconds(contender: Contender, work: Work, limit: float) -> float:
    """Predicted from growing numbers of iterations until start-up is negligible; also a warm-up.

    After a contender has reached its tolerance, further iterations cost next to nothing.
    """
    count = contender.iterations_at_once
    while True:
        trial = contender.prepare(work, count)
        took, _ = _timed(trial.run, work)
        if took > TRIAL_SHARE * limit or count >= contender.most_iterations:
            return took / count
        count = min(TRIAL_GROWTH * count, contender.most_iterations)


def _repeated(run: Callable[[], Any], work: Work, limit: float) -> tuple[list[float], Any]:
    seconds: list[float] = []
    output = None
    while not _enough(seconds, limit):
        output = None  # free the memory for the next run
        took, output = _timed(run, work)
        seconds.append(took)
    return seconds, output


def _enough(seconds: list[float], limit: float) -> bool:
    total = sum(seconds)
    repeated = total >= ENOUGH_SECONDS and len(seconds) >= ENOUGH_RUNS
    return repeated or total >= min(PATIENCE, limit)


def _timed(run: Callable[[], Any], work: Work) -> tuple[float, Any]:
    _synchronize(work)
    start = time.perf_counter()
    output = run()
    _synchronize(work)
    return time.perf_counter() - start, output


def _synchronize(work: Work) -> None:
    if work.h.device.type == "cuda":
        torch.cuda.synchronize()
