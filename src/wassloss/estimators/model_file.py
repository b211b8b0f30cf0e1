"""A trained model with everything that predicting takes, and its safetensors file.

==========================  ======================================================================
``model.*``                 the weights
``scaler.*``                means, variances and scales of the features, if standardised
``metric``                  the ground metric's own .npz archive, as bytes
the file's metadata         everything else as JSON, and the SHA-256 sum of it all
==========================  ======================================================================

Estimators save themselves in this form, and so do `wassloss train` and `wassloss compare`, which
fit one.
"""

from __future__ import annotations

import copy
import io
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from sklearn.preprocessing import StandardScaler
from torch import Tensor, nn

from wassloss._checks import check_choice
from wassloss._files import pack_npz, unpack_npz
from wassloss._precision import narrowed
from wassloss._sealed import import_safetensors, sealed_tensors, unsealed_tensors
from wassloss.data.raw_table import RawTable
from wassloss.ground import GroundMetric
from wassloss.ground.storage import from_arrays, to_arrays
from wassloss.models import build, describe
from wassloss.scores import least_cost_label, least_cost_labels, top_labels
from wassloss.training.sparse_rows import SparseRows

_FORMAT = 3
GIVEN = "given"  # in place of a metric among the parameters: the one that the file holds
_SCALER = ("mean_", "var_", "scale_")
_ROWS = 4096  # examples that are predicted at once, at most
_ENTRIES = 2**24  # of (examples, labels) at once, so that memory is bounded whatever the labels


@torch.no_grad()
def outputs(model: nn.Module, scaler: StandardScaler | None, labels: int, X: Any) -> Tensor:
    """The outputs `(n, labels)` of a model for an array of features, on the CPU."""
    weights = next(model.parameters())
    model.eval()
    many = rows_at_once(labels)
    pieces = (X[start : start + many] for start in range(0, max(1, X.shape[0]), many))
    rows = (model_features(piece, scaler, weights.dtype) for piece in pieces)
    return torch.cat([model(some.to(weights.device)).cpu() for some in rows])


