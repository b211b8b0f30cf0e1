"""Which columns of a file are the features of a run, and which is the label."""

from __future__ import annotations

import re
import warnings
from pathlib import Path
from typing import NamedTuple

from wassloss.data._csv_text import is_data, read_header
from wassloss.data.columns import DataWarning
from wassloss.data.files import describe
from wassloss.data.parquet import expanded
from wassloss.runs.trained import TrainedRun


class Columns(NamedTuple):
    """What to ask a reader for."""

    feature_names: tuple[str, ...] | None  # None for all, in the order of the file
    label_column: str | None  # None for the reader's own choice


def columns_for(run: TrainedRun, source: str, label_column: str | None, labelled: bool) -> Columns:
    """The columns of a file that a run takes: by name, or by position if either has no names.

    Args:
        run: the run.
        source: a file, or a folder of Parquet files.
        label_column: as the user says; by default as when the run was trained.
        labelled: whether labels are needed.

    Raises:
        ValueError: columns are missing, and which.
    """
    path = expanded(source)[0]
    if Path(path).suffix.lower() == ".csv" and is_data(words := read_header(path)):
        return Columns(None, label_column or _position(run, len(words), labelled))
    label = label_column or (None if _by_position(run) else run.settings.label_column)
    found = describe(path, label).feature_names
    if found is None:
        return Columns(None, label)
    if run.feature_names is None:
        warnings.warn(
            f"{run.path} was trained on columns without names: those of {source} go by position",
            DataWarning,
            stacklevel=2,
        )
        return Columns(None, label)
    run.check_columns(found, source)
    return Columns(run.feature_names, label)


def _position(run: TrainedRun, width: int, labelled: bool) -> str | None:
    """The label's position in a file without a header: as in training, or else the last."""
    if not labelled and width == run.features:
        return None
    return run.settings.label_column if _by_position(run) else "-1"


def _by_position(run: TrainedRun) -> bool:
    """Whether the run knows its label's column by position."""
    said = run.settings.label_column
    return run.feature_names is None and bool(said and re.fullmatch(r"-?\d+", said))
