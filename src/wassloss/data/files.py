"""Data sets in files; the suffix of the file says the format."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from wassloss.data import csv, npz, parquet, svmlight
from wassloss.data._arrow import named_errors
from wassloss.data._inputs import check_parts, feature_tensor, rows_of_part
from wassloss.data.dataset import Dataset
from wassloss.data.table import Description, Wanted

_FORMATS = {
    ".npz": npz,
    ".parquet": parquet,
    ".pq": parquet,
    ".csv": csv,
    ".svm": svmlight,
    ".svmlight": svmlight,
    ".libsvm": svmlight,
}


def read(
    path: str | os.PathLike[str],
    *,
    label_names: tuple[str, ...] | None = None,
    label_column: str | None = None,
    feature_names: tuple[str, ...] | None = None,
) -> Dataset:
    r"""Read a data set from ``.npz``, ``.parquet``, ``.csv`` or ``.svm``.

    Args:
        path: the file; docs/data.md says what it must hold.
        label_names: the labels in order; by default those that the file lists, or else the values
            that occur, sorted as numbers if all are numbers. Pass them when reading several files
            that do not all have every label.
        label_column: the column of the class in a table (CSV, Parquet), by default ``label``; in a
            CSV file without a header its position, by default the last.
        feature_names: the features to read, in this order. Files that do not name their features
            are read as they are.

    Raises:
        ValueError: one line that names the file and what is wrong with it.
        FileNotFoundError: there is no such file.

    >>> import tempfile, wassloss as wl
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "pets.csv")
    ...     _ = path.write_text("weight,length,label\n4.1,46,cat\n31,80,dog\n")
    ...     wl.data.read(path).label_names
    ('cat', 'dog')
    """
    module = _format_of(path)
    if label_column is not None and module not in (csv, parquet):
        raise ValueError(f"label_column is for tables (.csv, .parquet), got {os.fspath(path)}")
    with named_errors(path):
        return Dataset(**module.load(path, Wanted(label_names, label_column, feature_names)))


def feature_batches(
    source: str | os.PathLike[str], rows: int, part: str | None, wanted: Wanted
) -> Iterator[tuple[list[int], Tensor]]:
    """Row numbers and features, at most ``rows`` at a time, of a file whose rows may lack labels.

    A folder of Parquet files is also read a piece at a time, and need not fit into memory.
    """
    module = parquet if Path(source).is_dir() else _format_of(source)
    wanted = wanted._replace(labelled=False)
    if module is parquet:
        yield from parquet.feature_batches(source, rows, part, wanted)
        return
    with named_errors(source):
        fields = module.load(source, wanted)
        features = feature_tensor(fields["features"])
        parts = check_parts(fields.get("parts", {}), len(features))
    yield from in_batches(features, parts, rows, part)


def in_batches(
    features: Tensor, parts: Mapping[str, Tensor], rows: int, part: str | None
) -> Iterator[tuple[list[int], Tensor]]:
    """Row numbers and features of a part, or all of them, at most ``rows`` at a time."""
    numbers = torch.arange(len(features)) if part is None else rows_of_part(parts, part)
    for own in numbers.split(rows):
        yield own.tolist(), features[own]


def describe(path: str | os.PathLike[str], label_column: str | None = None) -> Description:
    """What a file says about its features and labels, without reading its rows."""
    module = _format_of(path)
    with named_errors(path):
        found: Description = module.describe(path, label_column)
        return found


def write(data: Dataset, path: str | os.PathLike[str]) -> None:
    """Write a data set in the format that the suffix says, all or nothing.

    Only ``.npz`` holds everything; docs/data.md says what ``.parquet`` and ``.csv`` leave out.
    """
    module = _format_of(path)
    if module is svmlight:
        raise ValueError(
            "SVMlight files hold neither names nor weights, and are only read: write .npz, "
            ".parquet or .csv instead, or use sklearn.datasets.dump_svmlight_file"
        )
    module.write(data, path)


def _format_of(path: str | os.PathLike[str]) -> Any:
    suffix = Path(path).suffix.lower()
    if suffix not in _FORMATS:
        raise ValueError(f"path must end in one of {', '.join(_FORMATS)}, got {os.fspath(path)!r}")
    return _FORMATS[suffix]
