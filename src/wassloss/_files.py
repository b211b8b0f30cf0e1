"""Write files completely or not at all, and read .npz archives without pickle."""

from __future__ import annotations

import io
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

# What zipfile and NumPy raise, besides ValueError, for damaged archives. The last three are for
# the header of an array, which is read as a Python literal.
_DAMAGES = (
    zipfile.BadZipFile,
    zlib.error,
    EOFError,
    RuntimeError,
    MemoryError,
    SyntaxError,
    tokenize.TokenError,
)


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A temporary path to write to, which replaces ``path`` when the block succeeds.

    An old file stays until the new one is complete and on disk; a failure leaves nothing behind.
    """
    target = Path(path)
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(4)}.tmp")
    try:
        yield temporary
        with open(temporary, "rb+") as file:
            os.fsync(file.fileno())
        os.replace(temporary, target)
        if os.name == "posix":  # elsewhere directories cannot be opened
            # The new name has to survive a power failure, too.
            descriptor = os.open(target.parent, os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
    except OSError as error:
        if error.errno is not None and error.filename in (None, str(temporary)):
            error.filename = str(target)  # a full disk does not name the file
        raise
    finally:
        temporary.unlink(missing_ok=True)


def write_file(path: str | os.PathLike[str], content: bytes) -> None:
    """Write a file, all or nothing."""
    with replacing(path) as temporary:
        temporary.write_bytes(content)


def remove_leftovers(directory: Path) -> None:
    """Remove what `replacing` left in a directory when its process was killed."""
    for path in directory.glob(f".*.{8 * '[0-9a-f]'}.tmp"):
        path.unlink(missing_ok=True)


def write_npz(path: str | os.PathLike[str], arrays: dict[str, NDArray[Any]]) -> None:
    """Write arrays to an .npz archive, all or nothing."""
    write_file(path, pack_npz(arrays))


def pack_npz(arrays: dict[str, NDArray[Any]]) -> bytes:
    """Arrays as the bytes of an .npz archive."""
    packed = io.BytesIO()
    np.savez(packed, **arrays)  # type: ignore[arg-type, unused-ignore]
    return packed.getvalue()


def read_npz(path: str | os.PathLike[str]) -> dict[str, NDArray[Any]]:
    """Read an .npz archive; ValueError if it is damaged."""
    return unpack_npz(Path(path).read_bytes())


def unpack_npz(content: bytes) -> dict[str, NDArray[Any]]:
    """Read the bytes of an .npz archive."""
    file = io.BytesIO(content)
    try:
        if not zipfile.is_zipfile(file):
            raise ValueError("it is not a whole .npz archive")
        file.seek(0)
        with np.load(file, allow_pickle=False) as archive:
            arrays = dict(archive)
    except _DAMAGES as error:
        raise ValueError(f"the archive is damaged: {error}") from error
    for name, array in arrays.items():
        if not isinstance(array, np.ndarray):  # NumPy returns other members as bytes
            raise ValueError(f"its member {name!r} is not an array")
    return arrays
