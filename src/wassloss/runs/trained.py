"""A trained run read from its directory: from a table's columns to labels."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from wassloss._precision import narrowed
from wassloss.data._arrow import import_pyarrow, named_errors
from wassloss.data._inputs import feature_tensor
from wassloss.data.labels import numbers
from wassloss.data.table import Wanted, find_layout
from wassloss.estimators.model_file import FittedModel, decide, one_line_errors, unpack
from wassloss.runs.directory import CONFIG, LOG, MODEL, SCORES, START, read_checked, read_config
from wassloss.runs.settings import Settings
from wassloss.training.checkpoints import CheckpointError, has_checkpoints, newest_checkpoint
from wassloss.training.log import Record, parse_log, read_log


@dataclass(frozen=True)
class TrainedRun(FittedModel):
    """A run, ready to predict: columns, preprocessing, model, labels, metric.

    ``X`` is features `(n, features)`: a tensor or an array in the order of `feature_names`; or a
    data frame with the columns of the training table as they were, in any order.

    Attributes:
        metric: the ground metric, with the labels' names if they are known.
        model: in evaluation mode; takes standardised features.
        scaler: standardises them, or None.
        features: how many it takes.
        feature_names: those that it was trained on, or None if they go by position.
        raw: what becomes of the columns of a table, if it was trained on one.
        path: its directory.
        settings: what it was asked to do.
        config: the content of ``config.json``.
        finished: False if the model is from a checkpoint of a run that was stopped.
    """

    path: Path
    settings: Settings
    config: dict[str, Any]
    finished: bool

    @property
    def name(self) -> str:
        """The name of its directory."""
        return self.path.resolve().name

    @property
    def labels(self) -> tuple[str | int | float, ...]:
        """The labels, in the order of the metric; numbers if all of them are."""
        names = self.metric.labels
        if names is None:
            return tuple(range(self.metric.size))
        return tuple(numbers(names) or names)

    def label(self, index: int) -> str:
        """The name of a label."""
        return str(index) if self.metric.labels is None else self.metric.labels[index]

    def log(self) -> list[Record]:
        """The records of its training."""
        if not (self.path / LOG).exists():
            return []
        if LOG not in self.config["files"]:
            return read_log(self.path)
        return parse_log(read_checked(self.path, LOG, self.config), self.path / LOG)

    def logits(self, X: Any) -> Tensor:
        """The model's outputs, `(n, labels)`, in the order of `labels`."""
        return self.outputs(self._features(X))

    def predict_proba(self, X: Any) -> Any:
        """Probabilities `(n, labels)`, in the order of `labels`; a tensor if `X` is one."""
        p = self.logits(X).softmax(1)
        return p if isinstance(X, Tensor) else p.numpy()

    def predict(self, X: Any, decision: str = "probable") -> NDArray[Any]:
        """One label per example: the most probable, or that of ``"least_cost"``."""
        return self.predict_top(X, 1, decision)[:, 0]

    def predict_top(self, X: Any, k: int, decision: str = "probable") -> NDArray[Any]:
        """`k` labels per example, best first, `(n, k)`.

        The most ``"probable"``, or those of ``"least_cost"``: the label, or for several the set,
        whose expected cost to the nearest of them is small.
        """
        found: NDArray[Any] = np.array(self.labels)[self.chosen(X, k, decision)]
        return found

    def chosen(self, X: Any, k: int, decision: str = "probable") -> NDArray[np.int64]:
        """The places in `labels` of what :meth:`predict_top` answers."""
        found: NDArray[np.int64]
        found = decide(self.logits(X).softmax(1), self.metric, k, decision).numpy()
        return found

    def _features(self, X: Any) -> Tensor:
        """Finite floats in the order of training."""
        if hasattr(X, "columns") and hasattr(X, "to_numpy"):
            X = self._columns(X)
        features = feature_tensor(X)
        if features.shape[1] != self.features:
            raise ValueError(
                f"data must have {self.features} features, as {self.path} was trained on, got "
                f"{features.shape[1]}"
            )
        narrow = narrowed("features", features, torch.float32)
        return narrow if self.scaler is None else features  # which is narrowed when standardised

    def _columns(self, frame: Any) -> NDArray[Any]:
        wanted = Wanted(usual_label=self.settings.label_column, raw=self.columns, labelled=False)
        table = import_pyarrow().Table.from_pandas(frame, preserve_index=False)
        with named_errors("X"):
            layout = find_layout(table.schema, wanted)
            return self.columns.features(table.select(layout.feature_columns))


def open_run(directory: str | os.PathLike[str], device: str = "cpu") -> TrainedRun:
    """Read a run, to predict on `device`; all its files are checked against their sums.

    Raises:
        FileNotFoundError: there is none in the directory.
        ValueError: one of its files is damaged; the message says which, and what to do.
    """
    path = Path(directory)
    if has_checkpoints(path) and not (path / CONFIG).exists():
        raise ValueError(
            f"{path} holds only checkpoints of wassloss.train: wassloss.training.load_model reads "
            "their model"
        )
    config = read_config(path)
    for name in (SCORES, LOG):  # not needed to predict, but damage should be known
        if name in config["files"] and (path / name).exists():
            read_checked(path, name, config)
    start = read_model(path, START, config)
    finished = MODEL in config["files"] and (path / MODEL).exists()
    fitted = read_model(path, MODEL, config) if finished else _newest(path, start)
    fitted.model.to(device)
    settings = Settings.from_config(config["settings"])
    return TrainedRun(
        **vars(fitted), path=path, settings=settings, config=config, finished=finished
    )


def read_model(path: Path, name: str, config: dict[str, Any]) -> FittedModel:
    """The model in a file of a run."""
    content = read_checked(path, name, config)
    with one_line_errors(path / name, "model"):
        return unpack(content)[0]


def _newest(path: Path, start: FittedModel) -> FittedModel:
    checkpoint = newest_checkpoint(path)
    if checkpoint is None:
        raise CheckpointError(
            f"{path} holds a run that was stopped before its first checkpoint: train again"
        )
    return replace(start, model=checkpoint.model(path))
