"""Streams of Parquet files as runs use them, and what the files say of themselves before."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import torch

from wassloss._precision import narrowed
from wassloss.data import ParquetStream
from wassloss.data._arrow import named_errors
from wassloss.data.labels import found_labels
from wassloss.data.layout import find_layout
from wassloss.data.parquet import expanded, label_values, open_file, part_names
from wassloss.data.streaming import Batch


class SinglePrecision:
    """A stream whose features come in the precision of the models, whatever the files have."""

    def __init__(self, stream: ParquetStream) -> None:
        self.stream = stream

    def __iter__(self) -> Iterator[Batch]:
        for features, target in self.stream:
            yield narrowed("features", features, torch.float32, shuffled=True), target

    def state_dict(self) -> dict[str, Any]:
        return self.stream.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.stream.load_state_dict(state)


class Peek(NamedTuple):
    """What one file tells."""

    features: int
    feature_names: tuple[str, ...] | None
    label_count: int  # 0 where it does not say
    label_names: tuple[str, ...] | None
    ids: bool  # whether whole numbers are ids of labels, rather than values
    dense: bool  # whether there is a weight for every label


def peek(
    source: str,
    label_names: tuple[str, ...] | None,
    label_column: str | None = None,
    feature_names: tuple[str, ...] | None = None,
) -> Peek:
    """Features and labels, from the first file and its first row."""
    path = expanded(source)[0]
    with named_errors(path):
        file = open_file(path)
        layout = find_layout(file.physical_schema, label_names, label_column, feature_names)
        width = len(layout.feature_names or ())
        if layout.feature_names is None:
            row = file.head(1, columns=["features"])
            if not row.num_rows:
                raise ValueError("it has no rows")
            width = len(row["features"][0])
    return Peek(
        width,
        layout.feature_names,
        layout.label_count,
        layout.label_names,
        layout.ids,
        dense=layout.target_column == "weights",
    )


def values_in(source: str, label_column: str | None = None) -> tuple[str, ...]:
    """The labels that occur in the files, in their order."""
    found: dict[str, None] = {}
    for path in expanded(source):
        found |= dict.fromkeys(label_values(path, label_column))
    return found_labels(list(found)).names


def parts_of(source: str) -> tuple[str, ...]:
    """The names of the parts that the files have, in the order of their first rows."""
    return tuple(dict.fromkeys(name for path in expanded(source) for name in part_names(path)))
