"""Find data sets that do not ship with the package."""

from __future__ import annotations

import gzip
import os
import zlib
from pathlib import Path

VARIABLE = "WASSLOSS_DATA"


def folders() -> list[Path]:
    """Folders to search: ``$WASSLOSS_DATA`` if set, then the user's cache."""
    import pooch  # of the extra `experiments`

    given = os.environ.get(VARIABLE)
    cache = Path(pooch.os_cache("wassloss"))
    return [*([Path(given)] if given else []), cache]


def find(folder: str, *names: str) -> Path:
    """Find the first of ``names`` that exists in ``folder`` of a searched place.

    Raises:
        FileNotFoundError: none exists; the message lists the places searched.
    """
    found = find_optional(folder, *names)
    if found is not None:
        return found
    places = [str(place / folder / names[0]) for place in folders()]
    if VARIABLE not in os.environ:
        places.insert(0, f"${VARIABLE}/{folder}/{names[0]} ({VARIABLE} is not set)")
    also = f" (or {', '.join(names[1:])} there)" if len(names) > 1 else ""
    raise FileNotFoundError(f"put the file at {' or at '.join(places)}{also}; it was not found")


def find_optional(folder: str, *names: str) -> Path | None:
    """As ``find``, but return None if there is no such file."""
    candidates = (place / folder / name for place in folders() for name in names)
    return next((path for path in candidates if path.is_file()), None)


def read_bytes(path: str | os.PathLike[str]) -> bytes:
    """Read the bytes of a file, decompressed if it starts as a gzip file does."""
    raw = Path(path).read_bytes()
    if not raw.startswith(b"\x1f\x8b"):
        return raw
    try:
        return gzip.decompress(raw)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise ValueError(f"{os.fspath(path)} is damaged or cut short: {error}") from error
