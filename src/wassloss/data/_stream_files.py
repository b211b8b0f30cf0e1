"""The files of a stream, how a row group is read, and which rows a process sees in which batch."""

from __future__ import annotations

import dataclasses
import os
from bisect import bisect_right
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from wassloss.data._arrow import import_pyarrow, named_errors
from wassloss.data.parquet import in_part, open_file, to_stream
from wassloss.data.table import Layout, Table, Wanted
from wassloss.targets import Target, read_target

Batch = tuple[Tensor, Target]


class StreamFile(NamedTuple):
    """A file of a stream, as far as its footer and its parts tell."""

    path: str
    fragment: Any
    layout: Layout
    rows: tuple[int, ...]  # of each row group, of the part only
    part: Any  # a filter of rows, or None

    def read(
        self, group: int, label_count: int, transform: Callable[[Tensor], Tensor] | None
    ) -> Batch:
        """The rows of a row group that belong to the part."""
        rows = self.fragment.subset(row_group_ids=[group]).to_table(
            columns=self.layout.columns, filter=self.part, use_threads=False
        )
        table = Table(rows, self.layout)
        features, (target, _) = table.features(table.raw()), table.target()
        read_target(target, label_count, torch.Size([len(features)]), torch.empty(0))
        return features if transform is None else transform(features), target


def open_stream_file(path: str | os.PathLike[str], part: str | None, wanted: Wanted) -> StreamFile:
    """Open a file and count the rows of the part in each row group."""
    with named_errors(path):
        file, layout = open_file(path, wanted, part)
        layout = to_stream(layout, file.physical_schema)
        kind = str(file.physical_schema.field(layout.target_column).type)
        ids = layout.target_column == "weights" or ("int" in kind and "string" not in kind)
        if layout.label_names is None and not ids:  # row groups would number them differently
            raise ValueError(
                f"column {layout.target_column!r} holds names, and the file does not list them: "
                "pass label_names"
            )
        layout = dataclasses.replace(layout, ids=layout.ids or layout.label_names is None)
        rows = tuple(group.num_rows for group in file.row_groups)
        if sum(rows) == 0:
            raise ValueError("it has no rows")
        if part is None:
            if layout.part is not None:
                raise ValueError("it has a column 'part': say which part to read")
            return StreamFile(os.fspath(path), file, layout, rows, None)
        chosen = in_part(import_pyarrow().dataset.field("part"), part)
        groups = (file.subset(row_group_ids=[i]) for i in range(len(rows)))
        counts = tuple(group.count_rows(filter=chosen) for group in groups)
    return StreamFile(os.fspath(path), file, layout, counts, chosen)


def batch_bounds(rows: int, batch_size: int, rank: int, world_size: int) -> list[int]:
    """Where the batches of one process begin among all rows, and where the last one ends.

    Every process has the same number of batches. One that has a row fewer than another could lack
    the last; its last full batch then gives up a row to make one.

    >>> [batch_bounds(10, 2, rank, 3) for rank in range(3)]
    [[0, 2, 3], [3, 5, 6], [6, 8, 10]]
    """
    if rows < world_size:
        raise ValueError(f"world_size must be at most the {rows} rows, got {world_size}")
    if batch_size == 1 and rows % world_size:
        raise ValueError(
            f"batch_size must be at least 2 where {rows} rows do not divide among {world_size} "
            "processes, got 1"
        )
    first, end = rank * rows // world_size, (rank + 1) * rows // world_size
    batches = -(-rows // world_size // batch_size)  # of the process with the most rows
    bounds = [min(end, first + i * batch_size) for i in range(batches + 1)]
    if batches > 1 and bounds[-2] == end:
        bounds[-2] -= 1
    return bounds


class Piece(NamedTuple):
    """Rows ``start`` to ``stop`` of one row group of one file."""

    file: int
    group: int
    start: int
    stop: int


def pieces(
    groups: list[tuple[int, int, int]], ends: list[int], first: int, end: int
) -> list[Piece]:
    """Rows ``first`` to ``end`` of row groups (file, group, rows) that end at ``ends``.

    >>> pieces([(0, 1, 5), (0, 0, 5)], [5, 10], 3, 7)
    [Piece(file=0, group=1, start=3, stop=5), Piece(file=0, group=0, start=0, stop=2)]
    """
    found = []
    for at in range(bisect_right(ends, first), len(groups)):
        file, group, rows = groups[at]
        before = ends[at] - rows
        if before >= end:
            break
        if rows:
            found.append(Piece(file, group, max(0, first - before), min(rows, end - before)))
    return found
