"""Fitted estimators in files: one safetensors file, which holds nothing to unpickle.

==========================  ======================================================================
``model.*``                 the weights
``scaler.*``                means, variances and scales of the features, if standardised
``metric``                  the ground metric's own .npz archive, as bytes
the file's metadata         everything else as JSON, and the SHA-256 of it all
==========================  ======================================================================
"""

from __future__ import annotations

import hashlib
import io
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import torch
from sklearn.preprocessing import StandardScaler
from torch import Tensor, nn

from wassloss._files import pack_npz, replacing, unpack_npz
from wassloss._safetensors import import_safetensors
from wassloss.ground import GroundMetric
from wassloss.ground.storage import from_arrays, to_arrays
from wassloss.models import build
from wassloss.training.run import describe

if TYPE_CHECKING:
    from wassloss.estimators.base import TransportEstimator

_FORMAT = 1
_SCALER = ("mean_", "var_", "scale_")

Estimator = TypeVar("Estimator", bound="TransportEstimator")


def save(estimator: TransportEstimator, path: str | os.PathLike[str]) -> None:
    """Write a fitted estimator to `path`, all or nothing: an old file stays until this is whole."""
    pack = import_safetensors().torch.save
    tensors = {f"model.{name}": t for name, t in estimator.model_.state_dict().items()}
    scaler = estimator.scaler_
    if scaler is not None:
        tensors |= {f"scaler.{name}": torch.tensor(getattr(scaler, name)) for name in _SCALER}
    tensors["metric"] = torch.frombuffer(
        bytearray(pack_npz(to_arrays(estimator.metric_))), dtype=torch.uint8
    )
    tensors = {name: t.detach().cpu().clone().contiguous() for name, t in tensors.items()}
    names = getattr(estimator, "feature_names_in_", None)
    state = {
        "format": _FORMAT,
        "kind": type(estimator).__name__,
        "params": _params(estimator),
        "model": describe(estimator.model_),
        "features": estimator.n_features_in_,
        "feature_names": None if names is None else names.tolist(),
        "iterations": estimator.n_iter_,
        "epsilon": estimator.epsilon_,
        "kl_weight": estimator.kl_weight_,
        "examples_seen": None if scaler is None else float(scaler.n_samples_seen_),
        "own": estimator._own_state(),
    }
    text = json.dumps(state)
    packed = pack(tensors, {"wassloss": text, "sha256": _digest(text, tensors)})
    with replacing(path) as temporary, open(temporary, "xb") as file:
        file.write(packed)


def load(cls: type[Estimator], path: str | os.PathLike[str], device: str) -> Estimator:
    """Read what `save` wrote, of one class."""
    with _one_line(path, cls.__name__):
        state, tensors = _read(path)
        if state["kind"] != cls.__name__:
            raise ValueError(f"it holds a {state['kind']}: use {state['kind']}.load")
        return _restored(cls, state, tensors, device)


def load_any(path: str | os.PathLike[str], device: str) -> TransportEstimator:
    """Read what `save` wrote, of whichever class."""
    from wassloss.estimators import WassersteinClassifier, WassersteinMeasureRegressor

    kinds: dict[str, type[TransportEstimator]] = {
        kind.__name__: kind for kind in (WassersteinClassifier, WassersteinMeasureRegressor)
    }
    with _one_line(path, "estimator"):
        state, tensors = _read(path)
        if state["kind"] not in kinds:
            raise ValueError(f"it holds a {state['kind']}, expected one of {', '.join(kinds)}")
        return _restored(kinds[state["kind"]], state, tensors, device)


@contextmanager
def _one_line(path: str | os.PathLike[str], what: str) -> Iterator[None]:
    """Errors that name the file and what it should have been."""
    failure = import_safetensors().SafetensorError
    try:
        yield
    except (
        ValueError,
        TypeError,
        KeyError,
        AttributeError,
        OverflowError,
        RuntimeError,
        failure,
    ) as error:
        reason = " ".join(str(error).split())
        raise ValueError(f"{os.fspath(path)} is not a saved {what}: {reason}") from error


def _read(path: str | os.PathLike[str]) -> tuple[dict[str, Any], dict[str, Tensor]]:
    with open(path, "rb"):  # a missing file is said to be missing, by name
        pass
    with import_safetensors().safe_open(os.fspath(path), "pt") as file:
        metadata = file.metadata() or {}
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    text = metadata.get("wassloss")
    if text is None:
        raise ValueError("it holds no estimator")
    if metadata.get("sha256") != _digest(text, tensors):
        raise ValueError("it is not as it was written")
    state: dict[str, Any] = json.loads(text)
    if state["format"] != _FORMAT:
        raise ValueError(f"format {state['format']} is unknown, this version reads {_FORMAT}")
    return state, tensors


def _restored(
    cls: type[Estimator], state: dict[str, Any], tensors: dict[str, Tensor], device: str
) -> Estimator:
    metric = from_arrays(unpack_npz(io.BytesIO(tensors.pop("metric").numpy().tobytes())))
    params = {name: _tupled(value) for name, value in state["params"].items()}
    params["metric"] = _param(params["metric"], metric)
    estimator = cls(**params | {"device": device})
    estimator.metric_ = metric
    estimator.model_ = _model(state["model"], tensors).to(estimator._device()).eval()
    estimator.n_features_in_ = state["features"]
    if state["feature_names"] is not None:
        estimator.feature_names_in_ = np.array(state["feature_names"], dtype=object)
    estimator.scaler_ = _scaler(state, tensors)
    estimator.n_iter_ = state["iterations"]
    estimator.epsilon_, estimator.kl_weight_ = state["epsilon"], state["kl_weight"]
    estimator._set_own_state(state["own"])
    return estimator


def _model(config: dict[str, Any], tensors: dict[str, Tensor]) -> nn.Module:
    with torch.device("meta"):  # without weights of its own
        model = build(config)
    weights = {
        name.removeprefix("model."): t for name, t in tensors.items() if name.startswith("model.")
    }
    model.load_state_dict(weights, assign=True)
    return model


def _scaler(state: dict[str, Any], tensors: dict[str, Tensor]) -> StandardScaler | None:
    if state["examples_seen"] is None:
        return None
    scaler = StandardScaler()
    for name in _SCALER:
        setattr(scaler, name, tensors[f"scaler.{name}"].numpy())
    scaler.n_samples_seen_ = np.float64(state["examples_seen"])
    scaler.n_features_in_ = state["features"]
    return scaler


def _params(estimator: TransportEstimator) -> dict[str, Any]:
    params = estimator.get_params(deep=False)
    metric = params.pop("metric")
    known = metric is None or isinstance(metric, str)
    return {name: _plain(name, value) for name, value in params.items()} | {
        "metric": metric if known else "given"
    }


def _param(metric: str | None, given: GroundMetric) -> GroundMetric | str | None:
    return given if metric == "given" else metric


def _plain(name: str, value: Any) -> Any:
    """A keyword's value as JSON holds it."""
    if isinstance(value, np.generic | np.ndarray | Tensor):
        value = value.tolist()
    if isinstance(value, tuple | list):
        return [_plain(name, each) for each in value]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise ValueError(f"{name}={value!r} cannot be saved: set it to a number or None first")


def _tupled(value: Any) -> Any:
    return tuple(_tupled(each) for each in value) if isinstance(value, list) else value


def _digest(text: str, tensors: dict[str, Tensor]) -> str:
    digest = hashlib.sha256(text.encode())
    for name, tensor in sorted(tensors.items()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.numpy().tobytes())
    return digest.hexdigest()
