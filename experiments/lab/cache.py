"""Keep finished parts of an experiment, so that an interrupted run continues."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from experiments.lab.compact_json import write_json


class Cache:
    """Computes parts of an experiment, or reads those of an earlier run.

    Args:
        folder: where to keep them; None to keep nothing.
        key: what the parts depend on, as JSON; parts with another key are computed again.
        say: called with a line about progress.

    Attributes:
        seconds: time that each part took to compute.
    """

    def __init__(
        self,
        folder: Path | None = None,
        key: Any = None,
        say: Callable[[str], None] | None = None,
    ) -> None:
        self.folder = folder
        self.key = json.loads(json.dumps(key))  # as it will be read back
        self.say = say or (lambda _: None)
        self.seconds: dict[str, float] = {}

    def part(self, name: str, compute: Callable[[], Any]) -> Any:
        """Return the result of `compute` after a round trip through JSON; computed once."""
        kept = self._kept(name)
        if kept is None:
            self.say(name)
            began = time.perf_counter()
            found = compute()
            seconds = round(time.perf_counter() - began, 3)
            kept = json.loads(json.dumps({"key": self.key, "seconds": seconds, "found": found}))
            if self.folder is not None:
                self.folder.mkdir(parents=True, exist_ok=True)
                write_json(self._path(name), kept, digits=None)
        self.seconds[name] = kept["seconds"]
        return kept["found"]

    def clear(self) -> None:
        """Remove the kept parts, once the whole result is written."""
        if self.folder is not None and self.folder.is_dir():
            for name in self.seconds:
                self._path(name).unlink(missing_ok=True)
            remove_if_empty(self.folder)

    def _kept(self, name: str) -> Any:
        if self.folder is None or not self._path(name).is_file():
            return None
        try:
            kept = json.loads(self._path(name).read_text(encoding="utf-8"))
        except ValueError:  # another format, or damaged: compute it again
            return None
        return kept if isinstance(kept, dict) and kept.get("key") == self.key else None

    def _path(self, name: str) -> Path:
        if self.folder is None:
            raise ValueError("folder must be given to keep parts, got None")
        return self.folder / f"{name.replace(' ', '_').replace('/', '_')}.json"


def remove_if_empty(folder: Path) -> None:
    """Remove a folder if it is empty."""
    if folder.is_dir() and not any(folder.iterdir()):
        folder.rmdir()
