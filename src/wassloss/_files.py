"""Write files completely or not at all, and read .npz archives without pickle and within limits."""

from __future__ import annotations

import io
import lzma
import os
import re
import secrets
import stat
import tokenize
import zipfile
import zlib
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

_LEFTOVER = ".wassloss.tmp"  # how the names of files end that are being written

_HEAD = 2**12  # bytes by which our files are known

# What a file may ask for: ours have a dozen members, and hardly ever compressed ones.
_MOST_MEMBERS = 64
_MOST_INFLATED = 2**28  # bytes of all members; more if the archive itself is as large

# What zipfile and NumPy raise, besides ValueError, for damaged archives that are in memory: OSError
# comes from bz2, and the last three are for the header of an array, read as a Python literal.
_DAMAGES = (
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
    EOFError,
    OSError,
    RuntimeError,
    MemoryError,
    SyntaxError,
    tokenize.TokenError,
)


def write_file(path: str | os.PathLike[str], content: bytes) -> None:
    """Write a file, all or nothing.

    An old file stays until the new one is complete and on disk, and passes on its mode and, where
    that is allowed, its owner; a failure leaves nothing behind. A symbolic link stays, and what it
    points to is written. What is not a plain file, such as a device or a pipe, is written to.
    """
    try:
        old = os.stat(path)
    except FileNotFoundError:
        old = None
    if old is not None and not stat.S_ISREG(old.st_mode):
        with open(path, "wb") as place:
            place.write(content)
        return
    target = Path(os.path.realpath(path))
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(4)}{_LEFTOVER}")
    mode = 0o666 if old is None else stat.S_IMODE(old.st_mode)
    try:
        # From the beginning no one may read it who may not read the old one.
        with open(temporary, "xb", opener=lambda name, how: os.open(name, how, mode)) as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        if old is not None:
            if os.name == "posix":
                with suppress(PermissionError):
                    os.chown(temporary, old.st_uid, old.st_gid)
            os.chmod(temporary, mode)  # which the umask, and chown, may have narrowed
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
            error.filename = os.fspath(path)  # a full disk does not name the file
        raise
    finally:
        temporary.unlink(missing_ok=True)


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


def remove_leftovers(directory: Path) -> None:
    """Remove what `write_file` left in a directory when its process was killed."""
    for path in directory.glob(f".*.{8 * '[0-9a-f]'}{_LEFTOVER}"):
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
    """Read an .npz archive; ValueError if it is damaged or too large when unpacked."""
    return unpack_npz(Path(path).read_bytes())


def unpack_npz(content: bytes) -> dict[str, NDArray[Any]]:
    """Read the bytes of an .npz archive."""
    file = io.BytesIO(content)
    try:
        if not zipfile.is_zipfile(file):
            raise ValueError("it is not a whole .npz archive")
        with zipfile.ZipFile(file) as archive:
            _check_limits(archive.infolist(), len(content))
        file.seek(0)
        with np.load(file, allow_pickle=False) as archive:
            arrays = dict(archive)
    except _DAMAGES as error:
        raise ValueError(f"the archive is damaged: {error}") from error
    for name, array in arrays.items():
        if not isinstance(array, np.ndarray):  # NumPy returns other members as bytes
            raise ValueError(f"its member {name!r} is not an array")
    return arrays


def _check_limits(members: list[zipfile.ZipInfo], packed: int) -> None:
    """Refuse an archive that a few bytes make enormous."""
    if len(members) > _MOST_MEMBERS:
        raise ValueError(f"it must have at most {_MOST_MEMBERS} members, got {len(members)}")
    size, most = sum(member.file_size for member in members), max(_MOST_INFLATED, packed)
    if size > most:
        raise ValueError(
            f"its members must have at most {most} bytes when they are unpacked, got {size}: "
            "save it without compression"
        )
