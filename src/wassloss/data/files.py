"""Data sets in files; the suffix of the file says the format."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from torch import Tensor

from wassloss.data import csv, npz, parquet, svmlight
from wassloss.data._arrow import named_errors
from wassloss.data.columns import Description
from wassloss.data.dataset import Dataset
from wassloss.data.table import features_of, to_dataset

_FORMATS = {
    ".npz": npz,
    ".parquet": parquet,
    ".pq": parquet,
    ".csv": csv,
    ".svm": svmlight,
    ".svmlight": svmlight,
    ".libsvm": svmlight,
}
_TABLES = (csv, parquet)


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
    names, wanted = _names(label_names), _names(feature_names)
    if label_column is not None and module not in _TABLES:
        raise ValueError(f"label_column is for tables (.csv, .parquet), got {os.fspath(path)}")
    with named_errors(path):
        if module is svmlight:
            return svmlight.read(path, names)
        if module is npz:
            return npz.read(path, names, wanted)
        return to_dataset(*module.load(path, names, label_column, wanted))


def read_features(
    path: str | os.PathLike[str],
    label_column: str | None = None,
    feature_names: tuple[str, ...] | None = None,
) -> Tensor:
    """Read the features `(n, features)` of a file whose rows may lack labels.

    The arguments are those of :func:`read`, but a CSV file without a header has by default no
    column of labels.
    """
    module = _format_of(path)
    with named_errors(path):
        if module is svmlight:  # which has no way to leave labels out
            return svmlight.read(path).features
        if module is npz:
            return npz.read_features(path, feature_names)
        table, layout, _ = module.load(path, None, label_column, feature_names, labelled=False)
        return features_of(table, layout)


def describe(path: str | os.PathLike[str], label_column: str | None = None) -> Description:
    """What a file says about its features and labels, without reading its rows."""
    module = _format_of(path)
    with named_errors(path):
        if module is svmlight:
            return Description(None, None)
        if module is npz:
            return npz.describe(path)
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


def _names(names: tuple[str, ...] | None) -> tuple[str, ...] | None:
    return None if names is None else tuple(names)


def _format_of(path: str | os.PathLike[str]) -> Any:
    suffix = Path(path).suffix.lower()
    if suffix not in _FORMATS:
        raise ValueError(f"path must end in one of {', '.join(_FORMATS)}, got {os.fspath(path)!r}")
    return _FORMATS[suffix]
