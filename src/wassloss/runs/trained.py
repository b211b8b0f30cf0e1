"""What was trained, read back from a directory or a file."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from wassloss.data.raw_table import RawTable
from wassloss.estimators import WassersteinClassifier, WassersteinMeasureRegressor
from wassloss.estimators.frames import names_of
from wassloss.estimators.model_file import one_line_errors, unpack
from wassloss.ground import GroundMetric
from wassloss.runs.directory import CONFIG, LOG, MODEL, SCORES, START, read_checked, read_config
from wassloss.runs.metric import named
from wassloss.runs.settings import Settings
from wassloss.training.checkpoints import CheckpointError, has_checkpoints, newest_checkpoint
from wassloss.training.log import Record, parse_log, read_log

Estimator = WassersteinClassifier | WassersteinMeasureRegressor


@dataclass(frozen=True)
class TrainedRun:
    """A trained classifier, and where it is from.

    Attributes:
        model: the classifier.
        path: a directory of `wassloss train` or `wassloss compare`, or a saved estimator's file.
        settings: what `wassloss train` was asked to do; None for others.
        config: the content of its ``config.json``; empty for others.
        finished: False if the model is from a checkpoint of a run that was stopped.
    """

    model: WassersteinClassifier
    path: Path
    settings: Settings | None = None
    config: dict[str, Any] = field(default_factory=dict)
    finished: bool = True

    @property
    def name(self) -> str:
        """The name of its directory or file."""
        return self.path.resolve().name

    @cached_property
    def metric(self) -> GroundMetric:
        """The ground metric, with the names of the labels."""
        order = np.argsort(self.model._labels.places)
        return named(self.model.metric_, [str(label) for label in self.model.classes_[order]])

    @cached_property
    def columns(self) -> RawTable:
        """What becomes of the columns of a table."""
        return self.model._columns_taken()

    @property
    def features(self) -> int:
        """How many features it takes."""
        return int(self.model.n_features_in_)

    @property
    def feature_names(self) -> tuple[str, ...] | None:
        """The names of its features; None if they go by position."""
        return names_of(self.columns)

    def label(self, index: int) -> str:
        """The name of a label, by its place in the metric."""
        return str((self.metric.labels or ())[index])

    def logits(self, features: Tensor) -> Tensor:
        """The model's outputs `(n, labels)`, in the order of the metric."""
        return self.model._outputs(features.numpy())

    def log(self) -> list[Record]:
        """The records of its training, if there are any."""
        if not self.config or not (self.path / LOG).exists():
            return []
        if LOG not in self.config["files"]:
            return read_log(self.path)
        return parse_log(read_checked(self.path, LOG, self.config), self.path / LOG)


def load(path: str | os.PathLike[str], device: str = "cpu") -> Estimator:
    """Load what ``wassloss train``, ``wassloss compare`` or the ``save`` of an estimator wrote.

    The result is the estimator, with the preprocessing that it was trained with: it predicts for
    data frames with the columns of its table, in any order, or for arrays of features. Nothing is
    unpickled, and damaged files are refused.

    Args:
        path: a directory or a file.
        device: where to predict.

    Raises:
        FileNotFoundError: there is nothing of either kind.
        ValueError: a file is damaged, or something else; the message says which and what to do.

    >>> import tempfile, wassloss as wl
    >>> from wassloss.runs import Settings, fit
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = fit(Settings("clipart", steps=20, standardize=True), f"{folder}/run")
    ...     model = wl.load(f"{folder}/run")
    >>> x = wl.data.clipart().features
    >>> model.predict(x).shape, model.predict_proba(x).shape, len(model.classes_)
    ((3159,), (3159, 206), 206)
    """
    found = _read(Path(path), device)
    return found.model if isinstance(found, TrainedRun) else found


def open_run(path: str | os.PathLike[str], device: str = "cpu") -> TrainedRun:
    """Read a classifier, with where it is from; all its files are checked against their sums.

    Raises:
        FileNotFoundError: there is none.
        ValueError: a file is damaged; the message says which, and what to do.
    """
    found = _read(Path(path), device)
    if isinstance(found, TrainedRun):
        return found
    raise ValueError(
        f"{path} is a saved {type(found).__name__}, expected a classifier; predict with it in "
        "Python: wassloss.load"
    )


def _read(path: Path, device: str) -> TrainedRun | WassersteinMeasureRegressor:
    alone = path if path.is_file() else path / MODEL
    if alone.is_file() and not (path / CONFIG).exists():
        found = _read_estimator(alone, device)
        return TrainedRun(found, path) if isinstance(found, WassersteinClassifier) else found
    if has_checkpoints(path) and not (path / CONFIG).exists():
        raise ValueError(
            f"{path} holds only checkpoints of wassloss.train: wassloss.training.load_model reads "
            "their model"
        )
    config = read_config(path)
    for name in (SCORES, LOG):  # not needed to predict, but damage should be known
        if name in config["files"] and (path / name).exists():
            read_checked(path, name, config)
    model = read_model(path, START, config, device)
    finished = MODEL in config["files"] and (path / MODEL).exists()
    if finished:
        model = read_model(path, MODEL, config, device)
    else:
        checkpoint = newest_checkpoint(path)
        if checkpoint is None:
            raise CheckpointError(
                f"{path} holds a run that was stopped before its first checkpoint: train again"
            )
        model.model_ = checkpoint.model(path).to(device)
    return TrainedRun(model, path, Settings.from_config(config["settings"]), config, finished)


def read_model(
    path: Path, name: str, config: dict[str, Any], device: str = "cpu"
) -> WassersteinClassifier:
    """The classifier in a file of a run."""
    content = read_checked(path, name, config)
    with one_line_errors(path / name, "model"):
        return WassersteinClassifier._restored(*unpack(content), device)


def _read_estimator(path: Path, device: str) -> Estimator:
    content = path.read_bytes()
    with one_line_errors(path, "estimator"):
        attributes, state = unpack(content)
        for kind in (WassersteinClassifier, WassersteinMeasureRegressor):
            if state["kind"] == kind.__name__:
                return kind._restored(attributes, state, device)
        raise ValueError(f"it holds a {state['kind']}")
