"""Which rows a process sees in which batch: arithmetic on row numbers."""

from __future__ import annotations

import bisect
import itertools
from typing import NamedTuple


class Piece(NamedTuple):
    """Rows ``start`` to ``stop`` of one row group of one file."""

    file: int
    group: int
    start: int
    stop: int


def stretch(
    rows: int, batch_size: int, rank: int, world_size: int, drop_last: bool
) -> tuple[int, int]:
    """The rows of one process as a half-open range.

    >>> [stretch(10, 2, rank, 3, drop_last=False) for rank in range(3)]
    [(0, 3), (3, 6), (6, 10)]
    >>> [stretch(10, 2, rank, 3, drop_last=True) for rank in range(3)]
    [(0, 2), (2, 4), (4, 6)]
    """
    if drop_last:
        each = rows // (batch_size * world_size) * batch_size
        if each == 0:
            raise ValueError(
                f"batch_size must be at most {rows // world_size} for {rows} rows on {world_size} "
                f"processes with drop_last, got {batch_size}"
            )
        return rank * each, (rank + 1) * each
    if rows < world_size:
        raise ValueError(f"world_size must be at most the {rows} rows, got {world_size}")
    if batch_size == 1 and rows % world_size:
        raise ValueError(
            f"batch_size must be at least 2, or drop_last, where {rows} rows do not divide among "
            f"{world_size} processes, got 1"
        )
    return rank * rows // world_size, (rank + 1) * rows // world_size


def batch_ends(own: int, batch_size: int, batches: int) -> list[int]:
    """The end of each batch among the ``own`` rows of a process.

    A process that has one row fewer than another could lack a last batch; its last full batch then
    gives up a row to make one.

    >>> batch_ends(5, 4, batches=2), batch_ends(4, 4, batches=2)
    ([4, 5], [3, 4])
    """
    ends = [min(own, (i + 1) * batch_size) for i in range(batches)]
    if batches > 1 and ends[-2] == own:
        ends[-2] -= 1
    return ends


class RowGroups:
    """Row groups (file, group, rows) laid end to end.

    >>> RowGroups([(0, 1, 5), (0, 0, 5)]).pieces(3, 7)
    [Piece(file=0, group=1, start=3, stop=5), Piece(file=0, group=0, start=0, stop=2)]
    """

    def __init__(self, groups: list[tuple[int, int, int]]) -> None:
        self._groups = groups
        self._starts = list(itertools.accumulate((rows for *_, rows in groups), initial=0))

    def pieces(self, first: int, end: int) -> list[Piece]:
        """The rows from ``first`` to ``end``."""
        pieces = []
        at = bisect.bisect_right(self._starts, first) - 1
        while first < end:
            file, group, rows = self._groups[at]
            start = first - self._starts[at]
            stop = min(rows, end - self._starts[at])
            if start < stop:
                pieces.append(Piece(file, group, start, stop))
            at, first = at + 1, self._starts[at] + stop
        return pieces
