"""Tables as people have them, with categories and gaps, as features.

What a column becomes is decided on the rows of one table, whatever their labels, kept as JSON next
to a model, and done again to the rows that it predicts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from wassloss._checks import check_choice
from wassloss.data._arrow import ROW, Place, Values, check_columns, import_pyarrow, warn
from wassloss.data.labels import number, shown

if TYPE_CHECKING:
    import pyarrow as pa

OTHER, MISSING = "other", "missing"
_RARE = 0.01  # of the rows: levels of fewer are put together …
_RARE_ROWS, _RARE_SHARE = 10, 0.05  # … and of fewer than so many rows, or this share of a few
_MOST_LEVELS = 100  # of a column; a text with more is no category
_NUMBERS = 10  # different words, most of them numbers: the others are mistakes
_COUNTED = 10  # rows, numbered one by one
_LARGEST = float(np.finfo(np.float32).max)


@dataclass(frozen=True)
class Column:
    """What becomes of a column.

    Attributes:
        kind: ``"number"``, one feature and, where `gaps`, another that says what is missing; or
            ``"category"``, a feature for each of `levels`.
        fill: the number in place of a missing one; None if nothing may be missing.
    """

    name: str
    kind: Literal["number", "category"] = "number"
    fill: float | None = None
    gaps: bool = False
    levels: tuple[str, ...] = ()

    @property
    def features(self) -> list[str]:
        """Their names."""
        if self.kind == "category":
            return [f"{self.name}={level}" for level in self.levels]
        return [self.name, f"{self.name} is missing"] if self.gaps else [self.name]

    def encoded(self, values: Values) -> NDArray[np.float64]:
        """Features `(rows, features)`."""
        if self.kind == "category":
            return self._one_hot(values)
        numbers = values.numbers()
        missing = np.isnan(numbers)
        if self.fill is None:
            values.refuse(missing, "a number")
        values.refuse(np.abs(numbers) > _LARGEST, "a finite number that fits float32")
        filled = np.where(missing, 0.0 if self.fill is None else self.fill, numbers)
        return np.stack([filled, missing], 1) if self.gaps else filled[:, None]

    def _one_hot(self, values: Values) -> NDArray[np.float64]:
        if self.fill is None:
            values.refuse(values.missing, "a value")
        pa, words = import_pyarrow(), values.words().fill_null(MISSING)
        level = pa.compute.index_in(words, value_set=pa.array(self.levels))
        unseen = sorted(words.filter(level.is_null()).unique().to_pylist())
        if unseen and OTHER not in self.levels:
            warn(
                f"column {values.name!r} holds {shown(unseen, 5)}, which training never saw: its "
                "features are all 0 there"
            )
        rest = self.levels.index(OTHER) if OTHER in self.levels else -1
        place = level.fill_null(rest).to_numpy(zero_copy_only=False)
        found: NDArray[np.float64] = (place[:, None] == np.arange(len(self.levels))).astype(float)
        return found


@dataclass(frozen=True)
class RawTable:
    """How to make features of a table's columns.

    Attributes:
        columns: what becomes of each.
        label_column: the one with the labels, if it is not called ``label``.
        ignored: others that are no features, and are not missed.
    """

    columns: tuple[Column, ...]
    label_column: str | None = None
    ignored: tuple[str, ...] = ()

    @classmethod
    def of(
        cls, table: pa.Table, held: Any = (), missing: str = "impute", place: Place = ROW
    ) -> RawTable:
        """Decide by the rows of a table that are not `held` out, by all if that leaves none.

        `missing` is ``"impute"`` or ``"error"``.
        """
        check_choice("missing", missing, ("impute", "error"))
        strict = missing == "error"
        every = np.arange(table.num_rows)
        rows = every if len(held) == len(every) else np.setdiff1d(every, held)
        own = table.take(rows)

        def decided(name: str) -> Column | None:
            return _decided(Values.of(own, name, lambda i: place(int(rows[i]))), rows, strict)

        found = map(decided, table.column_names)
        columns = tuple(column for column in found if column is not None)
        if not columns:
            raise ValueError("table must have a column that says something, got none")
        return cls(columns)

    @classmethod
    def of_numbers(cls, names: Sequence[str] | None, count: int) -> RawTable:
        """Numbers as they are, without gaps; named 0, 1, … if they have no names."""
        each = [str(i) for i in range(count)] if names is None else names
        return cls(tuple(Column(name) for name in each))

    @property
    def feature_names(self) -> tuple[str, ...]:
        """In the order of :meth:`features`."""
        return tuple(name for column in self.columns for name in column.features)

    @property
    def names(self) -> tuple[str, ...] | None:
        """The names of the features; None where they are only numbered."""
        names = self.feature_names
        return None if names == tuple(str(i) for i in range(len(names))) else names

    def matched(self, names: Sequence[str]) -> list[str]:
        """The columns of a table in the order of ours: by name, or by position if ours have none.

        Raises:
            ValueError: columns are missing.
        """
        wanted = [column.name for column in self.columns]
        lacking = [name for name in wanted if name not in names]
        if lacking and len(names) == len(wanted) and wanted == [str(i) for i in range(len(names))]:
            warn("its columns go by position, as the model was trained on ones without names")
            return list(names)
        check_columns(names, lacking)
        return wanted

    def features(self, table: pa.Table, place: Place = ROW) -> NDArray[np.float64]:
        """Features `(rows, features)`; columns are found as :meth:`matched` finds them."""
        names = self.matched(table.column_names)
        pairs = zip(self.columns, names, strict=True)
        return np.hstack([column.encoded(Values.of(table, name, place)) for column, name in pairs])

    def state(self) -> dict[str, Any]:
        """As JSON holds it."""
        return asdict(self)

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> RawTable:
        """What :meth:`state` was taken of."""
        columns = (Column(**{**c, "levels": tuple(c["levels"])}) for c in state["columns"])
        return cls(tuple(columns), state["label_column"], tuple(state["ignored"]))


def _decided(values: Values, rows: NDArray[np.int64], strict: bool) -> Column | None:
    """What becomes of a column with these values in these rows; None where it says nothing."""
    types, name, kind = import_pyarrow().types, values.name, values.array.type
    if types.is_null(kind):
        return None
    if types.is_temporal(kind):
        raise ValueError(
            f"column {name!r} holds dates or times ({kind}): drop it (--drop {name}), or put a "
            "number in its place, such as the days since an event"
        )
    if types.is_nested(kind) or types.is_binary(kind):
        raise ValueError(
            f"column {name!r} must hold numbers or words, got {kind}: put each number into a "
            "column of its own"
        )
    numbers = values.numbers() if values.is_number else None
    gaps = values.missing if numbers is None else np.isnan(numbers)
    if strict:
        values.refuse(gaps, "a value, as nothing may be missing (missing=error)")
    if numbers is None:
        levels = _levels(values)
        fill = None if strict else 0.0
        return Column(name, "category", fill, levels=levels) if len(levels) > 1 else None
    some = bool(gaps.any())
    there = numbers[np.isfinite(numbers)]
    if len(there) == 0:
        return None
    if not some and len(there) >= _COUNTED and np.array_equal(np.diff(there), np.diff(rows)):
        warn(
            f"column {name!r} looks like row numbers: drop it (--drop {name}) if it says "
            "nothing about a row"
        )
    return Column(name, "number", None if strict else float(np.median(there)), some)


def _levels(values: Values) -> tuple[str, ...]:
    """The levels of a category, with those that are rare as one; none if it is no category."""
    words = values.words().fill_null(MISSING).to_pylist()
    rows, counts = len(words), Counter(words)
    odd = {word for word in counts if word != MISSING and number(word) is None}
    if len(counts) > _NUMBERS and len(odd) < len(counts) / 2:
        values.refuse(np.array([word in odd for word in words]), "a number, as in most rows")
    least = max(_RARE * rows, min(_RARE_ROWS, _RARE_SHARE * rows)) if len(counts) > 2 else 1
    kept = sorted(level for level, count in counts.items() if count >= least)
    many = len(counts) > _MOST_LEVELS or not kept
    if many and sum(counts[level] for level in kept) < rows / 2:
        warn(
            f"column {values.name!r} has {len(counts)} different texts and is left out: make "
            f"features of it, or drop it (--drop {values.name})"
        )
        return ()
    rare = len(kept) < len(counts)
    return (*kept, OTHER) if rare and OTHER not in kept else tuple(kept)
