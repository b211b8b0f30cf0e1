"""Features alone, of rows that may lack labels: what there is to predict for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import torch
from torch import Tensor

from wassloss import data as data_sets
from wassloss._precision import narrowed
from wassloss.data import Dataset
from wassloss.data._parts import part_name
from wassloss.data._sources import expanded
from wassloss.data.parquet import feature_batches, row_count

BUILT_IN: dict[str, Callable[[], Dataset]] = {"clipart": data_sets.clipart}
_PARQUET = (".parquet", ".pq")


def features_to_predict(
    source: str, rows: int, part: str | None = None, label_column: str | None = None
) -> Iterator[tuple[list[int], Tensor]]:
    """The numbers of some rows and their features, for all rows of a part in turn.

    Parquet is read a piece at a time: a folder need not fit into memory. Its rows are numbered
    through all files, which come in the order of their names.

    Args:
        source: a file, a folder of Parquet files, or a data set that ships.
        rows: how many at a time.
        part: of the data; by default all rows.
        label_column: of a table, which is no feature.
    """
    if Path(source).is_dir() or Path(source).suffix.lower() in _PARQUET:
        yield from _from_parquet(source, rows, part)
        return
    if source in BUILT_IN or part is not None:
        known = (
            BUILT_IN[source]()
            if source in BUILT_IN
            else data_sets.read(source, label_column=label_column)
        )
        numbers = list(range(len(known)))
        if part is not None:
            known.part(part)  # for its error
            numbers = known.parts[part_name(part)].tolist()
        features = known.features
    else:
        features = data_sets.read_features(source, label_column=label_column)
        numbers = list(range(len(features)))
    features = narrowed("features", features, torch.float32)
    for start in range(0, len(numbers), rows):
        chosen = numbers[start : start + rows]
        yield chosen, features[chosen]


def _from_parquet(source: str, rows: int, part: str | None) -> Iterator[tuple[list[int], Tensor]]:
    before, found = 0, False
    for path in expanded(source):
        for numbers, features in feature_batches(path, rows, part):
            found = True
            own = [before + number for number in numbers]
            yield own, narrowed("features", features, torch.float32, own)
        before += row_count(path)
    if not found:
        wanted = "rows" if part is None else f"rows of the part {part!r}"
        raise ValueError(f"{source} must have {wanted}, got none")


def padded_features(features: Tensor, width: int, source: str) -> Tensor:
    """As wide as a model takes them: an SVMlight file does not say how many features there are."""
    missing = width - features.shape[1]
    if missing > 0 and Path(source).suffix.lower() in (".svm", ".svmlight", ".libsvm"):
        return torch.nn.functional.pad(features, (0, missing))
    return features
