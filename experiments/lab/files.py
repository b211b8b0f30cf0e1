"""Write files atomically, and read archives without pickle."""

from __future__ import annotations

import os
import secrets
import tokenize
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

# Errors of zipfile and NumPy for a damaged archive, besides ValueError.
_DAMAGES = (
    zipfile.BadZipFile,
    zlib.error,
    EOFError,
    RuntimeError,
    SyntaxError,
    tokenize.TokenError,
)


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a temporary path to write to, which replaces ``path`` once the block succeeds."""
    target = Path(path)
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(4)}.tmp")
    try:
        yield temporary
        with open(temporary, "rb+") as file:
            os.fsync(file.fileno())
        os.replace(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)


def write_npz(path: str | os.PathLike[str], arrays: dict[str, NDArray[Any]]) -> None:
    """Write arrays as .npz, atomically."""
    with replacing(path) as temporary, open(temporary, "xb") as file:
        np.savez(file, **arrays)  # type: ignore[arg-type, unused-ignore]


def read_npz(path: str | os.PathLike[str]) -> dict[str, NDArray[Any]]:
    """Read all arrays of an .npz archive; any other file is a ValueError with the reason."""
    try:
        if not zipfile.is_zipfile(path) and Path(path).exists():
            raise ValueError("it is not a whole .npz archive")
        with np.load(path, allow_pickle=False) as archive:
            return dict(archive)
    except _DAMAGES as error:
        raise ValueError(f"the archive is damaged: {error}") from error
