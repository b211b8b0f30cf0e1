"""Store fitted estimators as safetensors files, which hold all that prediction needs.

==========================  ======================================================================
``model.*``                 the weights
``scaler.*``                means and scales of the features, if standardised
``metric``                  the .npz archive of the ground metric, as bytes
the file's metadata         everything else as JSON, and the SHA-256 sum of the whole content
==========================  ======================================================================
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import torch
from sklearn.preprocessing import StandardScaler
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from wassloss.files import pack_npz, pack_tensors, unpack_npz, unpack_tensors
from wassloss.ground.storage import from_arrays, to_arrays
from wassloss.models import build

_FORMAT = 5
_GIVEN = "given"  # stands for the file's metric among the parameters
_SCALER = ("mean_", "scale_")
_DAMAGES = (ValueError, TypeError, KeyError, AttributeError, OverflowError, RuntimeError)


def pack(estimator: Any) -> bytes:
    """Serialise a fitted estimator."""
    check_is_fitted(estimator, "model_")
    model, scaler = estimator.model_, estimator.scaler_
    names = getattr(estimator, "feature_names_in_", None)
    tensors = {f"model.{name}": tensor for name, tensor in model.state_dict().items()}
    archive = bytearray(pack_npz(to_arrays(estimator.metric_)))
    tensors["metric"] = torch.frombuffer(archive, dtype=torch.uint8)
    if scaler is not None:
        tensors |= {f"scaler.{name}": torch.tensor(getattr(scaler, name)) for name in _SCALER}
    state = {
        "format": _FORMAT,
        "kind": type(estimator).__name__,
        "model": model.config(),
        "features": int(estimator.n_features_in_),
        "feature_names": None if names is None else names.tolist(),
        "params": {name: _plain(name, v) for name, v in estimator.get_params(deep=False).items()},
        "n_iter": estimator.n_iter_,
        "own": estimator._own_state(),
    }
    return pack_tensors(tensors, state)


def unpack(content: bytes, path: str | os.PathLike[str], device: str, *kinds: type[Any]) -> Any:
    """Rebuild an estimator that `pack` serialised, if it has one of these types.

    Raises:
        ValueError: if it does not, or the content is damaged; the message names the file.
    """
    what = kinds[0].__name__ if len(kinds) == 1 else "estimator"
    try:
        return _unpacked(content, device, {kind.__name__: kind for kind in kinds})
    except _DAMAGES as error:
        reason = " ".join(str(error).split())
        raise ValueError(f"{os.fspath(path)} is not a saved {what}: {reason}") from error


def _unpacked(content: bytes, device: str, kinds: dict[str, type[Any]]) -> Any:
    tensors, state = unpack_tensors(content)
    if state["format"] != _FORMAT:
        raise ValueError(f"format {state['format']} is unknown, this version reads {_FORMAT}")
    if state["kind"] not in kinds:
        raise ValueError(f"it holds a {state['kind']}: use {state['kind']}.load")
    metric = from_arrays(unpack_npz(tensors["metric"].numpy().tobytes()))
    params = {name: _tupled(value) for name, value in state["params"].items()}
    if params["metric"] == _GIVEN:
        params["metric"] = metric
    found = kinds[state["kind"]](**params | {"device": device})
    weights = {name[6:]: t for name, t in tensors.items() if name.startswith("model.")}
    found.metric_, found.model_ = metric, build(state["model"], weights).to(found._device())
    found.scaler_, found.n_features_in_ = None, state["features"]
    if "scaler.mean_" in tensors:
        found.scaler_ = StandardScaler()
        for name in _SCALER:
            setattr(found.scaler_, name, tensors[f"scaler.{name}"].numpy())
        found.scaler_.n_features_in_ = len(found.scaler_.mean_)
    if state["feature_names"] is not None:
        found.feature_names_in_ = np.array(state["feature_names"], dtype=object)
    found.n_iter_ = state["n_iter"]
    found._set_own_state(state["own"])
    return found


def _plain(name: str, value: Any) -> Any:
    """Convert a parameter of an estimator to a JSON value."""
    if name == "metric" and value is not None and not isinstance(value, str):
        return _GIVEN
    if isinstance(value, np.generic | np.ndarray | Tensor):
        value = value.tolist()
    if isinstance(value, tuple | list):
        return [_plain(name, each) for each in value]
    if isinstance(value, dict):
        return {"dict": [_plain(name, pair) for pair in value.items()]}
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise ValueError(f"{name}={value!r} cannot be saved: set it to a number or None first")


def _tupled(value: Any) -> Any:
    """Convert a JSON value of `_plain` back to a parameter, with tuples for lists."""
    if isinstance(value, dict):
        return dict(value["dict"])
    return tuple(_tupled(each) for each in value) if isinstance(value, list) else value
