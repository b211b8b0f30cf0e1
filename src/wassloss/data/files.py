"""Data sets in files; the suffix says the format: CSV, Parquet or .npz (docs/data.md)."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import torch
from numpy.typing import NDArray
from torch import Tensor

from wassloss._files import read_npz
from wassloss.data import csv
from wassloss.data._arrow import import_pyarrow, named_errors, warn
from wassloss.data._inputs import KNOWN_PARTS, feature_tensor, from_lists, part_name
from wassloss.data.builtin import clipart
from wassloss.data.dataset import Dataset
from wassloss.data.labels import shown
from wassloss.data.raw_table import RawTable
from wassloss.data.table import Wanted, feature_order, fields, find_layout
from wassloss.ground import storage

if TYPE_CHECKING:
    import pyarrow as pa

BUILT_IN: dict[str | os.PathLike[str], Callable[[], Dataset]] = {"clipart": clipart}
_SUFFIXES = (".npz", ".parquet", ".pq", ".csv")
_LISTS = ("target_counts", "target_labels", "target_weights")


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
    if is_table(path):
        with named_errors(path):
            return Dataset(**_load_table(path, wanted))
    for name in ("label_column", "drop", "group"):  # a run wants what its own table had
        if getattr(wanted, name) and wanted.raw is None:
            raise ValueError(f"{name} is for tables (.csv, .parquet), got {os.fspath(path)}")
    if path in BUILT_IN:
        found = BUILT_IN[path]()
        return found if wanted.label_names is None else found.with_labels(wanted.label_names)
    with named_errors(path):
        found = Dataset(**_load_npz(path, wanted))
        return found if wanted.label_names is None else found.with_labels(wanted.label_names)


def read_features(
    path: str | os.PathLike[str], part: str | None, wanted: Wanted
) -> tuple[Tensor, Tensor]:
    """Row numbers and features of a part, or of all, of data that need no labels."""
    if path in BUILT_IN:
        data = BUILT_IN[path]()
    else:
        load = _load_table if is_table(path) else _load_npz
        with named_errors(path):
            found = load(path, wanted._replace(labelled=False))
            data = Dataset(**found, target=torch.zeros(len(found["features"]), dtype=torch.int64))
    rows = torch.arange(len(data)) if part is None else data._rows_of(part)
    return rows, data.features[rows]


def columns(path: str | os.PathLike[str], names: Sequence[str]) -> dict[str, list[Any]]:
    """Columns of a table, with the values of all rows."""
    if not is_table(path):
        raise ValueError(
            f"columns can be kept of tables (.csv, .parquet) only, got {os.fspath(path)}"
        )
    with named_errors(path):
        if _suffix(path) != ".csv":
            return dict(_read_parquet(path, names).to_pydict())
        words = csv.read_text(path)
        feature_order(words.column_names, names)
        return dict(words.select(names).to_pydict())


def is_table(path: str | os.PathLike[str]) -> bool:
    """Whether a source has columns, and its labels are the values in one of them."""
    return path not in BUILT_IN and _suffix(path) != ".npz"


def _suffix(path: str | os.PathLike[str]) -> str:
    suffix = ".parquet" if Path(path).is_dir() else Path(path).suffix.lower()
    if suffix not in _SUFFIXES:
        raise ValueError(f"path must end in one of {', '.join(_SUFFIXES)}, got {os.fspath(path)!r}")
    return suffix


def _load_table(path: str | os.PathLike[str], wanted: Wanted) -> dict[str, Any]:
    """The fields of a data set."""
    if _suffix(path) == ".csv":
        words = csv.read_text(path)
        layout = find_layout(words.column_names, wanted)
        rows = csv.converted(words, layout, wanted.raw)
        return fields(rows, wanted, layout, lambda row: csv.line_of(path, row))
    first = _parquet_files(path)[0]
    with named_errors(first):
        names = import_pyarrow().parquet.read_schema(first).names
    layout = find_layout(names, wanted)
    rows = _read_parquet(path, layout.columns)
    if rows.num_rows == 0:
        raise ValueError("it has no rows")
    return fields(rows, wanted, layout)


def _read_parquet(path: str | os.PathLike[str], names: Sequence[str]) -> pa.Table:
    """Some columns of all rows; files of a folder follow each other in the order of their names."""
    pa, tables = import_pyarrow(), []
    for file in _parquet_files(path):
        with named_errors(file):
            feature_order(pa.parquet.read_schema(file).names, names)
            tables.append(pa.parquet.read_table(file, columns=list(names)).select(names))
    return pa.concat_tables(tables, promote_options="permissive")


def _parquet_files(path: str | os.PathLike[str]) -> list[Path]:
    place = Path(path)
    files = sorted(place.glob("*.parquet")) if place.is_dir() else [place]
    if not files:
        raise ValueError("it is a folder without Parquet files")
    return files


def _load_npz(path: str | os.PathLike[str], wanted: Wanted) -> dict[str, Any]:
    """The fields of a data set; labels without names are ids."""
    arrays = read_npz(path)
    if "features" not in arrays:
        raise ValueError(f"it lacks features; it has {', '.join(sorted(arrays)) or 'nothing'}")
    names = {
        name: tuple(arrays[name].reshape(-1).tolist()) if name in arrays else None
        for name in ("feature_names", "label_names")
    }
    features, own = feature_tensor(arrays["features"]), names["feature_names"]
    if wanted.feature_names is not None and own is not None:
        features = features[:, feature_order(own, wanted.feature_names)]
        names["feature_names"] = wanted.feature_names
    parts: dict[str, Any] = {}
    for key, rows in arrays.items():
        if key.startswith("part/"):
            part = part_name(key.removeprefix("part/"))
            if part in parts:
                raise ValueError(f"it holds the part {part!r} twice")
            parts[part] = rows
    if not wanted.labelled:
        return {"features": features, "parts": parts}
    single = {
        name: arrays[name] for name in ("name", "provenance", "label_count") if name in arrays
    }
    for name, array in single.items():
        if array.ndim != 0:
            raise ValueError(f"{name} must be a single value, got shape {array.shape}")
    metric = {k.removeprefix("metric/"): a for k, a in arrays.items() if k.startswith("metric/")}
    return {
        "features": features,
        "target": _npz_target(arrays),
        "parts": parts,
        "groups": arrays.get("groups"),
        "metric": storage.from_arrays(metric) if metric else None,
        **names,
        **{name: array.item() for name, array in single.items()},
    }


def _npz_target(arrays: dict[str, NDArray[Any]]) -> Any:
    if "target" in arrays:
        return arrays["target"]
    if not all(name in arrays for name in _LISTS[:2]):
        raise ValueError(f"it lacks target, or {', '.join(_LISTS[:2])} and perhaps {_LISTS[2]}")
    counts, labels, weights = arrays[_LISTS[0]], arrays[_LISTS[1]], arrays.get(_LISTS[2])
    if counts.dtype.kind not in "iu" or counts.ndim != 1 or (counts < 0).any():
        raise ValueError("target_counts must be integers of shape (examples,), none negative")
    if labels.dtype.kind not in "iu" or labels.shape != (counts.sum(),):
        raise ValueError(
            f"target_labels must be {counts.sum()} integers, the sum of target_counts, got "
            f"{labels.dtype} of shape {labels.shape}"
        )
    if weights is not None and weights.shape != labels.shape:
        raise ValueError(
            f"target_weights must have shape {labels.shape}, as target_labels, got {weights.shape}"
        )
    return from_lists(counts, labels, weights)
