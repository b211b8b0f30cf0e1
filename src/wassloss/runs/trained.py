"""A trained run read from its directory: the whole way from a table's columns to a label."""

from __future__ import annotations

import io
import os
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from wassloss import scores
from wassloss._files import unpack_npz
from wassloss._precision import narrowed
from wassloss._safetensors import import_safetensors
from wassloss.data._inputs import feature_tensor
from wassloss.data.columns import DataWarning, columns, not_features
from wassloss.data.labels import numbers, shown
from wassloss.ground import GroundMetric, storage
from wassloss.models import build
from wassloss.runs.directory import (
    LOG,
    METRIC,
    MODEL,
    SCORES,
    STANDARDIZATION,
    read_checked,
    read_config,
)
from wassloss.runs.inputs import rows_at_once
from wassloss.runs.settings import Settings
from wassloss.runs.standardization import Standardization
from wassloss.training import CheckpointError, Record, load_newest, read_log
from wassloss.training.log import parse_log
from wassloss.training.run import load_weights, model_of

DECISIONS = ("probable", "least_cost")


@dataclass(frozen=True)
class TrainedRun:
    """What came of a run, ready to predict: columns, preprocessing, model, labels, metric.

    ``X`` is features `(n, features)`, a tensor or an array in the order of the columns that the run
    was trained on; or a data frame, whose columns are found by name, in any order.

    Attributes:
        path: its directory.
        settings: what it was asked to do.
        config: all of ``config.json``.
        metric: its ground metric, with the labels' names where they are known.
        model: in evaluation mode; takes features that `standardization` has been applied to.
        standardization: what features go through first, or None.
        finished: False where the model is of a checkpoint of a run that was stopped.
    """

    path: Path
    settings: Settings
    config: dict[str, Any]
    metric: GroundMetric
    model: nn.Module
    standardization: Standardization | None
    finished: bool

    @property
    def name(self) -> str:
        """What to call it, the name of its directory."""
        return self.path.resolve().name

    @property
    def features(self) -> int:
        """How many features it takes."""
        return int(self.config["features"]["count"])

    @property
    def feature_names(self) -> tuple[str, ...] | None:
        """The columns that it was trained on, or None where they go by position."""
        names = self.config["features"]["names"]
        return None if names is None else tuple(names)

    @property
    def labels(self) -> tuple[str | int | float, ...]:
        """The labels, in the order of the metric; numbers if all of them are."""
        names = self.metric.labels
        if names is None:
            return tuple(range(self.metric.size))
        return tuple(numbers(names) or names)

    def label(self, index: int) -> str:
        """What a label is called."""
        return str(index) if self.metric.labels is None else self.metric.labels[index]

    def log(self) -> list[Record]:
        """The records of its training."""
        if not (self.path / LOG).exists():
            return []
        if LOG not in self.config["files"]:
            return read_log(self.path)
        return parse_log(read_checked(self.path, LOG, self.config), self.path / LOG)

    @torch.no_grad()
    def logits(self, X: Any) -> Tensor:
        """The model's outputs, `(n, labels)`, in the order of `labels`."""
        weights = next(self.model.parameters())
        given = self._features(X)
        outputs = []
        for rows in given.split(rows_at_once(self.metric.size)):
            x = narrowed("features", rows, weights.dtype)
            x = x.to(weights.device)
            x = x if self.standardization is None else self.standardization(x)
            outputs.append(self.model(x).cpu())
        return torch.cat(outputs)

    def predict_proba(self, X: Any) -> Any:
        """Probabilities `(n, labels)`, in the order of `labels`; a tensor if `X` is one."""
        p = self.logits(X).softmax(1)
        return p if isinstance(X, Tensor) else p.numpy()

    def predict(self, X: Any, decision: str = "probable") -> NDArray[Any]:
        """One label for each example: the most probable, or that of ``"least_cost"``."""
        return self.predict_top(X, 1, decision)[:, 0]

    def predict_top(self, X: Any, k: int, decision: str = "probable") -> NDArray[Any]:
        """`k` labels for each example, best first, `(n, k)`.

        The most ``"probable"``, or those of ``"least_cost"``: the label, or for several the set,
        whose expected cost to the nearest of them is small.
        """
        chosen = self.decide(self.logits(X).softmax(1), k, decision)
        found: NDArray[Any] = np.array(self.labels)[chosen.numpy()]
        return found

    def decide(self, p: Tensor, k: int = 1, decision: str = "probable") -> Tensor:
        """Indices of the `k` labels to answer with, `(n, k)`, given their probabilities."""
        if decision not in DECISIONS:
            raise ValueError(f"decision must be one of {', '.join(DECISIONS)}, got {decision!r}")
        if decision == "probable":
            return torch.as_tensor(scores.top_labels(p, k))
        if k == 1:
            return torch.as_tensor(scores.least_cost_label(p, self.metric)).unsqueeze(1)
        return torch.as_tensor(scores.least_cost_labels(p, self.metric, k))

    def check_columns(self, found: tuple[str, ...], source: str) -> None:
        """Refuse data that lack columns, and say which columns are not used.

        Args:
            found: the names of the columns that may be features.
            source: what to call the data.
        """
        wanted = self.feature_names or ()
        lacking = [name for name in wanted if name not in set(found)]
        if lacking:
            raise ValueError(
                f"{source} lacks {columns(lacking)} that {self.path} was trained on; it has "
                f"{shown(found, 10)}"
            )
        extra = [name for name in found if name not in set(wanted)]
        if extra:
            warnings.warn(
                f"{source}: ignoring {columns(extra)}, which {self.path} was not trained on",
                DataWarning,
                stacklevel=2,
            )

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
        return features

    def _columns(self, frame: Any) -> NDArray[Any]:
        told = not_features(self.settings.label_column or "label")
        by_name = {str(name): name for name in frame.columns if str(name) not in told}
        if self.feature_names is not None:
            self.check_columns(tuple(by_name), "X")
            by_name = {name: by_name[name] for name in self.feature_names}
        found: NDArray[Any] = frame[list(by_name.values())].to_numpy()
        return found


