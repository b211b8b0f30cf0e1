"""What the columns of a table mean: which are features, which are targets.

This holds for Parquet files and for CSV files, which are read as the same kind of table (an Arrow
table):

================  ============================================================================
``label``         the class: a number or a string
``labels``        instead of ``label``: a list of numbers or strings
``weights``       next to ``labels``: a list of numbers of the same length; without it, the
                  labels of a row share a mass of 1. Parquet without ``labels`` or ``label``: one
                  weight per label
``part``          optional: train, validation, test, ...; empty for rows of no part
``group``         optional: an integer, the same for rows that are variants of each other
``features``      lists of floats, all of one length; without such a column, every column that is
                  not named above is a feature, in the order of the file
================  ============================================================================

The metadata of a Parquet file may hold, under the key ``wassloss``, JSON with ``label_names``,
``label_count``, ``feature_names`` (of the lists), ``name`` and ``provenance``. With either of the
first two, integers are ids of labels; otherwise they are values.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from wassloss.data._arrow import is_list
from wassloss.data.columns import ABOUT_ROWS, feature_order, not_features
from wassloss.data.labels import agreed_names, numbers, shown

if TYPE_CHECKING:
    import pyarrow as pa

METADATA_KEY = b"wassloss"
FORMAT = 1
Place = Callable[[int], str]  # where a row is in its file, for error messages


@dataclass(frozen=True)
class Layout:
    """Which columns hold features and targets, found from a table's schema and metadata."""

    feature_columns: tuple[str, ...]
    feature_names: tuple[str, ...] | None  # None for lists of numbers without names
    order: tuple[int, ...] | None  # which numbers of the lists are wanted; None for all
    target_column: str | None  # label, labels or weights; None if labels are not read
    weighted: bool  # whether labels have weights
    label_names: tuple[str, ...] | None
    label_count: int  # 0 if the file does not say
    ids: bool  # whether integers are ids of labels rather than values
    about_rows: tuple[str, ...]  # part and group, if the table has them
    name: str
    provenance: str

    @property
    def columns(self) -> list[str]:
        """The columns of features and targets."""
        target = [] if self.target_column is None else [self.target_column]
        return [*self.feature_columns, *target, *(["weights"] if self.weighted else [])]


class Loaded(NamedTuple):
    """A table with typed columns, what they mean, and where each row is in its file."""

    table: pa.Table
    layout: Layout
    place: Place


def find_layout(
    schema: pa.Schema,
    label_names: tuple[str, ...] | None = None,
    label_column: str | None = None,
    feature_names: tuple[str, ...] | None = None,
    labelled: bool = True,
) -> Layout:
    """Find the columns of a table; errors name those that are missing."""
    label = label_column or "label"
    choices = (label, "labels", "weights")
    target = next((name for name in choices if name in schema.names), None) if labelled else None
    if labelled and target is None:
        raise ValueError(f"it lacks a column {label!r}, 'labels' or 'weights'; {_names(schema)}")
    said = said_by(schema)
    own, count = said.get("label_names"), int(said.get("label_count", 0))
    label_names = agreed_names(label_names, own)
    counted = count > 0 and (label_names is None or len(label_names) == count)
    if count and not counted and numbers(label_names or ()) is None:
        raise ValueError(
            f"label_names must name the {count} labels that the file counts, or some of them "
            f"by number, got {len(label_names or ())} names"
        )
    columns, names, order = _feature_columns(schema, said, label, feature_names)
    return Layout(
        columns,
        names,
        order,
        target,
        weighted=target == "labels" and "weights" in schema.names,
        label_names=label_names,
        label_count=len(label_names) if label_names else count,
        ids=own is not None or counted,
        about_rows=tuple(name for name in ABOUT_ROWS if name in schema.names),
        name=str(said.get("name", "")),
        provenance=str(said.get("provenance", "")),
    )


def said_by(schema: pa.Schema) -> dict[str, Any]:
    """What a file says about itself in its metadata."""
    said = json.loads((schema.metadata or {}).get(METADATA_KEY, b"{}"))
    if not isinstance(said, dict):
        raise ValueError("its metadata under 'wassloss' must be a JSON object")
    if said.get("format", FORMAT) != FORMAT:
        raise ValueError(f"format {said['format']} is unknown, this version reads {FORMAT}")
    return said


def _feature_columns(
    schema: pa.Schema, said: dict[str, Any], label: str, wanted: tuple[str, ...] | None
) -> tuple[tuple[str, ...], tuple[str, ...] | None, tuple[int, ...] | None]:
    """The columns of features, the features' names, and which numbers of lists are wanted."""
    if "features" in schema.names and is_list(schema.field("features").type):
        own = said.get("feature_names")
        if own is None or wanted is None:
            return ("features",), None if own is None else tuple(own), None
        return ("features",), wanted, tuple(feature_order(own, wanted))
    reserved = not_features(label)
    # Pandas writes its index as a column of that name.
    found = [n for n in schema.names if n not in reserved and not n.startswith("__index_level_")]
    if not found:
        raise ValueError(f"it lacks a column of features; {_names(schema)}")
    if wanted is not None:
        found = [found[i] for i in feature_order(found, wanted)]
    return tuple(found), tuple(found), None


def _names(schema: pa.Schema) -> str:
    return f"it has {shown(schema.names, 10)}"
