"""Features to predict for, of rows that may lack labels."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import torch
from torch import Tensor

from wassloss import data as data_sets
from wassloss._precision import narrowed
from wassloss.data import Dataset
from wassloss.data._parts import part_name
from wassloss.data.files import read_features
from wassloss.data.parquet import expanded, feature_batches, row_count
from wassloss.estimators.model_file import rows_at_once
from wassloss.runs.columns import Columns, columns_for
from wassloss.runs.trained import TrainedRun

BUILT_IN: dict[str, Callable[[], Dataset]] = {"clipart": data_sets.clipart}
_PARQUET = (".parquet", ".pq")


def features_to_predict(
    run: TrainedRun, source: str, part: str | None = None, label_column: str | None = None
) -> Iterator[tuple[list[int], Tensor]]:
    """Row numbers and features as a run takes them, a piece at a time.

    Parquet is also read a piece at a time, so a folder need not fit into memory. Rows are numbered
    across its files, in the order of their names.

    Args:
        run: which columns are wanted.
        source: a file, a folder of Parquet files, or a built-in data set.
        part: of the data; by default all rows.
        label_column: of a table, not a feature; by default as in training.
    """
    rows = rows_at_once(run.metric.size)
    if source in BUILT_IN:
        features, numbers = _of_part(BUILT_IN[source](), part)
    else:
        columns = columns_for(run, source, label_column, labelled=part is not None)
        if Path(source).is_dir() or Path(source).suffix.lower() in _PARQUET:
            yield from _from_parquet(source, rows, part, columns)
            return
        features, numbers = _from_file(source, part, columns)
    features = padded_features(features, run.features, source)
    features = narrowed("features", features, torch.float32)
    for start in range(0, len(numbers), rows):
        chosen = numbers[start : start + rows]
        yield chosen, features[chosen]


def _from_file(source: str, part: str | None, columns: Columns) -> tuple[Tensor, list[int]]:
    wanted, label = columns
    table = Path(source).suffix.lower() == ".csv"
    if part is not None:
        label = label if table else None
        return _of_part(data_sets.read(source, label_column=label, feature_names=wanted), part)
    features = read_features(source, label, wanted)
    return features, list(range(len(features)))


def _of_part(data: Dataset, part: str | None) -> tuple[Tensor, list[int]]:
    if part is None:
        return data.features, list(range(len(data)))
    data.part(part)  # for its error
    return data.features, data.parts[part_name(part)].tolist()


def _from_parquet(
    source: str, rows: int, part: str | None, columns: Columns
) -> Iterator[tuple[list[int], Tensor]]:
    before, found = 0, False
    wanted, label = columns
    for path in expanded(source):
        for numbers, features in feature_batches(path, rows, part, label, wanted):
            found = True
            own = [before + number for number in numbers]
            yield own, narrowed("features", features, torch.float32, own)
        before += row_count(path)
    if not found:
        which = "rows" if part is None else f"rows of the part {part!r}"
        raise ValueError(f"{source} must have {which}, got none")


def padded_features(features: Tensor, width: int, source: str) -> Tensor:
    """Padded to the model's width: an SVMlight file does not say how many features it has."""
    missing = width - features.shape[1]
    if missing > 0 and Path(source).suffix.lower() in (".svm", ".svmlight", ".libsvm"):
        return torch.nn.functional.pad(features, (0, missing))
    return features
