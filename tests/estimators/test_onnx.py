"""Exported models agree with ours in ONNX Runtime."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
from scipy import sparse
from sklearn.exceptions import NotFittedError

import wassloss as wl
from wassloss.estimators import export_onnx
from wassloss.estimators import onnx as exporting

RNG = np.random.default_rng(0)
X = RNG.normal(5, 3, size=(120, 4))
NAMES = np.array(["poor", "fair", "good", "best"])
IDS = np.digitize(X[:, 0] + RNG.normal(size=120), [3, 5, 7])
METRIC = wl.ground.Ordinal([0, 1, 3, 4], labels=NAMES.tolist(), power=2)


def answers(path: Path, features: Any) -> tuple[Any, dict[str, Any]]:
    """Run the file; return its outputs and its metadata."""
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    found = session.run(None, {"features": np.asarray(features, np.float64)})
    about = session.get_modelmeta().custom_metadata_map
    return found, {key: json.loads(value) for key, value in about.items()}


@pytest.mark.parametrize(
    "keywords",
    [
        {},
        {"standardize": False},
        {"hidden_layer_sizes": (8, 5), "max_iter": 3, "random_state": 0},
        {"decision": "least_cost"},
    ],
)
def test_it_answers_as_the_classifier(keywords: dict[str, Any], tmp_path: Path) -> None:
    """The alphabetical order of names differs from the metric's."""
    fitted = wl.WassersteinClassifier(METRIC, **keywords).fit(X, NAMES[IDS])
    export_onnx(fitted, tmp_path / "model.onnx")
    (p, label), about = answers(tmp_path / "model.onnx", X)
    np.testing.assert_allclose(p, fitted.predict_proba(X), atol=1e-5)
    labels = np.array(about["labels"])
    assert about["labels"] == fitted.classes_.tolist()
    assert np.mean(labels[label] == fitted.predict(X)) > 0.98  # near ties may go either way
    assert about["feature_names"] is None
    assert [path.name for path in tmp_path.iterdir()] == ["model.onnx"]


def test_searches_and_sparse_features(tmp_path: Path) -> None:
    few: dict[str, Any] = {"alphas": (1.0,), "kl_weights": (0.5,), "cv": 2}
    fitted = wl.WassersteinClassifierCV("ordinal", **few).fit(sparse.csr_array(X), IDS)
    export_onnx(fitted, tmp_path / "model.onnx")
    (p, _), about = answers(tmp_path / "model.onnx", X)
    np.testing.assert_allclose(p, fitted.predict_proba(X), atol=1e-9)
    assert (about["labels"], about["feature_names"]) == ([0, 1, 2, 3], None)


def test_what_cannot_be_exported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match="got a WassersteinMeasureRegressor"):
        export_onnx(wl.WassersteinMeasureRegressor(), tmp_path / "x")  # type: ignore[arg-type]
    monkeypatch.setattr(exporting, "_MOST_LABELS", 3)
    with pytest.raises(ValueError, match="at most 3 labels to export"):
        export_onnx(wl.WassersteinClassifier(decision="least_cost").fit(X, IDS), tmp_path / "x")
    for model in (wl.WassersteinClassifier(), wl.WassersteinClassifierCV()):
        with pytest.raises(NotFittedError):
            export_onnx(model, tmp_path / "x")
    assert not list(tmp_path.iterdir())
