"""The log of a run: one JSON object a line, from which a plot can be drawn."""

from __future__ import annotations

import json
import os
import secrets
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TextIO

LOG_NAME = "log.jsonl"


@dataclass(frozen=True)
class Record:
    """One line of the log.

    Attributes:
        iteration: steps taken so far.
        loss: mean since the last line, without the weight penalty.
        score: on the validation data, where it was computed.
        lr: learning rate of the last step.
        seconds: since the beginning, without the time between a stop and its resumption.
        unconverged: solves since the last line that the loss warned about.
    """

    iteration: int
    loss: float
    score: float | None
    lr: float
    seconds: float
    unconverged: int = 0


class RunLog:
    """Records in memory and, where there is a path, in a file that is up to date at any time."""

    def __init__(self, path: Path | None, iteration: int = 0) -> None:
        self.records: list[Record] = []
        self._file: TextIO | None = None
        if path is not None:
            self._cut_back(path, iteration)
            self._file = open(path, "a", encoding="utf-8")  # noqa: SIM115

    def add(self, record: Record) -> None:
        self.records.append(record)
        if self._file is not None:
            self._file.write(json.dumps(asdict(record)) + "\n")
            self._file.flush()

    def _cut_back(self, path: Path, iteration: int) -> None:
        """Forget what was logged after the checkpoint that a run goes on from."""
        if not path.exists():
            return
        self.records = [record for record in read_log(path) if record.iteration <= iteration]
        temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
        try:
            with open(temporary, "x", encoding="utf-8") as file:
                file.writelines(json.dumps(asdict(record)) + "\n" for record in self.records)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)

    def __enter__(self) -> RunLog:
        return self

    def __exit__(self, *exception: object) -> None:
        if self._file is not None:
            self._file.close()


def read_log(path: str | os.PathLike[str]) -> list[Record]:
    """The records of a log, given its file or the directory of its run.

    A last line that was cut short, by a crash or a run that is still writing, is left out.

    Raises:
        ValueError: another line is not a record; the message says which.
    """
    path = Path(path)
    if path.is_dir():
        path = path / LOG_NAME
    return parse_log(path.read_bytes(), path)


def parse_log(content: bytes, path: Path) -> list[Record]:
    """The records in the content of a log; `path` is for error messages."""
    try:
        lines = content.decode("utf-8").splitlines(keepends=True)
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not a log of a run: {error}") from error
    if lines and not lines[-1].endswith("\n"):
        lines.pop()
    return [_record(line, f"line {number} of {path}") for number, line in enumerate(lines, 1)]


def _record(line: str, where: str) -> Record:
    try:
        return Record(**json.loads(line))
    except (ValueError, TypeError) as error:
        raise ValueError(f"{where} is not a record of a run: {error}") from error
