"""Parse the metadata of YFCC100M: one photo or video per line, with tab-separated fields.

The first edition has 23 columns; later ones 25, with a line number first and a hash third. Tags
are separated by commas and encoded as in URLs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

# Column indices of each edition, by its number of columns.
_PLACES = {23: (0, 8, 14, 22), 25: (1, 10, 16, 24)}
_LONGEST_LINE = 1 << 20

MALFORMED = (
    "line longer than 1 MiB",
    "neither 23 nor 25 columns",
    "identifier not a number",
    "marker neither photo nor video",
)


class Photo(NamedTuple):
    """A photo that has tags."""

    line: int  # within the block
    identifier: int
    tags: bytes
    url: bytes


def photos(lines: list[bytes], report: Counter[str]) -> Iterator[Photo]:
    r"""Yield the photos with tags; ``report`` counts all lines and all problems.

    >>> line = b"\t".join([b"7", *[b""] * 7, b"cat,new+york", *[b""] * 13, b"0"])
    >>> report = Counter()
    >>> [photo.tags for photo in photos([line, b"cut sho"], report)]
    [b'cat,new+york']
    >>> report["lines"], report["neither 23 nor 25 columns"]
    (2, 1)
    """
    report["lines"] += len(lines)
    for i, line in enumerate(lines):
        if len(line) > _LONGEST_LINE:
            report["line longer than 1 MiB"] += 1
            continue
        fields = line.split(b"\t")
        place = _PLACES.get(len(fields))
        if place is None:
            report["neither 23 nor 25 columns"] += 1
            continue
        identifier, tags, url, marker = place
        number = fields[identifier]
        if not number.isdigit() or len(number) > 18:
            report["identifier not a number"] += 1
            continue
        kind = fields[marker]
        if kind != b"0":
            kind = kind.rstrip(b"\r")
            if kind == b"1":
                report["videos"] += 1
                continue
            if kind != b"0":
                report["marker neither photo nor video"] += 1
                continue
        report["photos"] += 1
        if not fields[tags]:
            report["photos without tags"] += 1
            continue
        yield Photo(i, int(number), fields[tags], fields[url])
