"""`wassloss export`: from what commands wrote to a file that answers alone."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow.csv

import wassloss as wl
from tests.app.cli.commands import METRIC, failed, graded, ok, saved
from tests.estimators.test_onnx import answers


def test_a_run(tmp_path: Path) -> None:
    data = graded(parts=False)
    METRIC.save(tmp_path / "metric.npz")
    words = ("--metric", tmp_path / "metric.npz", "--max-iter", 2, "--hidden-layer-sizes", "6")
    ok("train", saved(data, tmp_path / "data.parquet"), *words, "--out", tmp_path / "run")
    done = ok("export", tmp_path / "run", "--onnx", tmp_path / "model.onnx")
    assert "probabilities and label out" in done.stdout
    run = wl.load(tmp_path / "run")
    features = data.features.numpy()
    (p, label), about = answers(tmp_path / "model.onnx", features)
    np.testing.assert_allclose(p, run.predict_proba(features), atol=1e-5)
    names = np.array(about["labels"])
    assert np.mean(names[label] == run.predict(features)) > 0.98


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


def test_a_run_on_a_table(tmp_path: Path) -> None:
    ok("train", wine(tmp_path / "wine.csv"), *GRADES, "--tol", 0.1, "--out", tmp_path / "run")
    ok("export", tmp_path / "run", "--onnx", tmp_path / "model.onnx")
    run = wl.load(tmp_path / "run")
    table = pyarrow.csv.read_csv(tmp_path / "wine.csv")
    (p, _), about = answers(tmp_path / "model.onnx", run.table_.features(table))
    np.testing.assert_allclose(p, run.predict_proba(table.to_pandas()), atol=1e-5)
    assert about["feature_names"] == ["acid", "cellar=new", "cellar=old"]
    assert [column["name"] for column in about["preprocessing"]["columns"]] == ["acid", "cellar"]
    assert about["labels"] == ["fair", "good", "poor"]


def test_a_comparison(tmp_path: Path) -> None:
    data = wine(tmp_path / "wine.csv")
    ok("compare", data, *GRADES, "--jobs", 1, "--out", tmp_path / "cmp")
    ok("export", tmp_path / "cmp", "--onnx", tmp_path / "model.onnx")
    model = wl.load(tmp_path / "cmp")
    features = model.table_.features(pyarrow.csv.read_csv(tmp_path / "wine.csv"))
    (p, _), about = answers(tmp_path / "model.onnx", features)
    np.testing.assert_allclose(p, model.predict_proba(features), atol=1e-6)
    assert about["feature_names"] == ["acid", "cellar=new", "cellar=old"]
    assert [column["name"] for column in about["preprocessing"]["columns"]] == ["acid", "cellar"]
    assert about["labels"] == ["fair", "good", "poor"]


def test_what_is_no_classifier(tmp_path: Path) -> None:
    said = failed("export", tmp_path / "none", "--onnx", tmp_path / "x.onnx")
    assert "does not exist" in said
    masses = wl.WassersteinMeasureRegressor().fit(np.eye(3), np.eye(3) + 1)
    masses.save(tmp_path / "masses")
    said = failed("export", tmp_path / "masses", "--onnx", tmp_path / "x.onnx")
    assert "is a saved WassersteinMeasureRegressor, expected a classifier" in said
