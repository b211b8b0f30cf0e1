"""What was trained, read back from a directory or a file."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from wassloss._precision import narrowed
from wassloss.data import Dataset
from wassloss.data.labels import plain
from wassloss.data.raw_table import RawTable
from wassloss.estimators import WassersteinClassifier, WassersteinMeasureRegressor
from wassloss.estimators.model_file import one_line_errors, unpack
from wassloss.ground import GroundMetric
from wassloss.runs.directory import CONFIG, LOG, MODEL, SCORES, read_checked, read_config
from wassloss.runs.task import Task
from wassloss.training.checkpoints import has_checkpoints
from wassloss.training.log import Record, parse_log

Estimator = WassersteinClassifier | WassersteinMeasureRegressor


@dataclass(frozen=True)
class TrainedRun:
    """A trained classifier, and where it is from.

    Attributes:
        model: the classifier.
        path: a directory of `wassloss train` or `wassloss compare`, or a saved estimator's file.
        config: the content of its ``config.json``; empty unless `wassloss train` wrote it.
    """

    model: WassersteinClassifier
    path: Path
    config: dict[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The name of its directory or file."""
        return self.path.resolve().name

    @cached_property
    def task(self) -> Task | None:
        """What `wassloss train` was asked to learn; None for others."""
        return Task.from_config(self.config["task"]) if self.config else None

    @property
    def metric(self) -> GroundMetric:
        """The ground metric."""
        return self.model.metric_

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """The names of the labels, in the order of the metric."""
        order = np.argsort(self.model._labels.places)
        return tuple(str(plain(label)) for label in self.model.classes_[order].tolist())

    @cached_property
    def columns(self) -> RawTable:
        """What becomes of the columns of a table."""
        return self.model._columns_taken()

    def in_order(self, data: Dataset) -> Dataset:
        """Data with their labels in the order of the metric."""
        return data.with_labels(self.labels)

    def logits(self, features: Tensor) -> Tensor:
        """The model's outputs `(n, labels)`, in the order of the metric."""
        return self.model._outputs(self.checked(features))

    def checked(self, features: Tensor) -> NDArray[Any]:
        """Features of the right number, as the model takes them."""
        if features.shape[1] != self.model.n_features_in_:
            raise ValueError(
                f"data must have {self.model.n_features_in_} features, as {self.path} was trained "
                f"on, got {features.shape[1]}"
            )
        narrowed("features", features, torch.float32)
        array: NDArray[Any] = features.numpy()
        return array

    def log(self) -> list[Record]:
        """The records of its small steps, if there are any."""
        if LOG not in self.config.get("files", {}) or not (self.path / LOG).exists():
            return []
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
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     wl.WassersteinClassifier().fit(X, y).save(f"{folder}/iris.model")
    ...     wl.load(f"{folder}/iris.model").predict(X[:3])
    array([0, 0, 0])
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
    if (path / CONFIG).exists() or not (alone.is_file() or has_checkpoints(path)):
        return _read_run(path, read_config(path), device)
    if not alone.is_file():
        raise ValueError(
            f"{path} holds only checkpoints of wassloss.train: wassloss.training.load_model reads "
            "their model"
        )
    found = _unpacked(alone.read_bytes(), alone, device)
    return TrainedRun(found, path) if isinstance(found, WassersteinClassifier) else found


def _read_run(path: Path, config: dict[str, Any], device: str) -> TrainedRun:
    for name in (SCORES, LOG):  # not needed to predict, but damage should be known
        if name in config["files"] and (path / name).exists():
            read_checked(path, name, config)
    if MODEL not in config["files"] or not (path / MODEL).exists():
        raise ValueError(
            f"{path} holds a run that was stopped before its end: `wassloss train --out {path} "
            "--resume` finishes it"
        )
    model = _unpacked(read_checked(path, MODEL, config), path / MODEL, device)
    if not isinstance(model, WassersteinClassifier):
        raise ValueError(f"{path / MODEL} holds a {type(model).__name__}, expected a classifier")
    return TrainedRun(model, path, config)


def _unpacked(content: bytes, path: Path, device: str) -> Estimator:
    with one_line_errors(path, "estimator"):
        attributes, state = unpack(content)
        for kind in (WassersteinClassifier, WassersteinMeasureRegressor):
            if state["kind"] == kind.__name__:
                return kind._restored(attributes, state, device)
        raise ValueError(f"it holds a {state['kind']}")
