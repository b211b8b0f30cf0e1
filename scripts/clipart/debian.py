"""Debian's packages of clip art, read as they are: an ``ar`` archive with a tar file inside."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterator
from pathlib import Path

MAGIC = b"!<arch>\n"


def files(package: Path, suffix: str) -> Iterator[tuple[str, bytes]]:
    """Names below ``usr/share/openclipart/svg`` (or ``png``) and contents; links are left out."""
    with tarfile.open(fileobj=io.BytesIO(_data(package))) as archive:
        for member in archive:
            name = member.name.removeprefix("./")
            top = f"usr/share/openclipart/{suffix}/"
            if member.isfile() and name.startswith(top) and name.endswith(f".{suffix}"):
                content = archive.extractfile(member)
                if content is not None:
                    yield name.removeprefix(top).removesuffix(f".{suffix}"), content.read()


def _data(package: Path) -> bytes:
    raw = package.read_bytes()
    if not raw.startswith(MAGIC):
        raise ValueError(f"{package} is not a Debian package")
    place = len(MAGIC)
    while place + 60 <= len(raw):
        header = raw[place : place + 60]
        name, size = header[:16].decode("ascii").strip(" /"), int(header[48:58])
        place += 60
        if name.startswith("data.tar"):
            if len(raw) < place + size:
                break
            return raw[place : place + size]
        place += size + size % 2
    raise ValueError(f"{package} is damaged or cut short: it has no whole data.tar")
