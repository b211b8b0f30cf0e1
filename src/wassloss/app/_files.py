"""Recognise files that wassloss wrote by their first bytes, so that only those are replaced."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path

_HEAD = 2**12  # bytes read to recognise a file


def check_replaceable(
    path: str | os.PathLike[str], what: str, is_ours: Callable[[Path], object]
) -> None:
    """Refuse to replace a file that wassloss did not write.

    Empty files, devices and pipes are accepted, because they hold nothing that could be lost.
    """
    place = Path(path)
    if place.is_file() and place.stat().st_size and not is_ours(place):
        raise ValueError(
            f"{path} exists and is not {what} written by wassloss: move it away, or choose "
            "another name"
        )


def begins(pattern: bytes) -> Callable[[Path], bool]:
    """Return a function that tells whether a file begins with this pattern."""

    def is_ours(path: Path) -> bool:
        with open(path, "rb") as file:
            return re.match(pattern, file.read(_HEAD), re.DOTALL) is not None

    return is_ours


is_model = begins(rb'.{8}\{"__metadata__":\{"wassloss":')
is_exported = begins(rb"\x08.\x12\x08wassloss")  # ONNX's version, then the producer's name
