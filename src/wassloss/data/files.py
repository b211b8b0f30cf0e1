"""Data sets in files; the suffix of the file says the format."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
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
    label_names: tuple[str, ...] | None = None,
    label_column: str | None = None,
    feature_names: tuple[str, ...] | None = None,
    drop: tuple[str, ...] = (),
    group: str | None = None,
    missing: Literal["impute", "error"] = "impute",
    like: Dataset | None = None,
) -> Dataset:
    r"""Read a data set from ``.npz``, ``.parquet`` or ``.csv``.

    Of the columns of a table (CSV, Parquet), numbers and booleans are features as they are; a text
    becomes a feature for each of its values, those of few rows together; dates are refused.

    Args:
        path: the file, or a folder of Parquet files, which are read as one table; docs/data.md says
            what it must hold.
        label_names: the labels in order; by default those that the file lists, or else the values
            that occur, sorted as numbers if all are numbers.
        label_column: the column of the class in a table, by default ``label``; in a CSV file
            without a header its position, by default the last.
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
    >>> data.label_names
    ('cat', 'dog')
    >>> data.feature_names
    ('weight', 'length', 'length is missing', 'fur=long', 'fur=short')
    """
    raw = None
    if like is not None:
        feature_names = like.feature_names
        raw = like.raw or RawTable.of_numbers(feature_names, like.features.shape[1])
        label_names = label_names or like.label_names
    wanted = Wanted(label_names, label_column, feature_names, tuple(drop), group, missing, raw)
    found = read_wanted(path, wanted)
    if found.raw is not None and found.parts and not set(found.parts) & set(KNOWN_PARTS):
        warn(
            f"the column 'part' divides the rows into {shown(list(found.parts))}, and is "
            "not a feature: if it should be one, rename it, or name it in feature_names"
        )
    return found


def read_wanted(path: str | os.PathLike[str], wanted: Wanted) -> Dataset:
    """Read a data set, in a file or built in, as the record of all wishes says."""
    module = None if path in BUILT_IN else _format_of(path)
    for name in ("label_column", "drop", "group"):  # a run wants what its own table had
        if module not in (csv, parquet) and getattr(wanted, name) and wanted.raw is None:
            raise ValueError(f"{name} is for tables (.csv, .parquet), got {os.fspath(path)}")
    if module is None:
        return BUILT_IN[os.fspath(path)]()
    with named_errors(path):
        return Dataset(**module.load(path, wanted))


def feature_batches(
    source: str | os.PathLike[str], rows: int, part: str | None, wanted: Wanted
) -> Iterator[tuple[list[int], Tensor]]:
    """Row numbers and features, at most ``rows`` at a time, of a file whose rows may lack labels.

    A folder of Parquet files is also read a piece at a time, and need not fit into memory.
    """
    wanted = wanted._replace(labelled=False)
    if source in BUILT_IN:
        fields = vars(BUILT_IN[os.fspath(source)]())
    elif (module := _format_of(source)) is parquet:
        yield from parquet.feature_batches(source, rows, part, wanted)
        return
    else:
        with named_errors(source):
            fields = module.load(source, wanted)
    features = feature_tensor(fields["features"])
    parts = check_parts(fields.get("parts", {}), len(features))
    numbers = torch.arange(len(features)) if part is None else rows_of_part(parts, part)
    for own in numbers.split(rows):
        yield own.tolist(), features[own]


def lists_labels(path: str | os.PathLike[str]) -> str | None:
    """Whether a file lists the ``"names"`` of its labels, has ``"ids"``, or only uses labels."""
    if path in BUILT_IN:
        return "names"
    module = _format_of(path)
    with named_errors(path):
        return module.lists_labels(path) if module in (npz, parquet) else None


def columns(source: str | os.PathLike[str], names: Sequence[str]) -> dict[str, list[Any]]:
    """Columns of a table, or of a folder of Parquet files, with the values of all rows."""
    module = parquet if Path(source).is_dir() else _FORMATS.get(Path(source).suffix.lower())
    if module not in (csv, parquet):
        raise ValueError(
            f"columns can be kept of tables (.csv, .parquet) only, got {os.fspath(source)}"
        )
    with named_errors(source):
        found = module.columns(source, names)
    return {name: found[name].to_pylist() for name in names}


def column_names(path: str | os.PathLike[str]) -> list[str]:
    """The columns of a table that have a name, in the order of the file."""
    module = _format_of(path)
    return module.column_names(path) if module in (csv, parquet) else []


def write(data: Dataset, path: str | os.PathLike[str]) -> None:
    """Write a data set as ``.npz``, which holds everything, or ``.parquet``, all or nothing.

    Parquet leaves out the metric: use ``metric.save(path)``.
    """
    module = _format_of(path)
    if module is csv:
        raise ValueError(f"path must end in .npz or .parquet, got {os.fspath(path)!r}")
    module.write(data, path)


def _format_of(path: str | os.PathLike[str]) -> Any:
    suffix = ".parquet" if Path(path).is_dir() else Path(path).suffix.lower()
    if suffix not in _FORMATS:
        raise ValueError(f"path must end in one of {', '.join(_FORMATS)}, got {os.fspath(path)!r}")
    return _FORMATS[suffix]
