"""A run's directory: what it is called, how it is written, and a trained run read from it."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from wassloss._files import replacing
from wassloss._precision import narrowed
from wassloss.ground import GroundMetric, load
from wassloss.models import build
from wassloss.runs.settings import Settings
from wassloss.runs.standardization import Standardization
from wassloss.training import CheckpointError, Record, load_model, read_log
from wassloss.training.run import load_weights

CONFIG, METRIC, SCORES = "config.json", "metric.npz", "scores.json"
MODEL, STANDARDIZATION = "model.safetensors", "standardization.npz"
FORMAT = 1


@dataclass(frozen=True)
class TrainedRun:
    """What came of a run, ready to predict.

    Attributes:
        path: its directory.
        settings: what it was asked to do.
        config: all of ``config.json``.
        metric: its ground metric, with the labels' names where they are known.
        model: in evaluation mode.
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
        """What to call it: the name of its directory."""
        return self.path.resolve().name

    @property
    def features(self) -> int:
        return int(self.config["model"]["features"])

    def label(self, index: int) -> str:
        """What a label is called."""
        return str(index) if self.metric.labels is None else self.metric.labels[index]

    def log(self) -> list[Record]:
        """The records of its training."""
        return read_log(self.path)

    @torch.no_grad()
    def logits(self, features: Tensor) -> Tensor:
        """The model's outputs, `(batch, labels)`."""
        if features.dim() != 2 or features.shape[1] != self.features:
            raise ValueError(
                f"data must have {self.features} features, as {self.path} was trained on, got "
                f"{features.shape[-1]}"
            )
        weights = next(self.model.parameters())
        x = narrowed("features", features, weights.dtype)
        outputs: Tensor = self.model(x if self.standardization is None else self.standardization(x))
        return outputs


def open_run(directory: str | os.PathLike[str]) -> TrainedRun:
    """Read a run.

    Raises:
        FileNotFoundError: there is none in the directory.
        ValueError: one of its files is damaged, and which.
    """
    path = Path(directory)
    config = read_config(path)
    settings = Settings.from_json(config["settings"])
    file = path / STANDARDIZATION
    standardization = Standardization.load(file) if settings.standardize else None
    finished = (path / MODEL).exists()
    model = _read_model(path, config) if finished else load_model(path)
    return TrainedRun(path, settings, config, load(path / METRIC), model, standardization, finished)


def read_config(path: Path) -> dict[str, Any]:
    """The configuration of the run in a directory."""
    file = path / CONFIG
    if not file.is_file():
        what = "is no run: it has no config.json" if path.is_dir() else "does not exist"
        raise FileNotFoundError(f"{path} {what}; `wassloss train DATA --out {path}` makes a run")
    try:
        config = json.loads(file.read_text(encoding="utf-8"))
        if config["format"] != FORMAT:
            raise ValueError(f"format {config['format']} is unknown, this version reads {FORMAT}")
        Settings.from_json(config["settings"])
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{file} is not the configuration of a run: {error}") from error
    return dict(config)


def write_json(path: Path, values: dict[str, Any]) -> None:
    """Write JSON, all or nothing."""
    with replacing(path) as temporary:
        temporary.write_text(json.dumps(values, indent=1) + "\n", encoding="utf-8")


def write_model(path: Path, model: nn.Module) -> None:
    """Write a model's weights, all or nothing."""
    from safetensors.torch import save

    tensors = {name: t.detach().cpu().contiguous() for name, t in model.state_dict().items()}
    with replacing(path) as temporary:
        temporary.write_bytes(save(tensors))


def _read_model(path: Path, config: dict[str, Any]) -> nn.Module:
    from safetensors import SafetensorError
    from safetensors.torch import load as load_tensors

    file = path / MODEL
    try:
        weights = load_tensors(file.read_bytes())
        model = build(config["model"])
        model.to(next(iter(weights.values())).dtype)
        load_weights(model, weights)
    except (SafetensorError, CheckpointError, KeyError, StopIteration, ValueError) as error:
        raise ValueError(
            f"{file} is damaged ({error}); delete it, and the newest checkpoint is taken instead"
        ) from error
    return model.eval()
