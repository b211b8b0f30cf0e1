"""Data sets as .npz archives, without pickles; the only format that also holds the metric.

==============================  ============================================================
``features``                    floats (n, features)
``target``                      integers (n,): class ids; or floats (n, labels): weights
``target_counts``,              instead of ``target``: labels of each example, laid end to
``target_labels``,              end; without weights, an example's labels share a mass of 1
``target_weights``
``feature_names``               optional; strings
``label_names``                 optional; strings
``label_count``                 optional; an integer
``part/NAME``                   optional; rows of a part, integers or a mask
``groups``                      optional; integers (n,)
``name``, ``provenance``        optional; a string each
``metric/...``                  optional; the arrays of a saved ground metric
==============================  ============================================================
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from wassloss._files import read_npz, write_npz
from wassloss.data._inputs import feature_tensor
from wassloss.data._parts import part_name
from wassloss.data.columns import Description, feature_order
from wassloss.data.dataset import Dataset
from wassloss.data.labels import agreed_names
from wassloss.data.ragged import from_lists, to_lists
from wassloss.ground import storage
from wassloss.targets import SparseTarget

_LISTS = ("target_counts", "target_labels", "target_weights")
_TEXTS = ("name", "provenance")
_NAMES = ("label_names", "feature_names")
_Arrays = dict[str, NDArray[Any]]


def read(
    path: str | os.PathLike[str],
    label_names: tuple[str, ...] | None = None,
    feature_names: tuple[str, ...] | None = None,
) -> Dataset:
    """Read a data set; ``label_names`` are for archives that hold none, whose labels are ids."""
    arrays = read_npz(path)
    fields: dict[str, Any] = {name: _one(arrays, name) for name in _TEXTS if name in arrays}
    if "label_count" in arrays:
        fields["label_count"] = int(_one(arrays, "label_count"))
    metric = {k.removeprefix("metric/"): a for k, a in arrays.items() if k.startswith("metric/")}
    data = Dataset(
        _features(arrays),
        _target(arrays),
        label_names=agreed_names(label_names, _strings(arrays, "label_names")),
        parts=_parts(arrays),
        groups=arrays.get("groups"),  # type: ignore[arg-type]
        metric=storage.from_arrays(metric) if metric else None,
        feature_names=_strings(arrays, "feature_names"),
        **fields,
    )
    if feature_names is None or data.feature_names is None:
        return data
    return data.with_features(feature_names)


def read_features(
    path: str | os.PathLike[str], feature_names: tuple[str, ...] | None = None
) -> Tensor:
    """Read the features alone; the archive need not hold a target."""
    arrays = read_npz(path)
    features, own = feature_tensor(_features(arrays)), _strings(arrays, "feature_names")
    if feature_names is None or own is None:
        return features
    return features[:, feature_order(own, feature_names)]


def describe(path: str | os.PathLike[str]) -> Description:
    """The names of the features, and whether labels are listed; otherwise they are ids."""
    arrays = read_npz(path, _NAMES)
    return Description(
        _strings(arrays, "feature_names"), "names" if "label_names" in arrays else "ids"
    )


def write(data: Dataset, path: str | os.PathLike[str]) -> None:
    """Write a data set, all or nothing."""
    arrays: _Arrays = {
        "features": data.features.numpy(),
        "label_count": np.array(data.label_count),
    }
    if isinstance(data.target, SparseTarget):
        arrays |= dict(zip(_LISTS, to_lists(data.target), strict=True))
    else:
        arrays["target"] = data.target.numpy()
    for name in _NAMES:
        names = getattr(data, name)
        if names is not None:
            arrays[name] = np.array(names, dtype=np.str_)
            if tuple(arrays[name].tolist()) != names:
                raise ValueError(f"{name} that end in a NUL character cannot be saved")
    arrays |= {f"part/{name}": rows.numpy() for name, rows in data.parts.items()}
    if data.groups is not None:
        arrays["groups"] = data.groups.numpy()
    arrays |= {name: np.array(getattr(data, name)) for name in _TEXTS if getattr(data, name)}
    if data.metric is not None:
        saved = storage.to_arrays(data.metric)
        arrays |= {f"metric/{name}": array for name, array in saved.items()}
    write_npz(path, arrays)


def _parts(arrays: _Arrays) -> Any:
    parts: _Arrays = {}
    for key, rows in arrays.items():
        if not key.startswith("part/"):
            continue
        name = part_name(key.removeprefix("part/"))
        if name in parts:
            raise ValueError(f"it holds the part {name!r} twice")
        parts[name] = rows
    return parts


def _target(arrays: _Arrays) -> Any:
    if "target" in arrays:
        return arrays["target"]
    if not all(name in arrays for name in _LISTS[:2]):
        raise ValueError(f"it lacks target, or {', '.join(_LISTS[:2])} and perhaps {_LISTS[2]}")
    counts, labels, weights = arrays[_LISTS[0]], arrays[_LISTS[1]], arrays.get(_LISTS[2])
    if counts.dtype.kind not in "iu" or counts.ndim != 1 or (counts < 0).any():
        raise ValueError("target_counts must be integers of shape (examples,), none negative")
    if labels.dtype.kind not in "iu" or labels.shape != (counts.sum(),):
        raise ValueError(
            f"target_labels must be {counts.sum()} integers, the sum of target_counts, got "
            f"{labels.dtype} of shape {labels.shape}"
        )
    if weights is not None and weights.shape != labels.shape:
        raise ValueError(
            f"target_weights must have shape {labels.shape}, as target_labels, got {weights.shape}"
        )
    return from_lists(counts, labels, weights)


def _strings(arrays: _Arrays, name: str) -> tuple[str, ...] | None:
    return tuple(arrays[name].reshape(-1).tolist()) if name in arrays else None


def _one(arrays: _Arrays, name: str) -> Any:
    if arrays[name].ndim != 0:
        raise ValueError(f"{name} must be a single value, got shape {arrays[name].shape}")
    return arrays[name].item()


def _features(arrays: _Arrays) -> Any:
    if "features" not in arrays:
        raise ValueError(f"it lacks features; it has {', '.join(sorted(arrays)) or 'nothing'}")
    return arrays["features"]
