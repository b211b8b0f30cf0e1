"""Write files atomically, and read them without pickle and within size limits.

Arrays are stored in .npz archives. Tensors with JSON are stored in safetensors files that carry
their own SHA-256 checksum, which detects any changed bit. The checksum is over all bytes, with
zeros in place of the checksum itself.

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

_TEMPORARY = ".wassloss.tmp"  # suffix of files that are being written

# Limits against decompression bombs; wassloss writes about a dozen members, rarely compressed.
_MOST_MEMBERS = 64
_MOST_INFLATED = 2**28  # uncompressed bytes of all members, unless the archive itself is larger

_BLANK = b"0" * 64
# The last field of the JSON string in the metadata. Its quotes are escaped once; quotes inside
# names and labels are escaped more often.
_IN_THE_HEADER = re.compile(rb'\\"sha256\\": \\"([0-9a-f]{64})\\"}"')

# What zipfile and NumPy raise, besides ValueError, for damaged archives in memory. OSError comes
# from bz2, and the last three from the header of an array, which is read as a Python literal.
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
    """Write a file atomically.

    An existing file stays until the new one is complete and on disk. The new file has its mode and,
    where permitted, its owner. A failure leaves nothing behind. Symbolic links are followed.
    Devices, pipes and other special files are written to directly.
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
        # The old mode from the start: the temporary file must not be more readable.
        with open(temporary, "xb", opener=lambda name, how: os.open(name, how, mode)) as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        if old is not None:
            if os.name == "posix":
                with suppress(PermissionError):
                    os.chown(temporary, old.st_uid, old.st_gid)
            os.chmod(temporary, mode)  # the umask and chown may have removed bits
        os.replace(temporary, target)
        if os.name == "posix":  # elsewhere directories cannot be opened
            # Sync the directory, so that the new name survives a power failure.
            descriptor = os.open(target.parent, os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
    except OSError as error:
        if error.errno is not None and error.filename in (None, str(temporary)):
            error.filename = os.fspath(path)  # the error of a full disk names no file
        raise
    finally:
        temporary.unlink(missing_ok=True)


def write_npz(path: str | os.PathLike[str], arrays: dict[str, NDArray[Any]]) -> None:
    """Write arrays to an .npz archive atomically."""
    write_file(path, pack_npz(arrays))


def pack_npz(arrays: dict[str, NDArray[Any]]) -> bytes:
    """Return the bytes of an .npz archive of arrays."""
    packed = io.BytesIO()
    np.savez(packed, **arrays)  # type: ignore[arg-type, unused-ignore]
    return packed.getvalue()


def read_npz(path: str | os.PathLike[str]) -> dict[str, NDArray[Any]]:
    """Read an .npz archive; raise a ValueError if it is damaged or unpacks to too much."""
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
    """Refuse a decompression bomb."""
    if len(members) > _MOST_MEMBERS:
        raise ValueError(f"it must have at most {_MOST_MEMBERS} members, got {len(members)}")
    size, most = sum(member.file_size for member in members), max(_MOST_INFLATED, packed)
    if size > most:
        raise ValueError(
            f"its members must have at most {most} bytes uncompressed, got {size}: "
            "save it without compression"
        )


def pack_tensors(tensors: dict[str, Tensor], values: dict[str, Any]) -> bytes:
    """Return the bytes of a safetensors file with tensors, JSON and a checksum."""
    # Copies, because safetensors refuses tensors that share memory, such as tied weights.
    copies = {name: t.detach().cpu().clone().contiguous() for name, t in tensors.items()}
    # A single entry, because safetensors does not keep the order of several.
    metadata = {"wassloss": json.dumps({**values, "sha256": _BLANK.decode()})}
    blank: bytes = import_safetensors().torch.save(copies, metadata)
    place = _IN_THE_HEADER.search(blank)
    if place is None:  # pragma: no cover - depends on safetensors' header format
        raise RuntimeError("safetensors wrote its metadata in an unknown format")
    return blank[: place.start(1)] + _sum(blank) + blank[place.end(1) :]


def unpack_tensors(content: bytes) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Return the tensors, on the CPU, and the values that were given to `pack_tensors`.

    Raises:
        ValueError: the content is damaged or was not written by `pack_tensors`.
    """
    safetensors = import_safetensors()
    place = _IN_THE_HEADER.search(content)
    blank = b"" if place is None else content[: place.start(1)] + _BLANK + content[place.end(1) :]
    if place is None or _sum(blank) != place[1]:
        raise ValueError("it was changed or truncated after it was written")
    header = read_json(content[8 : 8 + int.from_bytes(content[:8], "little")])
    values = read_json(header["__metadata__"]["wassloss"])
    del values["sha256"]
    try:
        return safetensors.torch.load(content), values
    except safetensors.SafetensorError as error:
        raise ValueError(str(error)) from error


def read_json(text: str | bytes) -> dict[str, Any]:
    """Parse a JSON object; raise a ValueError for anything else, including deep nesting."""
    try:
        found = json.loads(text)
    except RecursionError:
        raise ValueError("its JSON is nested too deeply") from None
    if not isinstance(found, dict):
        raise ValueError(f"its JSON must be an object, got a {type(found).__name__}")
    return found


def import_safetensors() -> Any:
    """Import the optional package safetensors, with its functions for torch."""
    try:
        import safetensors.torch
    except ImportError as error:
        raise ImportError('model files need safetensors: pip install "wassloss[app]"') from error
    return safetensors


def _sum(content: bytes) -> bytes:
    return hashlib.sha256(content).hexdigest().encode()


def __dir__() -> list[str]:
    return __all__
