"""A trained model in one safetensors file, with everything that predicting takes.

==========================  ======================================================================
``model.*``                 the weights
``scaler.*``                means, variances and scales of the features, if standardised
``metric``                  the ground metric's own .npz archive, as bytes
the file's metadata         everything else as JSON, and the SHA-256 sum of it all
==========================  ======================================================================

Estimators save themselves in this form, and runs of the command line their models.
"""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from sklearn.preprocessing import StandardScaler
from torch import Tensor, nn

from wassloss._files import pack_npz, unpack_npz
from wassloss._sealed import import_safetensors, sealed_tensors, unsealed_tensors
from wassloss.estimators.standardization import model_features
from wassloss.ground import GroundMetric
from wassloss.ground._saving import to_arrays
from wassloss.ground.storage import from_arrays
from wassloss.models import build, describe

_FORMAT = 2
_SCALER = ("mean_", "var_", "scale_")
_ROWS = 4096  # examples that are predicted at once, at most
_ENTRIES = 2**24  # of (examples, labels) at once, so that memory is bounded whatever the labels


@dataclass(frozen=True)
class FittedModel:
    """The way from features to outputs.

    Attributes:
        metric: the ground metric of the labels.
        model: in evaluation mode; takes standardised features.
        scaler: standardises them, or None.
        feature_names: the columns it was trained on, or None if they go by position.
    """

    metric: GroundMetric
    model: nn.Module
    scaler: StandardScaler | None
    feature_names: tuple[str, ...] | None

    @property
    def features(self) -> int:
        """How many features it takes."""
        return int(self.model.config()["features"])  # type: ignore[operator]

    @torch.no_grad()
    def outputs(self, X: Any) -> Tensor:
        """The model's outputs `(n, labels)` for a tensor or an array, on the CPU."""
        weights = next(self.model.parameters())
        self.model.eval()
        pieces = model_features(X, self.scaler, weights.dtype).split(rows_at_once(self.metric.size))
        return torch.cat([self.model(rows.to(weights.device)).cpu() for rows in pieces])


def rows_at_once(labels: int) -> int:
    """How many examples to predict at once."""
    return max(1, min(_ROWS, _ENTRIES // labels))


def pack(fitted: FittedModel, kind: str, state: dict[str, Any]) -> bytes:
    """The content of a file, with `state` that JSON can hold."""
    tensors = {f"model.{name}": tensor for name, tensor in fitted.model.state_dict().items()}
    scaler, archive = fitted.scaler, bytearray(pack_npz(to_arrays(fitted.metric)))
    tensors["metric"] = torch.frombuffer(archive, dtype=torch.uint8)
    if scaler is not None:
        tensors |= {f"scaler.{name}": torch.tensor(getattr(scaler, name)) for name in _SCALER}
    about = {
        "format": _FORMAT,
        "kind": kind,
        "model": describe(fitted.model),
        "feature_names": fitted.feature_names,
        "examples_seen": None if scaler is None else float(np.max(scaler.n_samples_seen_)),
    }
    return sealed_tensors(tensors, {**about, **state})


def unpack(content: bytes) -> tuple[FittedModel, dict[str, Any]]:
    """What `pack` was given; the state has its `kind`.

    Raises:
        ValueError, TypeError, KeyError, RuntimeError, SafetensorError: for other content.
    """
    tensors, state = unsealed_tensors(content)
    if state["format"] != _FORMAT:
        raise ValueError(f"format {state['format']} is unknown, this version reads {_FORMAT}")
    metric = from_arrays(unpack_npz(io.BytesIO(tensors["metric"].numpy().tobytes())))
    names = state["feature_names"]
    weights = {
        name.removeprefix("model."): t for name, t in tensors.items() if name.startswith("model.")
    }
    model = build(state["model"], weights)
    scaler = _scaler(state, tensors)
    fitted = FittedModel(metric, model, scaler, None if names is None else tuple(names))
    return fitted, state


@contextmanager
def one_line_errors(path: str | os.PathLike[str], what: str) -> Iterator[None]:
    """Errors that name the file and what it should have been."""
    failure = import_safetensors().SafetensorError
    expected = (ValueError, TypeError, KeyError, AttributeError, OverflowError, RuntimeError)
    try:
        yield
    except (*expected, failure) as error:
        reason = " ".join(str(error).split())
        raise ValueError(f"{os.fspath(path)} is not a saved {what}: {reason}") from error


def _scaler(state: dict[str, Any], tensors: dict[str, Tensor]) -> StandardScaler | None:
    if state["examples_seen"] is None:
        return None
    scaler = StandardScaler()
    for name in _SCALER:
        setattr(scaler, name, tensors[f"scaler.{name}"].numpy())
    scaler.n_samples_seen_ = np.float64(state["examples_seen"])
    scaler.n_features_in_ = len(scaler.mean_)
    return scaler
