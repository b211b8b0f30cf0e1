"""Data sets in CSV and Parquet files, and those that are built in; see docs/data.md."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any, Literal

from wassloss.data import csv
from wassloss.data._arrow import check_columns, import_pyarrow, named_errors, warn
from wassloss.data._inputs import KNOWN_PARTS
from wassloss.data.builtin import clipart
from wassloss.data.dataset import Dataset
from wassloss.data.labels import shown
from wassloss.data.raw_table import RawTable
from wassloss.data.table import Wanted, fields, find_layout

BUILT_IN: dict[str | os.PathLike[str], Callable[[], Dataset]] = {"clipart": clipart}
_SUFFIXES = (".csv", ".parquet", ".pq")


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
    r"""Read a data set from a table in a ``.csv`` or ``.parquet`` file.

    Of its columns, numbers and booleans are features as they are, with the median for a missing
    number and a feature that says so; a text becomes a feature for each of its values, those of few
    rows together, and a missing one is a value of its own; dates are refused. Medians and values
    are those of the rows that are not of a part ``"test"``.

    Args:
        path: the file, or a folder of Parquet files, which are one table; docs/data.md
            says what it must hold.
        label_names: the labels in order; by default the values that occur, sorted as numbers if all
            are numbers.
        label_column: the column of the class, by default ``label``.
        feature_names: the columns to read as features, in this order; by default all.
        drop: columns that are no features.
        group: a column whose equal rows stay together (`Dataset.groups`), and that is no feature.
        missing: ``"impute"`` as above, or raise an ``"error"`` where a value is missing.
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
        raw = like.raw or RawTable.of_numbers(like.feature_names, like.features.shape[1])
        label_names = label_names or like.label_names
    names, features = (None if n is None else tuple(n) for n in (label_names, feature_names))
    wanted = Wanted(names, label_column, features, tuple(drop), group, missing, raw)
    found = read_wanted(path, wanted)
    if found.raw is not None and found.parts and not set(found.parts) & set(KNOWN_PARTS):
        warn(
            f"the column 'part' divides the rows into {shown(list(found.parts))}, and is "
            "not a feature: if it should be one, rename it, or name it in feature_names"
        )
    return found


def read_wanted(path: str | os.PathLike[str], wanted: Wanted) -> Dataset:
    """Read a data set, in a file or built in, as the record of all wishes says."""
    if path not in BUILT_IN:
        with named_errors(path):
            return Dataset(**_load(path, wanted))
    for name in ("label_column", "drop", "group"):  # a run wants what its own table had
        if getattr(wanted, name) and wanted.raw is None:
            raise ValueError(f"{name} is for tables (.csv, .parquet), got {os.fspath(path)}")
    found = BUILT_IN[path]()
    return found if wanted.label_names is None else found.with_labels(wanted.label_names)


def _load(path: str | os.PathLike[str], wanted: Wanted) -> dict[str, Any]:
    """The fields of a data set."""
    place = Path(path)
    if not place.is_dir() and place.suffix.lower() not in _SUFFIXES:
        raise ValueError(f"its name must end in one of {', '.join(_SUFFIXES)}")
    os.stat(path)  # its error for a missing file says more than Arrow's
    if place.suffix.lower() == ".csv":
        words = csv.read_text(path)
        layout = find_layout(words.column_names, wanted)
        rows = csv.converted(words, layout, wanted.raw)
        return fields(rows, wanted, layout, lambda row: csv.line_of(path, row))
    pa = import_pyarrow()
    files = sorted(place.glob("*.parquet")) if place.is_dir() else [place]
    tables, found = [], None
    for file in files:  # one by one: Arrow's data sets force the first one's types on the others
        with nullcontext() if file == place else named_errors(file):
            names = pa.parquet.read_schema(file).names
            found = found or find_layout(names, wanted)
            check_columns(names, found.columns)
            table = pa.parquet.read_table(file, columns=found.columns, partitioning=None)
            tables.append(table.select(found.columns))
    if found is None:
        raise ValueError("it is a folder without Parquet files")
    rows = pa.concat_tables(tables, promote_options="permissive")
    if rows.num_rows == 0:
        raise ValueError("it has no rows")
    return fields(rows, wanted, found)
