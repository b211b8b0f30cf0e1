"""`wassloss export`: from what commands wrote to a file that answers alone."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import wassloss as wl
from tests.app.cli.commands import FEATURES, METRIC, failed, graded, ok, opened, saved
from tests.estimators.test_onnx import answers
from wassloss.app.tables import Table


def test_a_model_of_numbers(tmp_path: Path) -> None:
    frame, model = graded(parts=False), tmp_path / "m.wassloss"
    METRIC.save(tmp_path / "metric.npz")
    words = ("--metric", tmp_path / "metric.npz", "--max-iter", 2, "--hidden-layer-sizes", "6")
    ok("train", saved(frame, tmp_path / "data.parquet"), *words, "--out", model)
    done = ok("export", model, "--onnx", tmp_path / "model.onnx")
    assert "probabilities and label out" in done.stdout
    features = frame[FEATURES].to_numpy(float)
    (p, label), about = answers(tmp_path / "model.onnx", features)
    np.testing.assert_allclose(p, wl.load(model).predict_proba(frame[FEATURES]), atol=1e-5)
    names = np.array(about["labels"])
    assert np.mean(names[label] == wl.load(model).predict(frame[FEATURES])) > 0.98
    assert about["feature_names"] == FEATURES


def wine(path: Path) -> Path:
    rng = np.random.default_rng(0)
    x = rng.normal(size=90)
    grades = np.array(["poor", "fair", "good"])[np.digitize(x + 0.3 * rng.normal(size=90), [0, 1])]
    rows = [
        f"{v:.3f},{('old', 'new')[i % 2]},{g}"
        for i, (v, g) in enumerate(zip(x, grades, strict=True))
    ]
    path.write_text("\n".join(["acid,cellar,grade", *rows]))
    return path


GRADES = ("--label-column", "grade", "--metric", "ordinal", "--order", "poor,fair,good")


@pytest.mark.parametrize("command", ["train", "compare"])
def test_a_model_of_a_table(command: str, tmp_path: Path) -> None:
    """What the file takes are the features that the encoder makes of the table."""
    data, path = wine(tmp_path / "wine.csv"), tmp_path / "m.wassloss"
    if command == "train":
        ok("train", data, *GRADES, "--tol", 0.1, "--out", path)
    else:
        ok("compare", data, *GRADES, "--jobs", 1, "--out", tmp_path)
        path = tmp_path / "model.wassloss"
    ok("export", path, "--onnx", tmp_path / "model.onnx")
    model, frame = opened(path), pd.read_csv(data)
    features = model.encoder.transform(Table.of(frame))
    (p, _), about = answers(tmp_path / "model.onnx", features.to_numpy(float))
    np.testing.assert_allclose(p, model.predict_proba(frame), atol=1e-5)
    assert about["feature_names"] == features.columns.tolist()
    assert about["labels"] == ["fair", "good", "poor"]


def test_what_is_no_classifier(tmp_path: Path) -> None:
    said = failed("export", tmp_path / "none", "--onnx", tmp_path / "x.onnx")
    assert "none: no such file" in said
    masses = wl.WassersteinMeasureRegressor().fit(np.eye(3), np.eye(3) + 1)
    masses.save(tmp_path / "masses")
    said = failed("export", tmp_path / "masses", "--onnx", tmp_path / "x.onnx")
    assert "is a saved WassersteinMeasureRegressor, expected a classifier" in said
