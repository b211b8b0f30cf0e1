"""The files of a stream: what is known before their rows are read, and how a row group is read."""

from __future__ import annotations

import dataclasses
import os
from typing import Any, NamedTuple

import torch
from torch import Tensor

from wassloss.data._arrow import import_pyarrow, named_errors
from wassloss.data.layout import Layout, find_layout
from wassloss.data.parquet import in_part, open_file
from wassloss.data.table import features_of, targets_of
from wassloss.targets import Target, read_target

Batch = tuple[Tensor, Target]


class StreamFile(NamedTuple):
    """A file of a stream, as far as its footer and its parts tell."""

    path: str
    fragment: Any
    layout: Layout
    rows: tuple[int, ...]  # of each row group, of the part only
    part: Any  # a filter of rows, or None

    def read(self, group: int, label_count: int) -> Batch:
        """The rows of a row group that belong to the part."""
        table = self.fragment.subset(row_group_ids=[group]).to_table(
            columns=self.layout.columns, filter=self.part, use_threads=False
        )
        layout = self.layout
        if layout.label_names is None:  # then integers are ids
            layout = dataclasses.replace(layout, ids=True)
        features = features_of(table, layout)
        target, _ = targets_of(table, layout, lambda row: f"row {row}")
        read_target(target, label_count, torch.Size([len(features)]), torch.empty(0))
        return features, target


def open_stream_file(
    path: str | os.PathLike[str],
    label_names: tuple[str, ...] | None,
    label_column: str,
    part: str | None,
    feature_names: tuple[str, ...] | None,
) -> StreamFile:
    """Open a file and count the rows of the part in each row group."""
    with named_errors(path):
        file = open_file(path)
        layout = find_layout(file.physical_schema, label_names, label_column, feature_names)
        kind = str(file.physical_schema.field(layout.target_column).type)
        ids = layout.target_column == "weights" or ("int" in kind and "string" not in kind)
        if layout.label_names is None and not ids:  # row groups would number them differently
            raise ValueError(
                f"column {layout.target_column!r} holds names, and the file does not list them: "
                "pass label_names"
            )
        rows = tuple(group.num_rows for group in file.row_groups)
        if sum(rows) == 0:
            raise ValueError("it has no rows")
        if "part" not in layout.about_rows and part is not None:
            raise ValueError(f"it has no column 'part' to find {part!r} in")
        if part is None:
            if "part" in layout.about_rows:
                raise ValueError("it has a column 'part': say which part to read")
            return StreamFile(os.fspath(path), file, layout, rows, None)
        chosen = in_part(import_pyarrow().dataset.field("part"), part)
        groups = (file.subset(row_group_ids=[i]) for i in range(len(rows)))
        counts = tuple(group.count_rows(filter=chosen) for group in groups)
    return StreamFile(os.fspath(path), file, layout, counts, chosen)


def check_alike(first: StreamFile, other: StreamFile) -> None:
    """All files of a stream must keep the same things in the same columns."""
    for what in ("feature_columns", "target_column", "weighted", "label_names", "label_count"):
        if getattr(first.layout, what) != getattr(other.layout, what):
            raise ValueError(
                f"{other.path} must have the {what.replace('_', ' ')} of {first.path}, but they "
                "differ"
            )
