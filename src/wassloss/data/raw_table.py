"""Tables as people have them, with categories and gaps, as features.

What a column becomes is decided on the rows of one table, whatever their labels, kept as JSON next
to a model, and done again to the rows that it predicts.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from wassloss._checks import check_choice
from wassloss.data._arrow import import_pyarrow
from wassloss.data.table import DataWarning

if TYPE_CHECKING:
    import pyarrow

OTHER, MISSING = "other", "missing"
_RARE = 0.01  # of the rows: levels of fewer are put together …
_RARE_ROWS = 10  # … and of fewer than so many rows
_MOST_LEVELS = 100  # of a column; a text with more is no category


@dataclass(frozen=True)
class Column:
    """What becomes of a column.

    Attributes:
        kind: ``"number"``, with `median` for what is missing and, where something was, a feature
            that says so; or ``"category"``, with a feature for each of `levels`.
    """

    name: str
    kind: Literal["number", "category"]
    median: float = 0.0
    gaps: bool = False
    levels: tuple[str, ...] = ()

    @property
    def features(self) -> list[str]:
        """Their names."""
        if self.kind == "category":
            return [f"{self.name}={level}" for level in self.levels]
        return [self.name, f"{self.name} is missing"] if self.gaps else [self.name]

    def encoded(self, values: Sequence[Any]) -> NDArray[np.float64]:
        """Features `(rows, features)` of values, None where one is missing."""
        if self.kind == "category":
            place = {level: i for i, level in enumerate(self.levels)}
            found = np.zeros((len(values), len(self.levels)))
            for row, value in enumerate(values):
                level = MISSING if value is None else str(value)
                column = place.get(level, place.get(OTHER))
                if column is not None:
                    found[row, column] = 1.0
            return found
        numbers = np.array([np.nan if v is None else self._number(v) for v in values], float)
        missing = np.isnan(numbers)
        filled = np.where(missing, self.median, numbers)
        return np.stack([filled, missing], 1) if self.gaps else filled[:, None]

    def _number(self, value: Any) -> float:
        try:
            return float(value)
        except (TypeError, ValueError):
            raise ValueError(
                f"column {self.name!r} must hold numbers, as it did in training, got {value!r}"
            ) from None


@dataclass(frozen=True)
class RawTable:
    """How to make features of a table's columns."""

    columns: tuple[Column, ...]

    @classmethod
    def of(cls, table: pyarrow.Table, missing: str = "impute") -> RawTable:
        """Decide by the rows of a table; `missing` is ``"impute"`` or ``"error"``."""
        check_choice("missing", missing, ("impute", "error"))
        found = [_decided(name, table[name], missing) for name in table.column_names]
        columns = tuple(column for column in found if column is not None)
        if not columns:
            raise ValueError("table must have a column that varies besides the label, got none")
        return cls(columns)

    @property
    def feature_names(self) -> list[str]:
        """In the order of :meth:`features`."""
        return [name for column in self.columns for name in column.features]

    def features(self, table: pyarrow.Table) -> NDArray[np.float64]:
        """Features `(rows, features)`; columns are found by name, in any order."""
        absent = [c.name for c in self.columns if c.name not in table.column_names]
        if absent:
            raise ValueError(
                f"table must have the columns that the model learned from, got none named "
                f"{', '.join(map(repr, absent))}"
            )
        return np.hstack([c.encoded(table[c.name].to_pylist()) for c in self.columns])

    def state(self) -> list[dict[str, Any]]:
        """As JSON holds it."""
        return [asdict(column) for column in self.columns]

    @classmethod
    def from_state(cls, state: Sequence[Mapping[str, Any]]) -> RawTable:
        """What :meth:`state` was taken of."""
        return cls(tuple(Column(**{**c, "levels": tuple(c["levels"])}) for c in state))


def read_raw_table(path: str | Path) -> pyarrow.Table:
    """A CSV or Parquet file, with the types that its columns seem to have."""
    pa, path = import_pyarrow(), Path(path)
    if path.suffix.lower() in (".parquet", ".pq"):
        return pa.parquet.read_table(path)
    gaps = ["", "NA", "N/A", "NaN", "nan", "null", "NULL", "None", "?"]
    options = pa.csv.ConvertOptions(null_values=gaps, strings_can_be_null=True)
    try:
        return pa.csv.read_csv(path, convert_options=options)
    except pa.ArrowInvalid as error:
        raise ValueError(f"{path} must be a CSV file with a header: {error}") from None


def _decided(name: str, values: Any, missing: str) -> Column | None:
    """What becomes of a column; None where it says nothing."""
    pa = import_pyarrow()
    kind, gaps = values.type, values.null_count > 0
    if gaps and missing == "error":
        raise ValueError(
            f"column {name!r} must have no gaps (missing=error), got {values.null_count}"
        )
    if pa.types.is_temporal(kind):
        raise ValueError(
            f"column {name!r} holds dates or times ({kind}): drop it, or put a number in its "
            "place, such as the days since an event"
        )
    if pa.types.is_boolean(kind) or pa.types.is_integer(kind) or pa.types.is_floating(kind):
        return _number(name, values, gaps, pa.types.is_integer(kind))
    listed = [MISSING if v is None else str(v) for v in values.to_pylist()]
    counts = Counter(listed)
    least = max(_RARE_ROWS, _RARE * len(listed)) if len(counts) > 2 else 1
    kept = sorted(level for level, count in counts.items() if count >= least)
    if len(counts) > _MOST_LEVELS and sum(counts[level] for level in kept) < len(listed) / 2:
        warnings.warn(
            f"column {name!r} has {len(counts)} different texts and is left out: make features of "
            "it, or drop it",
            DataWarning,
            stacklevel=2,
        )
        return None
    rare = len(kept) < len(counts)
    levels = (*kept, OTHER) if rare and OTHER not in kept else tuple(kept)
    return Column(name, "category", levels=levels) if len(counts) > 1 else None


def _number(name: str, values: Any, gaps: bool, whole: bool) -> Column | None:
    numbers = np.array([np.nan if v is None else float(v) for v in values.to_pylist()])
    there = numbers[np.isfinite(numbers)]
    if len(there) == 0 or (there.min() == there.max() and not gaps):
        return None
    gaps = gaps or bool(np.isnan(numbers).any())
    steps = np.unique(np.diff(there))
    if whole and not gaps and len(there) > 2 and steps.tolist() == [1.0]:
        warnings.warn(
            f"column {name!r} looks like row numbers: drop it (--drop {name}) if it says nothing "
            "about a row",
            DataWarning,
            stacklevel=2,
        )
    return Column(name, "number", median=float(np.median(there)), gaps=gaps)
