"""The features, labels, parts and groups in the columns of a table.

docs/data.md describes the columns. Features stay a data frame for an encoder to transform.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from torch import Tensor

from wassloss import SparseTarget
from wassloss.app import columns
from wassloss.app._messages import check_columns, named_errors, shown, warn
from wassloss.app.labels import number, numbers, plain, read_labels
from wassloss.app.tables import Place, Table

if TYPE_CHECKING:
    import pandas as pd

PARTS = ("train", "validation", "test")
_SEPARATOR = ";"
_USUAL = {"class", "target", "y", "outcome", "category", "species", "grade", "rating", "quality"}


@dataclass(frozen=True, kw_only=True)
class ReadOptions:
    """How to read a table's columns.

    Attributes:
        label_column: the column of the labels, by default ``label`` or ``labels``.
        features: the columns to learn from, by default all others.
        drop: columns to leave out.
        group: a column of groups; rows of one group are held out together.
        order: all labels in their order, by default those that occur.
        missing: ``"impute"`` to fill missing values, or ``"error"`` to refuse them.
    """

    label_column: str | None = None
    features: tuple[str, ...] | None = None
    drop: tuple[str, ...] = ()
    group: str | None = None
    order: tuple[str, ...] | None = None
    missing: Literal["impute", "error"] = "impute"

    def __post_init__(self) -> None:
        if self.missing not in ("impute", "error"):
            raise ValueError(f"missing must be 'impute' or 'error', got {self.missing!r}")


@dataclass(frozen=True, eq=False)
class Examples:
    """Features and labels of the rows of a table that have a label.

    Attributes:
        table: the feature columns; the frame's index holds the row numbers of the original table.
        labels: the names of all labels, in their order.
        ids: the label of each example as an index into `labels`; None if examples have several.
        weights: label weights `(examples, labels)` if examples have several labels, else None.
        parts: the positions of the examples in each part, such as ``"train"`` and ``"test"``.
        groups: the group number of each example, or None.
        label_column: the column of the labels.
        ignored: columns that are not features.
    """

    table: Table
    labels: tuple[str, ...]
    ids: NDArray[np.int64] | None = field(repr=False)
    weights: sparse.csr_array | None = field(repr=False)
    parts: dict[str, NDArray[np.int64]] = field(repr=False)
    groups: NDArray[np.int64] | None = field(repr=False)
    label_column: str
    ignored: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.table)

    @property
    def X(self) -> pd.DataFrame:  # noqa: N802 - as scikit-learn calls it
        """The feature columns."""
        return self.table.frame

    @property
    def rows(self) -> NDArray[np.int64]:
        """The row numbers in the original table."""
        found: NDArray[np.int64] = self.X.index.to_numpy()
        return found

    @property
    def classes(self) -> NDArray[Any]:
        """All labels in their order, as numbers if all of them are numbers."""
        return classes_of(self.labels)

    @property
    def y(self) -> Any:
        """Classes `(examples,)` or label weights, as scikit-learn estimators take them."""
        return self.weights if self.ids is None else self.classes[self.ids]

    @property
    def target(self) -> Tensor | SparseTarget:
        """Class ids or a sparse target, as losses and scores take them."""
        if self.ids is not None:
            return torch.from_numpy(self.ids)
        return _sparse_target(self.weights)

    def take(self, rows: NDArray[np.int64]) -> Examples:
        """Select examples by position; the selection has no parts."""
        return replace(
            self,
            table=replace(self.table, frame=self.X.iloc[rows]),
            ids=None if self.ids is None else self.ids[rows],
            weights=None if self.weights is None else self.weights[rows],
            groups=None if self.groups is None else self.groups[rows],
            parts={},
        )


def classes_of(labels: Sequence[str]) -> NDArray[Any]:
    """Labels as numbers if all of them are distinct numbers, else as strings."""
    values = numbers(labels)
    distinct = values is not None and len(set(values)) == len(values)
    return np.array(values if distinct else labels)


def read_examples(
    table: Table, options: ReadOptions | None = None, known: Sequence[str] = ()
) -> Examples:
    """Find features, labels, parts and groups in a table.

    Rows without a label are dropped with a warning.

    Args:
        table: from :func:`~wassloss.app.tables.read_table`.
        options: how to read its columns.
        known: columns that a model takes as features, whatever their names.

    Raises:
        ValueError: a column is missing or holds a bad value; the message names table, row and
            column.

    >>> import pandas as pd
    >>> frame = pd.DataFrame({"age": [4, 7, 9], "label": ["low", "high", "low"]})
    >>> found = read_examples(Table.of(frame), ReadOptions(order=("low", "high")))
    >>> found.ids, found.y, list(found.X.columns)
    (array([0, 1, 0]), array(['low', 'high', 'low'], dtype='<U4'), ['age'])
    """
    options = options or ReadOptions()
    with named_errors(table.source):
        return _read(table, options, known)


def _read(table: Table, options: ReadOptions, known: Sequence[str]) -> Examples:
    frame, names = table.frame, list(table.frame.columns)
    group = options.group or table.group
    chosen = options.features
    check_columns(names, [*(chosen or ()), *options.drop, *([group] if group else [])])
    label = _label_column(names, options, known)
    asked = {*(chosen or ()), *options.drop, *known}
    part = "part" if "part" in names and "part" not in asked else None
    weights = "weights" if label == "labels" and "weights" in names else None
    others = [label, part, weights, group, *options.drop]
    features = [name for name in chosen or names if name not in others]
    if not features:
        raise ValueError(f"it has no feature columns, only {shown(names, 10)}")
    frame = frame.loc[_labelled(frame[label], options, table.place)]
    own = replace(table, frame=frame[features])
    ids, masses, labels = _targets(
        frame[label], frame[weights] if weights else None, options.order, table.place
    )
    groups = None
    if group is not None:
        values = columns.words(frame[group])
        columns.refuse(frame[group], values.isna().to_numpy(), "a group", table.place)
        groups = values.factorize()[0].astype(np.int64)
    return Examples(
        table=own,
        labels=labels,
        ids=ids,
        weights=masses,
        parts={} if part is None else parts_of(frame[part]),
        groups=groups,
        label_column=label,
        ignored=tuple(name for name in names if name not in features),
    )


def _label_column(names: Sequence[str], options: ReadOptions, known: Sequence[str]) -> str:
    asked = options.label_column
    usable = ("label", "labels") if asked in (None, "label") else (str(asked),)
    found = next((name for name in usable if name in names and name not in known), None)
    if found is not None:
        return found
    usual = [name for name in names if name.lower() in _USUAL]
    likely = get_close_matches(usable[0], names, 1) or usual or list(names[-1:])
    hint = f"name the column of the labels with label_column (--label-column {likely[0]}?)"
    if any(number(name) is not None for name in names):
        hint = "if line 1 is data, put a line of column names before it"
    raise ValueError(
        f"it lacks a column {' or '.join(map(repr, usable))}; it has {shown(names, 10)}; {hint}"
    )


def _labelled(values: pd.Series[Any], options: ReadOptions, place: Place) -> NDArray[np.bool_]:
    """Mark the rows that have a label, and warn about the others."""
    every = np.ones(len(values), bool)
    if columns.is_list(values):
        return every
    gaps = tuple(word for word in columns.GAPS if word not in (options.order or ()))
    missing: NDArray[np.bool_] = columns.without_gaps(values, gaps).isna().to_numpy()
    if not missing.any():
        return every
    if options.missing == "error":
        expected = "a label (missing='error')"
        columns.refuse(values, missing, expected, place)
    if missing.all():
        raise ValueError(f"column {values.name!r} must hold labels, got none")
    said = sorted({str(word).strip() for word in values[missing].dropna()} - {""})
    named = f" ({shown(said)}; list them in order if they are labels)" if said else ""
    warn(
        f"{int(missing.sum())} of {len(missing)} rows have no label{named}: they are left out, and "
        "the others keep their row numbers"
    )
    return ~missing


def _targets(
    values: pd.Series[Any],
    weights: pd.Series[Any] | None,
    names: Sequence[str] | None,
    place: Place,
) -> tuple[NDArray[np.int64] | None, sparse.csr_array | None, tuple[str, ...]]:
    """The label id of each row or the weights of several labels, and the names of all labels."""
    if values.name != "labels" and not columns.is_list(values):
        ids, labels = _label_ids(values, names, place)
        return ids, None, labels
    counts, flat = _flat(values, place)
    columns.refuse(values, counts == 0, "a label", place)
    ids, labels = _label_ids(flat, names, place)
    if weights is None:
        masses = np.repeat(1 / counts, counts)
    else:
        lengths, given = _flat(weights, place)
        columns.refuse(weights, lengths != counts, "as many numbers as labels", place)
        masses = columns.numbers(given, place)
        columns.refuse(given, np.isnan(masses), "a number", place)
        columns.refuse(given, masses < 0, "a number that is not negative", place)
        none = np.add.reduceat(masses, counts.cumsum() - counts) == 0
        columns.refuse(weights, none, "a positive number", place)
    ends = np.concatenate([[0], counts.cumsum()])
    shape = (len(values), len(labels))
    made = sparse.csr_array((masses, ids, ends), shape=shape, copy=True)  # frames are read-only
    made.sum_duplicates()
    columns.refuse(values, np.diff(made.indptr) != counts, "each label once", place)
    made.eliminate_zeros()
    return None, made, labels


def _flat(values: pd.Series[Any], place: Place) -> tuple[NDArray[np.int64], pd.Series[Any]]:
    """The length of each list, and all values concatenated; text is split at semicolons."""
    if columns.is_text(values):
        words = columns.without_gaps(values, ("",))
        values = words.astype(object).map(lambda word: word.split(_SEPARATOR), na_action="ignore")
    missing = values.isna().to_numpy()
    columns.refuse(values, missing, f"{values.name} of its own", place)
    counts = np.array([len(each) for each in values], dtype=np.int64)
    flat = values[counts > 0].explode()
    return counts, flat.infer_objects()


def _label_ids(
    values: pd.Series[Any], names: Sequence[str] | None, place: Place
) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """The ids of labels given as words or numbers, and the names of all labels."""
    import pandas as pd

    cleaned = columns.without_gaps(values, ("",))
    columns.refuse(values, cleaned.isna().to_numpy(), "a label", place)
    numeric = pd.api.types.is_numeric_dtype(cleaned.dtype)
    if numeric and cleaned.dtype.kind == "f":
        wrong = ~np.isfinite(cleaned.to_numpy(np.float64, na_value=np.nan))
        columns.refuse(values, wrong, "a finite number", place)
    if not (numeric or columns.is_text(cleaned)):
        raise ValueError(f"column {values.name!r} must hold numbers or words, got {cleaned.dtype}")
    words = [str(plain(value)) for value in cleaned.tolist()]
    rows = values.index.to_numpy()
    return read_labels(words, names, lambda at: place(int(rows[at])))


def parts_of(values: pd.Series[Any]) -> dict[str, NDArray[np.int64]]:
    """The positions of each part's rows; `PARTS` are matched case-insensitively."""
    parts: dict[str, list[int]] = {}
    for row, name in enumerate(columns.without_gaps(values, ("",)).tolist()):
        if isinstance(name, str):
            known = name.lower() in PARTS
            parts.setdefault(name.lower() if known else name, []).append(row)
    if parts and not set(parts) & set(PARTS):
        warn(
            f"the column 'part' divides the rows into {shown(list(parts))} and is not a feature: "
            "to make it one, rename it or list it among the features"
        )
    return {name: np.array(rows) for name, rows in parts.items()}


def _sparse_target(weights: Any) -> SparseTarget:
    counts = np.diff(weights.indptr)
    used = np.arange(counts.max()) < counts[:, None]
    indices, masses = np.zeros(used.shape, np.int64), np.zeros(used.shape)
    indices[used], masses[used] = weights.indices, weights.data
    return SparseTarget(torch.from_numpy(indices), torch.from_numpy(masses).float())