def new_model(build: Callable[[], nn.Module], seed: int, linear: bool) -> nn.Module:
    """A new model; a linear one begins at zero, as there is no symmetry to break."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = build()
    if linear:
        for parameter in model.parameters():
            nn.init.zeros_(parameter)
    return model


def rows_at_once(labels: int) -> int:
    """How many examples to predict at once."""
    return max(1, min(_ROWS, _ENTRIES // labels))


def fit_scaler(
    X: NDArray[Any], weight: NDArray[Any] | None = None, before: StandardScaler | None = None
) -> StandardScaler:
    """Learn means and scales of features, in addition to what `before`, unchanged, has learned.

    Those of sparse features too: their zeros stay, as `SparseRows` subtracts from products.
    """
    scaler = StandardScaler() if before is None else copy.deepcopy(before)
    with np.errstate(over="ignore", invalid="ignore"):  # reported below
        # It learns means of sparse features only where it is not to subtract them itself.
        scaler.set_params(with_mean=not sparse.issparse(X)).partial_fit(X, sample_weight=weight)
    scaler.set_params(with_mean=True)
    wrong = np.flatnonzero(~np.isfinite(scaler.var_))
    if len(wrong):
        column, largest = wrong[0], abs(X[:, [wrong[0]]]).max()
        raise ValueError(
            f"X must have a finite variance in {X.dtype}, got numbers up to {largest:g} in "
            f"column {column}; divide that column by its size"
        )
    return scaler


def model_features(X: Any, scaler: StandardScaler | None, dtype: torch.dtype) -> Any:
    """Features as a model takes them: standardised, in its precision, on the CPU.

    A tensor, or :class:`~wassloss.training.sparse_rows.SparseRows`.
    """
    if sparse.issparse(X):
        return _sparse_features(sparse.csr_array(X), scaler, dtype)
    if scaler is None:
        # A copy in torch's memory, which is aligned: on NumPy's, matrix products may differ in
        # their last bits from one call to the next, and a fit would not repeat exactly.
        own = X if isinstance(X, Tensor) else torch.tensor(X)
        return narrowed("X", own, dtype)
    wide = np.asarray(X, dtype=np.float64)  # the same for the same numbers in any precision
    return narrowed("X, standardized,", torch.tensor(scaler.transform(wide)), dtype)


def _sparse_features(
    X: sparse.csr_array, scaler: StandardScaler | None, dtype: torch.dtype
) -> SparseRows:
    values, means = torch.tensor(X.data), None
    if scaler is not None:
        values = values / torch.from_numpy(scaler.scale_)[X.indices]
        means = narrowed("X", torch.from_numpy(scaler.mean_ / scaler.scale_), dtype)
    values = narrowed("X" if scaler is None else "X, standardized,", values, dtype)
    scaled = sparse.csr_array((values.numpy(), X.indices, X.indptr), shape=X.shape)
    return SparseRows(scaled, means)


def check_decision(decision: str) -> None:
    """Refuse unknown rules."""
    check_choice("decision", decision, ("probable", "least_cost"))


def decide(p: Tensor, metric: GroundMetric, k: int, decision: str) -> Tensor:
    """Indices of `k` labels per example, best first, `(n, k)`, given their probabilities.

    The most ``"probable"`` ones, or those of ``"least_cost"``: the label, or for several the set,
    whose expected cost to the nearest of them is small.
    """
    check_decision(decision)
    if decision == "probable":
        return torch.as_tensor(top_labels(p, k))
    if k == 1:
        return torch.as_tensor(least_cost_label(p, metric)).unsqueeze(1)
    return torch.as_tensor(least_cost_labels(p, metric, k))


def pack(estimator: Any, state: dict[str, Any]) -> bytes:
    """The content of the file of a fitted estimator, with `state` that JSON can hold."""
    model, scaler, table = estimator.model_, estimator.scaler_, getattr(estimator, "table_", None)
    names = getattr(estimator, "feature_names_in_", None)
    tensors = {f"model.{name}": tensor for name, tensor in model.state_dict().items()}
    archive = bytearray(pack_npz(to_arrays(estimator.metric_)))
    tensors["metric"] = torch.frombuffer(archive, dtype=torch.uint8)
    if scaler is not None:
        tensors |= {f"scaler.{name}": torch.tensor(getattr(scaler, name)) for name in _SCALER}
    about = {
        "format": _FORMAT,
        "kind": type(estimator).__name__,
        "model": describe(model),
        "features": int(estimator.n_features_in_),
        "feature_names": None if names is None else names.tolist(),
        "table": None if table is None else table.state(),
        "examples_seen": None if scaler is None else float(np.max(scaler.n_samples_seen_)),
    }
    return sealed_tensors(tensors, {**about, **state})


def unpack(content: bytes) -> tuple[dict[str, Any], dict[str, Any]]:
    """Attributes of the estimator that `pack` was given, and the state, with its `kind`.

    For its errors, see `one_line_errors`.
    """
    tensors, state = unsealed_tensors(content)
    if state["format"] != _FORMAT:
        raise ValueError(f"format {state['format']} is unknown, this version reads {_FORMAT}")
    weights = {name[6:]: t for name, t in tensors.items() if name.startswith("model.")}
    scaler = None
    if state["examples_seen"] is not None:
        scaler = StandardScaler()
        for name in _SCALER:
            setattr(scaler, name, tensors[f"scaler.{name}"].numpy())
        scaler.n_samples_seen_ = np.float64(state["examples_seen"])
        scaler.n_features_in_ = len(scaler.mean_)
    found = {
        "metric_": from_arrays(unpack_npz(io.BytesIO(tensors["metric"].numpy().tobytes()))),
        "model_": build(state["model"], weights),
        "scaler_": scaler,
        "n_features_in_": state["features"],
    }
    if state["feature_names"] is not None:
        found["feature_names_in_"] = np.array(state["feature_names"], dtype=object)
    if state["table"] is not None:
        found["table_"] = RawTable.from_state(state["table"])
    return found, state


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


def plain(name: str, value: Any) -> Any:
    """A parameter of an estimator as JSON holds it."""
    if name == "metric" and value is not None and not isinstance(value, str):
        return GIVEN
    if isinstance(value, np.generic | np.ndarray | Tensor):
        value = value.tolist()
    if isinstance(value, tuple | list):
        return [plain(name, each) for each in value]
    if isinstance(value, dict):
        return {"dict": [plain(name, pair) for pair in value.items()]}
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise ValueError(f"{name}={value!r} cannot be saved: set it to a number or None first")


def tupled(value: Any) -> Any:
    """A parameter that `plain` was given, with tuples for lists."""
    if isinstance(value, dict):
        return dict(value["dict"])
    return tuple(tupled(each) for each in value) if isinstance(value, list) else value
