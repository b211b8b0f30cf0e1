"""Data sets in files; the suffix of the file says the format."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from wassloss.data import csv, npz, parquet
from wassloss.data._arrow import named_errors, warn
from wassloss.data._inputs import KNOWN_PARTS, check_parts, feature_tensor, rows_of_part
from wassloss.data.builtin import clipart
from wassloss.data.dataset import Dataset
from wassloss.data.labels import shown
from wassloss.data.raw_table import RawTable
from wassloss.data.table import Wanted

BUILT_IN: dict[str | os.PathLike[str], Callable[[], Dataset]] = {"clipart": clipart}
_FORMATS = {".npz": npz, ".parquet": parquet, ".pq": parquet, ".csv": csv}


def read(
    path: str | os.PathLike[str],
    *,
    label_names: Sequence[str] | None = None,
    label_column: str | None = None,
    feature_names: Sequence[str] | None = None,
    drop: Sequence[str] = (),
    group: str | None = None,
    missing: Literal["impute", "error"] = "impute",
    like: Dataset | None = None,
) -> Dataset:
    r"""Read a data set from ``.csv``, ``.parquet`` or ``.npz``.

    Of the columns of a table (CSV, Parquet), numbers and booleans are features as they are; a text
    becomes a feature for each of its values, those of few rows together; dates are refused.

    Args:
        path: the file, or a folder of Parquet files, which are read as one table; docs/data.md says
            what it must hold.
        label_names: the labels in order; by default those that the file lists, or else the values
            that occur, sorted as numbers if all are numbers.
        label_column: the column of the class in a table, by default ``label``.
        feature_names: the features to read, in this order; of a table, its columns. Files that do
            not name their features are read as they are.
        drop: columns of a table that are no features.
        group: a column of a table whose equal rows stay together (`Dataset.groups`), by default
            ``group`` if there is one.
        missing: ``"impute"`` the median for a missing number, with a feature that says so, and a
            value of its own for a missing text; or raise an ``"error"``.
        like: data whose columns and labels this file has: what was decided for a training file is
            done again to the rows of a test file.

    Raises:
        ValueError: one line that names the file and what is wrong with it.
        FileNotFoundError: there is no such file.

    >>> import tempfile, wassloss as wl
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "pets.csv")
    ...     _ = path.write_text("weight,length,fur,label\n4.1,46,long,cat\n31,,short,dog\n")
    ...     data = wl.data.read(path)
    >>> data.y
    array(['cat', 'dog'], dtype='<U3')
    >>> data.feature_names
    ('weight', 'length', 'length is missing', 'fur=long', 'fur=short')
    """
    raw = None
    if like is not None:
        feature_names = like.feature_names
        raw = like.raw or RawTable.of_numbers(feature_names, like.features.shape[1])
        label_names = label_names or like.label_names
    names, features = (None if n is None else tuple(n) for n in (label_names, feature_names))
    found = read_wanted(
        path, Wanted(names, label_column, features, tuple(drop), group, missing, raw)
    )
    if found.raw is not None and found.parts and not set(found.parts) & set(KNOWN_PARTS):
        warn(
            f"the column 'part' divides the rows into {shown(list(found.parts))}, and is "
            "not a feature: if it should be one, rename it, or name it in feature_names"
        )
    return found


def read_wanted(path: str | os.PathLike[str], wanted: Wanted) -> Dataset:
    """Read a data set, in a file or built in, as the record of all wishes says."""
    for name in ("label_column", "drop", "group"):  # a run wants what its own table had
        if not is_table(path) and getattr(wanted, name) and wanted.raw is None:
            raise ValueError(f"{name} is for tables (.csv, .parquet), got {os.fspath(path)}")
    if path in BUILT_IN:
        found = BUILT_IN[os.fspath(path)]()
        return found if wanted.label_names is None else found.with_labels(wanted.label_names)
    with named_errors(path):
        found = Dataset(**_format_of(path).load(path, wanted))
        listed = None if is_table(path) else wanted.label_names
        return found if listed is None else found.with_labels(listed)


def read_features(
    path: str | os.PathLike[str], part: str | None, wanted: Wanted
) -> tuple[Tensor, Tensor]:
    """Row numbers and features of a part, or of all, of data that need no labels."""
    if path in BUILT_IN:
        fields = vars(BUILT_IN[os.fspath(path)]())
    else:
        with named_errors(path):
            fields = _format_of(path).load(path, wanted._replace(labelled=False))
    features = feature_tensor(fields["features"])
    rows = torch.arange(len(features))
    if part is not None:
        rows = rows_of_part(check_parts(fields["parts"], len(features)), part)
    return rows, features[rows]


def columns(path: str | os.PathLike[str], names: Sequence[str]) -> dict[str, list[Any]]:
    """Columns of a table, with the values of all rows."""
    if not is_table(path):
        raise ValueError(
            f"columns can be kept of tables (.csv, .parquet) only, got {os.fspath(path)}"
        )
    with named_errors(path):
        found = _format_of(path).columns(path, names)
    return {name: found[name].to_pylist() for name in names}


def is_table(path: str | os.PathLike[str]) -> bool:
    """Whether a source has columns, and its labels are the values in one of them."""
    return path not in BUILT_IN and _format_of(path) is not npz


def _format_of(path: str | os.PathLike[str]) -> Any:
    suffix = ".parquet" if Path(path).is_dir() else Path(path).suffix.lower()
    if suffix not in _FORMATS:
        raise ValueError(f"path must end in one of {', '.join(_FORMATS)}, got {os.fspath(path)!r}")
    return _FORMATS[suffix]
