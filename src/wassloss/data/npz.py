"""Arrays in .npz archives, without pickles; docs/data.md says which there are."""

from __future__ import annotations

import os
from typing import Any

from numpy.typing import NDArray

from wassloss._files import read_npz
from wassloss.data._inputs import feature_tensor, from_lists, part_name
from wassloss.data.table import Wanted, feature_order
from wassloss.ground import storage

_LISTS = ("target_counts", "target_labels", "target_weights")
_Arrays = dict[str, NDArray[Any]]


def load(path: str | os.PathLike[str], wanted: Wanted) -> dict[str, Any]:
    """Read the fields of a data set; labels without names are ids."""
    arrays = read_npz(path)
    if "features" not in arrays:
        raise ValueError(f"it lacks features; it has {', '.join(sorted(arrays)) or 'nothing'}")
    features, names = feature_tensor(arrays["features"]), _strings(arrays, "feature_names")
    if wanted.feature_names is not None and names is not None:
        features = features[:, feature_order(names, wanted.feature_names)]
        names = wanted.feature_names
    fields: dict[str, Any] = {"features": features, "feature_names": names, "parts": {}}
    for key, rows in arrays.items():
        if key.startswith("part/"):
            name = part_name(key.removeprefix("part/"))
            if name in fields["parts"]:
                raise ValueError(f"it holds the part {name!r} twice")
            fields["parts"][name] = rows
    if not wanted.labelled:
        return fields
    for name in ("name", "provenance", "label_count"):
        if name in arrays:
            if arrays[name].ndim != 0:
                raise ValueError(f"{name} must be a single value, got shape {arrays[name].shape}")
            fields[name] = arrays[name].item()
    metric = {k.removeprefix("metric/"): a for k, a in arrays.items() if k.startswith("metric/")}
    return fields | {
        "target": _target(arrays),
        "label_names": _strings(arrays, "label_names"),
        "groups": arrays.get("groups"),
        "metric": storage.from_arrays(metric) if metric else None,
    }


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
