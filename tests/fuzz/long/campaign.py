"""Run batches of every kind in turn, each with its own seed, until time is up."""

from __future__ import annotations

import time
import traceback
import warnings
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from tests.fuzz.long import notes
from tests.fuzz.long.kinds import KINDS
from tests.fuzz.long.modes import drawn_mode
from tests.fuzz.long.tally import Tally
from tests.fuzz.long.ways import WrongAnswerError

FAILED_CALLS = 1  # counted for a failed batch, whose number of calls is unknown


@dataclass(frozen=True)
class Failure:
    """A failed batch, with all that is needed to reproduce it."""

    kind: str
    seed: int
    batch: int
    example: int | None
    message: str
    asked: str

    def __str__(self) -> str:
        example = "" if self.example is None else f", example {self.example}"
        return (
            f"{self.kind}, batch {self.batch}{example}: {self.message}\n"
            f"  asked: {self.asked}\n"
            f"  again: python -m tests.fuzz --kind {self.kind} --seed {self.seed} "
            f"--batch {self.batch}"
        )


@dataclass
class Record:
    """The results of the calls of one kind."""

    tally: Tally = field(default_factory=Tally)
    batches: int = 0
    seconds: float = 0.0
    failures: list[Failure] = field(default_factory=list)


def run_batch(kind: str, seed: int, batch: int) -> tuple[Tally, Failure | None]:
    """Draw, call and check one batch; the same arguments draw the same batch."""
    rng = np.random.default_rng([seed, zlib.crc32(kind.encode()), batch])
    notes.clear()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # also in the reference, so that it hides no overflow
            with drawn_mode(rng):
                return KINDS[kind](rng), None
    except Exception as error:  # any error is a finding
        example, message = None, f"{type(error).__name__}: {error}"
        if isinstance(error, WrongAnswerError):
            example, message = error.example, str(error)
        else:
            message += "\n" + "".join(traceback.format_tb(error.__traceback__)[-3:]).rstrip()
        failure = Failure(kind, seed, batch, example, message, notes.noted())
        return Tally(FAILED_CALLS), failure


def run(
    calls: int,
    seconds: float,
    seed: int,
    kinds: Sequence[str] = tuple(KINDS),
    on_failure: Callable[[Failure], None] = lambda failure: None,
) -> dict[str, Record]:
    """Make this many calls, as far as time allows, with an equal share for each kind."""
    records = {kind: Record() for kind in kinds}
    started = time.monotonic()
    while sum(record.tally.calls for record in records.values()) < calls:
        kind = min(records, key=lambda name: records[name].tally.calls)
        record, begun = records[kind], time.monotonic()
        if begun - started > seconds:
            break
        tally, failure = run_batch(kind, seed, record.batches)
        record.tally = record.tally + tally
        record.batches += 1
        record.seconds += time.monotonic() - begun
        if failure is not None:
            record.failures.append(failure)
            on_failure(failure)
    return records


def table(records: dict[str, Record]) -> str:
    """The records as a table in Markdown."""
    lines = [
        "| kind | calls | refused | doubtful | loose | failures | calls per second |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    whole = Record()
    for kind, record in records.items():
        lines.append(_row(kind, record))
        whole.tally = whole.tally + record.tally
        whole.seconds += record.seconds
        whole.failures += record.failures
    return "\n".join([*lines, _row("all", whole)])


def _row(name: str, record: Record) -> str:
    tally = record.tally

    def share(count: int) -> str:
        return f"{100 * count / max(1, tally.calls):.2g} %"

    rate = tally.calls / max(record.seconds, 1e-9)
    shares = [share(count) for count in (tally.refused, tally.doubtful, tally.loose)]
    cells = [name, f"{tally.calls:,}".replace(",", " "), *shares, str(len(record.failures))]
    return f"| {' | '.join(cells)} | {rate:.0f} |"
