"""What may be replaced: files that wassloss wrote, which begin as its files do."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path

_HEAD = 2**12  # bytes by which our files are known


def check_replaceable(
    path: str | os.PathLike[str], what: str, is_ours: Callable[[Path], object]
) -> None:
    """Refuse to replace a file that wassloss did not write.

    An empty file, a device or a pipe holds nothing that could be.
    """
    place = Path(path)
    if place.is_file() and place.stat().st_size and not is_ours(place):
        raise ValueError(
            f"{path} would be replaced, but is not {what} written by wassloss: move it away, or "
            "choose another name"
        )


def begins(pattern: bytes) -> Callable[[Path], bool]:
    """Whether a file begins as ours of this kind do, for `check_replaceable`."""

    def is_ours(path: Path) -> bool:
        with open(path, "rb") as file:
            return re.match(pattern, file.read(_HEAD), re.DOTALL) is not None

    return is_ours


is_model = begins(rb'.{8}\{"__metadata__":\{"wassloss":')
is_exported = begins(rb"\x08.\x12\x08wassloss")  # the version of ONNX, then who made it
