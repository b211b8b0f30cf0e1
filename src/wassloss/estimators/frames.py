"""Data frames with the columns of a table as they are: words, numbers and gaps."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from wassloss.data._arrow import import_pyarrow, listed, named_errors, warn
from wassloss.data.raw_table import RawTable
from wassloss.data.table import Wanted


def is_frame(X: Any) -> bool:
    """Whether features are a data frame."""
    return hasattr(X, "columns") and hasattr(X, "to_numpy")


def names_of(table: RawTable) -> tuple[str, ...] | None:
    """The names of the features of a table; None where they are only numbered."""
    names = table.feature_names
    return None if names == tuple(str(i) for i in range(len(names))) else names


def wanted_like(table: RawTable, label_column: str | None = None) -> Wanted:
    """What to read of a file for a model that was fitted to a table."""
    return Wanted(
        label_column=label_column,
        feature_names=names_of(table),
        drop=table.ignored,
        raw=table,
        usual_label=table.label_column,
    )


def table_of(X: Any) -> RawTable:
    """What becomes of the columns of a data frame, decided by its rows."""
    with named_errors("X"):
        return RawTable.of(_arrow(X))


def frame_features(X: Any, table: RawTable) -> NDArray[np.float64]:
    """The features of a data frame, whose columns are found by name in any order."""
    rows, own = _arrow(X), {column.name for column in table.columns}
    others = {table.label_column or "label", *table.ignored} - own
    with named_errors("X"):
        names = [name for name in rows.column_names if name not in others]
        matched = table.matched(names)
        extra = [name for name in names if name not in matched]
        if extra:
            warn(f"ignoring {listed(extra)}, which the model was not trained on")
        return table.features(rows.select(matched))


def _arrow(X: Any) -> Any:
    return import_pyarrow().Table.from_pandas(X, preserve_index=False)
