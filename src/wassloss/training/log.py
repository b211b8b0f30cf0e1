"""The log of a run: one JSON object per line."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path

from wassloss.files import read_json, write_file

LOG_NAME = "log.jsonl"


@dataclass(frozen=True)
class Record:
    """One line of the log."""

    step: int  # steps taken so far
    loss: float  # mean since the last line, without weight decay
    score: float | None  # on the validation data, where it was computed
    learning_rate: float  # of the last step
    seconds: float  # spent training so far, over all resumptions
    unconverged: int = 0  # solves since the last line that the loss warned about

    def line(self) -> str:
        return json.dumps(asdict(self)) + "\n"


def records_until(step: int, path: Path) -> list[Record]:
    """The records of a run that continues from `step`; later lines are removed from its log."""
    path.touch()
    records = [record for record in read_log(path) if record.step <= step]
    write_file(path, "".join(record.line() for record in records).encode())
    return records


def read_log(path: str | os.PathLike[str]) -> list[Record]:
    """The records of a log, given its file or the directory of its run.

    A last line that was cut short, by a crash or by a run that is still writing, is left out.

    Raises:
        ValueError: another line is not a record; the message says which.
    """
    path = Path(path)
    path = path / LOG_NAME if path.is_dir() else path
    *lines, _ = path.read_bytes().split(b"\n")  # what follows the last newline was cut short
    return [_record(line, f"line {number} of {path}") for number, line in enumerate(lines, 1)]


def _record(line: bytes, where: str) -> Record:
    try:
        return Record(**read_json(line))
    except (ValueError, TypeError) as error:
        raise ValueError(f"{where} is not a record of a run: {error}") from error
