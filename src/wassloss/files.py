"""Files that are written completely or not at all, and read without pickle and within limits.

Arrays are kept in .npz archives; tensors with JSON in safetensors files that carry their own
SHA-256 sum, so that a single changed bit is noticed. The sum is over all bytes, with zeros in its
place.

>>> import torch
>>> content = pack_tensors({"weights": torch.zeros(2)}, {"steps": 3})
>>> unpack_tensors(content)
({'weights': tensor([0., 0.])}, {'steps': 3})
"""

from __future__ import annotations

import hashlib
import io
import json
import lzma
import os
import re
import secrets
import stat
import tokenize
import zipfile
import zlib
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["pack_tensors", "read_npz", "unpack_tensors", "write_file", "write_npz"]

_TEMPORARY = ".wassloss.tmp"  # ends the names of files that are being written

# What a file may ask for: ours have a dozen members, and hardly ever compressed ones.
_MOST_MEMBERS = 64
_MOST_INFLATED = 2**28  # bytes of all members; more if the archive itself is as large

_BLANK = b"0" * 64
# The last field of the one entry of metadata, a string of JSON. Its quotes are escaped once, those
# of names and labels inside it more often.
_IN_THE_HEADER = re.compile(rb'\\"sha256\\": \\"([0-9a-f]{64})\\"}"')

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
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(4)}{_TEMPORARY}")
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


def pack_tensors(tensors: dict[str, Tensor], values: dict[str, Any]) -> bytes:
    """Return tensors and JSON as the content of one safetensors file with its sum."""
    # Copies, because safetensors refuses tensors that share memory, as tied weights do.
    copies = {name: t.detach().cpu().clone().contiguous() for name, t in tensors.items()}
    # One entry only, because safetensors writes several in an order that changes.
    metadata = {"wassloss": json.dumps({**values, "sha256": _BLANK.decode()})}
    blank: bytes = import_safetensors().torch.save(copies, metadata)
    place = _IN_THE_HEADER.search(blank)
    if place is None:  # pragma: no cover - only another safetensors could write it otherwise
        raise RuntimeError("safetensors wrote its metadata in an unknown form")
    return blank[: place.start(1)] + _sum(blank) + blank[place.end(1) :]


def unpack_tensors(content: bytes) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Return what `pack_tensors` was given, on the CPU; ValueError for any other content."""
    safetensors = import_safetensors()
    place = _IN_THE_HEADER.search(content)
    blank = b"" if place is None else content[: place.start(1)] + _BLANK + content[place.end(1) :]
    if place is None or _sum(blank) != place[1]:
        raise ValueError("it was changed or cut short since it was written")
    header = read_json(content[8 : 8 + int.from_bytes(content[:8], "little")])
    values = read_json(header["__metadata__"]["wassloss"])
    del values["sha256"]
    try:
        return safetensors.torch.load(content), values
    except safetensors.SafetensorError as error:
        raise ValueError(str(error)) from error


def read_json(text: str | bytes) -> dict[str, Any]:
    """Return an object in JSON; ValueError for anything else, also if it is nested too deep."""
    try:
        found = json.loads(text)
    except RecursionError:
        raise ValueError("its JSON is nested too deep") from None
    if not isinstance(found, dict):
        raise ValueError(f"its JSON must be an object, got a {type(found).__name__}")
    return found


def import_safetensors() -> Any:
    """Import the optional package with its functions for torch."""
    try:
        import safetensors.torch
    except ImportError as error:
        raise ImportError(
            'files of models need safetensors: pip install "wassloss[app]"'
        ) from error
    return safetensors


def _sum(content: bytes) -> bytes:
    return hashlib.sha256(content).hexdigest().encode()


def __dir__() -> list[str]:
    return __all__
