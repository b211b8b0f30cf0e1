"""Read Debian's packages of clip art: an ``ar`` archive that contains a tar file."""

from __future__ import annotations

import io
import posixpath
import tarfile
from collections.abc import Iterator
from pathlib import Path

MAGIC = b"!<arch>\n"


def files(package: Path, suffix: str, links: bool = False) -> Iterator[tuple[str, bytes]]:
    """Yield names below ``usr/share/openclipart/svg`` (or ``png``) and contents.

    Args:
        package: the .deb file.
        suffix: ``svg`` or ``png``.
        links: whether to yield links, with the contents of the files they point to.
    """
    top = f"usr/share/openclipart/{suffix}/"
    contents: dict[str, bytes] = {}  # for links: going back in a compressed archive is slow
    targets: dict[str, str] = {}
    with tarfile.open(fileobj=io.BytesIO(_data(package))) as archive:
        for member in archive:
            name = member.name.removeprefix("./")
            if not name.startswith(top) or not name.endswith(f".{suffix}"):
                continue
            if member.issym():
                targets[name] = posixpath.normpath(posixpath.join(name, "..", member.linkname))
            file = archive.extractfile(member) if member.isfile() else None
            if file is not None:
                content = file.read()
                if links:
                    contents[name] = content
                yield _short(name, top), content
    for name, target in targets.items():
        if target in contents:
            yield _short(name, top), contents[target]


def _short(name: str, top: str) -> str:
    return posixpath.splitext(name.removeprefix(top))[0]


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
