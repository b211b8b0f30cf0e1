"""Data sets in files: the suffix says the format."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

from torch import Tensor

from wassloss.data import csv, npz, parquet, svmlight
from wassloss.data.dataset import Dataset

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
        label_names: the labels in their order; by default those that the file lists, or else the
            values that occur, sorted as numbers if all are numbers. Give them when reading several
            files that do not all have every label.
        label_column: the column of the class in a table (CSV, Parquet), by default ``label``; in a
            CSV file without a header its position, by default the last.
        feature_names: the features to read, by name and in this order. Files that do not name
            theirs are read as they are.

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
    options: dict[str, Any] = {}
    if label_names is not None:
        options["label_names"] = tuple(label_names)
    if label_column is not None:
        if module not in (csv, parquet):
            raise ValueError(f"label_column is for tables (.csv, .parquet), got {os.fspath(path)}")
        options["label_column"] = label_column
    if feature_names is not None:
        options["feature_names"] = tuple(feature_names)
    return _named_errors(path, module.read, options)  # type: ignore[no-any-return]


def read_features(
    path: str | os.PathLike[str],
    *,
    label_column: str | None = None,
    feature_names: tuple[str, ...] | None = None,
) -> Tensor:
    r"""The features of a file whose rows may lack labels: what there is to predict for.

    Args:
        path: the file, as for :func:`read`.
        label_column: a column of a table that is no feature, by default ``label``; in a CSV file
            without a header its position, by default none.
        feature_names: as for :func:`read`.

    Returns:
        Finite floats `(n, features)`.

    >>> import tempfile, wassloss as wl
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "pets.csv")
    ...     _ = path.write_text("weight,length\n4.1,46\n")
    ...     wl.data.read_features(path)
    tensor([[ 4.1000, 46.0000]])
    """
    module = _format_of(path)
    options: dict[str, Any] = {}
    if label_column is not None and module in (csv, parquet):
        options["label_column"] = label_column
    if feature_names is not None:
        options["feature_names"] = tuple(feature_names)
    return _named_errors(path, module.read_features, options)  # type: ignore[no-any-return]


def column_names(
    path: str | os.PathLike[str], label_column: str | None = None
) -> tuple[str, ...] | None:
    """The names of the features in a file, or None where it has none."""
    module = _format_of(path)
    table = label_column is not None and module in (csv, parquet)
    options = {"label_column": label_column} if table else {}
    return _named_errors(path, module.column_names, options)  # type: ignore[no-any-return]


def declared_labels(path: str | os.PathLike[str]) -> Literal["names", "ids"] | None:
    """What a file says of its labels: lists them, or only that numbers are ids; None for nothing.

    Where it says nothing, labels are the values that occur.
    """
    return _named_errors(path, _format_of(path).declared_labels, {})  # type: ignore[no-any-return]


def _named_errors(
    path: str | os.PathLike[str], function: Callable[..., Any], options: dict[str, Any]
) -> Any:
    try:
        return function(path, **options)
    except (ValueError, TypeError, KeyError, OverflowError) as error:
        message = " ".join(str(error).split())
        raise ValueError(f"{os.fspath(path)} cannot be read as data: {message}") from error


def write(data: Dataset, path: str | os.PathLike[str]) -> None:
    """Write a data set in the format that the suffix says, all or nothing.

    Only ``.npz`` holds everything; docs/data.md says what each of the others leaves out.
    """
    _format_of(path).write(data, path)


def _format_of(path: str | os.PathLike[str]) -> Any:
    suffix = Path(path).suffix.lower()
    if suffix not in _FORMATS:
        raise ValueError(f"path must end in one of {', '.join(_FORMATS)}, got {os.fspath(path)!r}")
    return _FORMATS[suffix]