def open_run(directory: str | os.PathLike[str], device: str = "cpu") -> TrainedRun:
    """Read a run; all its files are checked against their sums.

    Args:
        directory: of the run.
        device: where to predict.

    Raises:
        FileNotFoundError: there is none in the directory.
        ValueError: one of its files is damaged; the message says which, and what to do.
    """
    path = Path(directory)
    config = read_config(path)
    settings = Settings.from_json(config["settings"])
    for name in (SCORES, LOG):  # not needed to predict, but damage is better known
        if name in config["files"] and (path / name).exists():
            read_checked(path, name, config)
    finished = MODEL in config["files"] and (path / MODEL).exists()
    return TrainedRun(
        path,
        settings,
        config,
        read_metric(path, config),
        (_read_model(path, config) if finished else _newest_model(path)).to(device),
        read_standardization(path, config, device),
        finished,
    )


def read_metric(path: Path, config: dict[str, Any]) -> GroundMetric:
    """The ground metric of a run."""
    return storage.from_arrays(unpack_npz(io.BytesIO(read_checked(path, METRIC, config))))


def read_standardization(
    path: Path, config: dict[str, Any], device: str = "cpu"
) -> Standardization | None:
    """The standardisation of a run's features, if it has one."""
    if STANDARDIZATION not in config["files"]:
        return None
    content = read_checked(path, STANDARDIZATION, config)
    return Standardization.from_arrays(unpack_npz(io.BytesIO(content))).to(device)


def _read_model(path: Path, config: dict[str, Any]) -> nn.Module:
    weights = import_safetensors().torch.load(read_checked(path, MODEL, config))
    model = build(config["model"])
    model.to(next(iter(weights.values())).dtype)
    load_weights(model, weights)
    return model.eval()


def _newest_model(path: Path) -> nn.Module:
    checkpoint = load_newest(path)
    if checkpoint is None:
        raise CheckpointError(
            f"{path} holds a run that was stopped before its first checkpoint: train again"
        )
    return model_of(checkpoint, path)
