"""The files of a run's directory, written and read with their SHA-256 sums, and the run in them.

``config.json`` holds the sum of every other file that counts, and its own. It is written last and
replaced as a whole: a crash leaves the old one, with the files that it lists, or the new one. Files
that it does not list, left by a crash before it, are ignored.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from wassloss._files import write_file
from wassloss._sealed import sealed, unsealed
from wassloss.data.raw_table import RawTable
from wassloss.estimators import WassersteinClassifier, WassersteinMeasureRegressor
from wassloss.estimators.model_file import unpack
from wassloss.runs.task import Task
from wassloss.training.checkpoints import checkpoint_paths
from wassloss.training.log import LOG_NAME, Record, read_log

CONFIG, SCORES, LOG = "config.json", "scores.json", LOG_NAME
MODEL = "model.safetensors"
FORMAT = 7

_AGAIN = "restore it from a copy, or train again in another directory"
_REMEDY = {
    **dict.fromkeys((MODEL, SCORES), "delete it, and `wassloss train --resume` writes it again"),
    LOG: "restore it from a copy, or delete it to continue without",
}
_KINDS: Any = (WassersteinClassifier, WassersteinMeasureRegressor)
Estimator = WassersteinClassifier | WassersteinMeasureRegressor


def read_config(path: Path) -> dict[str, Any]:
    """The configuration of the run in a directory, if there is one, whole and of this version."""
    file = path / CONFIG
    if not file.is_file():
        what = f"is not a run: it has no {CONFIG}" if path.is_dir() else "does not exist"
        raise FileNotFoundError(f"{path} {what}; `wassloss train DATA --out {path}` makes a run")
    try:
        config = unsealed(file.read_bytes())
        if config["format"] != FORMAT:
            raise ValueError(f"format {config['format']} is unknown, this version reads {FORMAT}")
        Task.from_config(config["task"])
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{file} is not the configuration of a run: {error}; {_AGAIN}") from error
    return config


def write_run(path: Path, config: Mapping[str, Any], files: Mapping[str, bytes]) -> None:
    """Write files of a run, then its configuration, which lists them too from then on.

    A model and scores that it does not list, of a run that was finished before, are removed.
    """
    sums = dict(config["files"])
    for name, content in files.items():
        write_file(path / name, content)
        sums[name] = hashlib.sha256(content).hexdigest()
    write_file(path / CONFIG, sealed({"format": FORMAT, **config, "files": sums}))
    for name in {MODEL, SCORES} - sums.keys():
        (path / name).unlink(missing_ok=True)


def read_checked(path: Path, name: str, config: Mapping[str, Any]) -> bytes:
    """The content of a file of the run; ValueError if it is not what was written."""
    content = (path / name).read_bytes()
    if hashlib.sha256(content).hexdigest() != config["files"].get(name):
        raise ValueError(
            f"{path / name} is damaged, its SHA-256 sum is not the one in {CONFIG}: "
            f"{_REMEDY.get(name, _AGAIN)}"
        )
    return content


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
    def labels(self) -> tuple[str, ...]:
        """The names of the labels, in the order of the metric."""
        return self.model._labels.names

    @cached_property
    def columns(self) -> RawTable:
        """What becomes of the columns of a table."""
        return self.model._columns_taken()

    def log(self) -> list[Record]:
        """The records of its small steps, if there are any."""
        if LOG not in self.config.get("files", {}) or not (self.path / LOG).exists():
            return []
        read_checked(self.path, LOG, self.config)  # an error if it was changed
        return read_log(self.path)


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
    found: Estimator = _read(Path(path), device).model
    return found


def open_run(path: str | os.PathLike[str]) -> TrainedRun:
    """Read a classifier, with where it is from; all its files are checked against their sums.

    Raises:
        FileNotFoundError: there is none.
        ValueError: a file is damaged; the message says which, and what to do.
    """
    found = _read(Path(path), "cpu")
    if not isinstance(found.model, WassersteinClassifier):
        raise ValueError(
            f"{path} is a saved {type(found.model).__name__}, expected a classifier; predict with "
            "it in Python: wassloss.load"
        )
    return found


def _read(path: Path, device: str) -> TrainedRun:
    alone = path if path.is_file() else path / MODEL
    if (path / CONFIG).exists() or not (alone.is_file() or checkpoint_paths(path)):
        config = read_config(path)
        for name in (SCORES, LOG):  # not needed to predict, but damage should be known
            if name in config["files"] and (path / name).exists():
                read_checked(path, name, config)
        if MODEL not in config["files"] or not alone.exists():
            raise ValueError(
                f"{path} holds a run that was stopped before its end: `wassloss train --out {path} "
                "--resume` finishes it"
            )
        content, kinds = read_checked(path, MODEL, config), _KINDS[:1]
    elif alone.is_file():
        config, content, kinds = {}, alone.read_bytes(), _KINDS
    else:
        raise ValueError(
            f"{path} holds only checkpoints of wassloss.train: build its model, and give it their "
            'weights, wassloss.training.load_checkpoint(path).part("model")'
        )
    return TrainedRun(unpack(content, alone, device, *kinds), path, config)
