"""Features to predict for, of rows that may lack labels, and which columns of a file they are."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import torch
from torch import Tensor

from wassloss import data as data_sets
from wassloss._precision import narrowed
from wassloss.data import Dataset, DataWarning
from wassloss.data.files import describe, feature_batches, in_batches
from wassloss.data.parquet import expanded
from wassloss.data.table import Wanted
from wassloss.estimators.model_file import rows_at_once
from wassloss.runs.trained import TrainedRun

BUILT_IN: dict[str, Callable[[], Dataset]] = {"clipart": data_sets.clipart}


def features_to_predict(
    run: TrainedRun, source: str, part: str | None = None, label_column: str | None = None
) -> Iterator[tuple[list[int], Tensor]]:
    """Row numbers and features as a run takes them, a piece at a time.

    The source is a file, a folder of Parquet files, or a built-in data set.
    """
    rows = rows_at_once(run.metric.size)
    if source in BUILT_IN:
        data = BUILT_IN[source]()
        batches = in_batches(data.features, data.parts, rows, part)
    else:
        wanted = columns_for(run, source, label_column, labelled=False)
        batches = feature_batches(source, rows, part, wanted)
    for numbers, features in batches:
        padded = padded_features(features, run.features, source)
        yield numbers, narrowed("features", padded, torch.float32, numbers)


def padded_features(features: Tensor, width: int, source: str) -> Tensor:
    """Padded to the model's width: an SVMlight file does not say how many features it has."""
    missing = width - features.shape[1]
    if missing > 0 and Path(source).suffix.lower() in (".svm", ".svmlight", ".libsvm"):
        return torch.nn.functional.pad(features, (0, missing))
    return features


def columns_for(run: TrainedRun, source: str, label_column: str | None, labelled: bool) -> Wanted:
    """The columns of a file that a run takes: by name, or by position if either has no names.

    The label's column is, unless the user says another, that of the training data.
    """
    trained = run.settings.label_column
    by_position = run.feature_names is None and re.fullmatch(r"-?\d+", trained or "")
    label = label_column or (None if by_position else trained)
    found = describe(expanded(source)[0], label)
    if found.unnamed:  # the label is where it was in training, or else last
        given = label_column or (trained if by_position else "-1")
        without = label_column is None and not labelled and found.unnamed == run.features
        return Wanted(label_column=None if without else given, labelled=labelled)
    names = None
    if found.feature_names is not None and run.feature_names is None:
        warnings.warn(
            f"{run.path} was trained on columns without names: those of {source} go by position",
            DataWarning,
            stacklevel=2,
        )
    elif found.feature_names is not None:
        run.check_columns(found.feature_names, source)
        names = run.feature_names
    return Wanted(label_column=label, feature_names=names, labelled=labelled)
