"""Save and load fitted estimators."""

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.torch import save_file
from sklearn.datasets import load_iris
from sklearn.exceptions import NotFittedError

import wassloss as wl
from wassloss.files import pack_tensors, unpack_tensors

X, Y = load_iris(return_X_y=True)
NAMES = np.array(["setosa", "versicolor", "virginica"])
METRIC = wl.ground.Ordinal(3, labels=["virginica", "setosa", "versicolor"])


@pytest.mark.parametrize(
    ("keywords", "y"),
    [
        ({}, Y),
        ({"metric": "ordinal", "power": np.float64(2)}, Y + 1),
        ({"metric": METRIC, "decision": "least_cost"}, NAMES[Y]),
        ({"metric": METRIC}, NAMES[Y].astype(object)),
        ({"metric": np.ones((3, 3)) - np.eye(3), "standardize": False, "tol": 1e-3}, Y),
        ({"hidden_layer_sizes": (5, 4), "max_iter": 2, "random_state": 0}, np.eye(3)[Y]),
        ({"classes": np.array([0, 1, 2, 3])}, Y),
        ({"class_weight": {0: 2.0, 1: 1.0, 2: 1.0}}, Y),
        ({}, Y > 0),
    ],
)
def test_a_classifier_comes_back_as_it_was(keywords: Any, y: Any, tmp_path: Path) -> None:
    fitted = wl.WassersteinClassifier(**keywords).fit(X, y)
    fitted.save(tmp_path / "model")
    loaded = wl.WassersteinClassifier.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict_proba(X), fitted.predict_proba(X))
    np.testing.assert_array_equal(loaded.predict(X), fitted.predict(X))
    assert loaded.classes_.dtype == fitted.classes_.dtype
    assert loaded.score(X, y) == fitted.score(X, y)
    assert loaded.n_iter_ == fitted.n_iter_
    assert loaded.get_params()["epsilon"] == fitted.epsilon
    again = loaded.fit(X, y)  # the keywords are kept
    np.testing.assert_allclose(again.predict_proba(X), fitted.predict_proba(X), atol=1e-6)


def test_a_regressor_comes_back_as_it_was(tmp_path: Path) -> None:
    y = np.exp(X[:, 1:])
    fitted = wl.WassersteinMeasureRegressor("ordinal", gamma=(1.0, float("inf"))).fit(X, y)
    fitted.save(tmp_path / "model")
    loaded = wl.WassersteinMeasureRegressor.load(tmp_path / "model")
    assert loaded.gamma == (1.0, float("inf"))
    np.testing.assert_array_equal(loaded.predict(X), fitted.predict(X))


def test_feature_names_are_kept(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(X, columns=list("abcd"))
    wl.WassersteinClassifier().fit(frame, Y).save(tmp_path / "model")
    assert wl.WassersteinClassifier.load(tmp_path / "model").feature_names_in_.tolist() == [*"abcd"]


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    path = tmp_path / "model"
    wl.WassersteinClassifier().fit(X, Y).save(path)
    return path


def refuse(path: Path, message: str) -> None:
    with pytest.raises(ValueError, match=message) as refused:
        wl.WassersteinClassifier.load(path)
    assert "\n" not in str(refused.value)
    assert str(path) in str(refused.value)


@pytest.mark.parametrize("kept", [0, 5, 100, 1500, -1])
def test_a_file_cut_short_is_refused(kept: int, saved: Path) -> None:
    saved.write_bytes(saved.read_bytes()[:kept])
    refuse(saved, "is not a saved WassersteinClassifier")


def test_every_byte_counts(saved: Path) -> None:
    whole = saved.read_bytes()
    for place in np.random.default_rng(0).integers(len(whole), size=60):
        changed = bytearray(whole)
        changed[place] ^= 1
        saved.write_bytes(changed)
        refuse(saved, "is not a saved WassersteinClassifier")


def test_another_class_and_other_files_are_refused(saved: Path, tmp_path: Path) -> None:
    with pytest.raises(
        ValueError, match=r"it holds a WassersteinClassifier: use W.*Classifier\.load"
    ):
        wl.WassersteinMeasureRegressor.load(saved)
    save_file({}, tmp_path / "empty")
    refuse(tmp_path / "empty", "it was changed or truncated")
    METRIC.save(tmp_path / "metric.npz")
    refuse(tmp_path / "metric.npz", "is not a saved")
    with pytest.raises(FileNotFoundError, match="nowhere"):
        wl.WassersteinClassifier.load(tmp_path / "nowhere")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": 9}, "format 9 is unknown"),
        ({"model": {"kind": "Linear", "features": 5, "labels": 3}}, "size mismatch"),
        ({"model": {"kind": "Linear", "features": 10**12, "labels": 3}}, "size mismatch"),
        ({"model": {"kind": "os.system"}}, "kind among"),
        ({"own": {"classes": [0, 1], "dtype": "<i8", "places": [0, 1]}}, "no class for each"),
        ({"own": {}}, "classes"),
        ({"params": {"foo": 1, "metric": None}}, "foo"),
    ],
)
def test_contents_that_make_no_sense_are_refused(change: Any, message: str, saved: Path) -> None:
    tensors, state = unpack_tensors(saved.read_bytes())
    saved.write_bytes(pack_tensors(tensors, state | change))
    refuse(saved, message)


def test_a_failed_save_leaves_the_old_file(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = saved.read_bytes()

    def full(*_: Any) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="no space left"):
        wl.WassersteinClassifier("ordinal").fit(X, Y).save(saved)
    assert saved.read_bytes() == before
    assert [path.name for path in saved.parent.iterdir()] == [saved.name]


def test_what_cannot_be_saved_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(NotFittedError):
        wl.WassersteinClassifier().save(tmp_path / "model")
    random = wl.WassersteinClassifier(random_state=np.random.RandomState(0)).fit(X, Y)
    with pytest.raises(ValueError, match=r"random_state=.* cannot be saved"):
        random.save(tmp_path / "model")
    days = np.array(["2015-12-07", "2015-12-08", "2015-12-09"], dtype="datetime64[D]")
    odd = wl.WassersteinClassifier().fit(X, days[Y])
    with pytest.raises(ValueError, match="classes must be numbers or strings to be saved"):
        odd.save(tmp_path / "model")
    assert not list(tmp_path.iterdir())


def test_an_open_file_serves_too(saved: Path) -> None:
    file = io.BytesIO()
    fitted = wl.WassersteinClassifier().fit(X, Y)
    fitted.save(file)
    loaded = wl.WassersteinClassifier.load(io.BytesIO(file.getvalue()))
    np.testing.assert_array_equal(loaded.predict_proba(X), fitted.predict_proba(X))
    assert file.getvalue() == saved.read_bytes()
    with pytest.raises(ValueError, match="the file is not a saved WassersteinClassifier"):
        wl.WassersteinClassifier.load(io.BytesIO(b"nothing"))
    with saved.open("rb") as opened:
        assert wl.WassersteinClassifier.load(opened).classes_.tolist() == [0, 1, 2]
