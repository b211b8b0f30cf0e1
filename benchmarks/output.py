"""Write files of benchmarks like those of experiments: atomically, with few digits."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parents[1]))  # the scripts are run by their path

from experiments.lab.compact_json import write_json
from experiments.lab.files import replacing
from experiments.lab.style import png

__all__ = ["png", "write", "write_record"]

DIGITS = 6  # significant; tables show three


def write(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as temporary:
        temporary.write_bytes(content)


def write_record(path: Path, record: Any) -> None:
    """Write JSON; an error of NaN is recorded as a missed tolerance."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_json(path, record, digits=DIGITS, allow_nan=True)
