"""One loader restores everything from columns to labels, including preprocessing."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from wassloss.training import TrainingPlan, train

import wassloss as wl
from tests.problems import grades, linear, wasserstein
from wassloss.data import DataWarning
from wassloss.runs.directory import TrainedRun, open_run
from wassloss.runs.fitting import fit
from wassloss.runs.task import Task

pytest.importorskip("lightning_fabric")
pytest.importorskip("safetensors")

COLUMNS = ("age", "height", "weight", "pulse", "sleep", "steps")
VALUES = np.array([10, 20, 40, 80, 160])


def examples() -> tuple[np.ndarray, np.ndarray]:
    """Features in units that differ by orders of magnitude, and numeric labels."""
    x, y = grades(400)
    scale = 10.0 ** np.arange(6)
    return (x.numpy() * scale + 7 * scale).astype(np.float32), VALUES[y.numpy()]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> TrainedRun:
    folder = tmp_path_factory.mktemp("load")
    x, y = examples()
    lines = [",".join([*COLUMNS, "label"])]
    lines += [",".join([*map(str, row), str(label)]) for row, label in zip(x, y, strict=True)]
    (folder / "data.csv").write_text("\n".join(lines))
    task = Task(data=str(folder / "data.csv"), metric="ordinal")
    fit(task, {"kl_weight": 1.0, "solver": "adam", "max_iter": 75}, folder / "run")
    return open_run(folder / "run")


def test_what_was_trained_is_what_is_loaded(run: TrainedRun) -> None:
    x, y = examples()
    model = wl.load(run.path)
    assert isinstance(model, wl.WassersteinClassifier)
    assert model.classes_.tolist() == VALUES.tolist()
    assert run.columns.names == COLUMNS
    assert model.metric_.positions.tolist() == VALUES.tolist()  # type: ignore[attr-defined]
    accuracy = (model.predict(x) == y).mean()
    assert accuracy > 0.6
    p = model.predict_proba(x)
    assert p.shape == (400, 5)
    scaled = model.scaler_.transform(x)
    expected = model.model_(torch.from_numpy(scaled)).softmax(1).detach()
    np.testing.assert_allclose(p, expected.numpy(), rtol=1e-5, atol=1e-7)
    # The model alone, without preprocessing, gives different outputs.
    raw = model.model_(torch.from_numpy(x)).argmax(1).detach()
    assert (VALUES[raw.numpy()] == y).mean() < accuracy - 0.2


def test_predictions_of_every_kind(run: TrainedRun) -> None:
    x, _ = examples()
    model = wl.load(run.path)
    assert isinstance(model, wl.WassersteinClassifier)
    p = torch.from_numpy(model.predict_proba(torch.from_numpy(x)))
    torch.testing.assert_close(run.model._outputs(x).softmax(1), p)
    top = model.predict_top(x, 3)
    assert top.shape == (400, 3)
    assert (top[:, 0] == model.predict(x)).all()
    assert (VALUES[wl.decisions.top_labels(p, 3)] == top).all()
    model.decision = "least_cost"
    cheapest = wl.decisions.least_cost_label(p, model.metric_)
    assert (model.predict(x) == VALUES[cheapest]).all()
    several = wl.decisions.least_cost_labels(p, model.metric_, 2)
    assert (model.predict_top(x, 2) == VALUES[several]).all()


def test_rows_are_predicted_in_pieces(run: TrainedRun, monkeypatch: pytest.MonkeyPatch) -> None:
    x = torch.from_numpy(examples()[0])
    whole = run.model._outputs(x)
    monkeypatch.setattr("wassloss.estimators.base._ROWS", 7)
    torch.testing.assert_close(run.model._outputs(x), whole, rtol=1e-5, atol=1e-6)


def test_data_frames_are_matched_by_name(run: TrainedRun) -> None:
    pd = pytest.importorskip("pandas")
    x, y = examples()
    model = run.model
    frame = pd.DataFrame(x, columns=list(COLUMNS))
    frame["label"] = y  # not a feature
    expected = model.predict_proba(x)
    for order in (COLUMNS, COLUMNS[::-1], (*COLUMNS[3:], "label", *COLUMNS[:3])):
        np.testing.assert_array_equal(model.predict_proba(frame[list(order)]), expected)
    with pytest.raises(ValueError, match=r"X cannot be .*it lacks the columns 'age', 'sleep';"):
        model.predict(frame[["pulse", "height", "steps", "weight"]])
    with pytest.warns(DataWarning, match="ignoring the column 'city', which"):
        same_again = model.predict_proba(frame.assign(city="Ulm"))
    np.testing.assert_array_equal(same_again, expected)
    with pytest.raises(ValueError, match=r"X cannot be .*it lacks the columns"):
        model.predict(pd.DataFrame(x))


def bad_inputs() -> dict[str, tuple[Any, str]]:
    x, _ = examples()
    nan = x.copy()
    nan[3, 1] = np.nan
    return {
        "width": (x[:, :5], "X has 5 features, but WassersteinClassifier is expecting 6"),
        "one row": (x[0], "Expected 2D array, got 1D array"),
        "nan": (nan, "Input X contains NaN"),
        "range": (np.full((1, 6), 1e200), "must fit torch.float32, got 1"),
        "text": (np.full((1, 6), "red"), "could not convert string to float"),
    }


@pytest.mark.parametrize("case", ["width", "one row", "nan", "range", "text"])
def test_what_cannot_be_predicted_for(case: str, run: TrainedRun) -> None:
    given, message = bad_inputs()[case]
    with pytest.raises((ValueError, TypeError), match=message):
        run.model.predict(given)


# --- other things that can be loaded --------------------------------------------------------------


def test_checkpoints_alone_are_not_taken_for_a_run(tmp_path: Path) -> None:
    train(linear(), wasserstein(), grades(), TrainingPlan(steps=3), directory=tmp_path)
    with pytest.raises(ValueError, match=r"only checkpoints of wassloss\.train: build its model"):
        wl.load(tmp_path)


def test_estimators_are_loaded_by_the_same_name(tmp_path: Path) -> None:
    x, y = examples()
    classifier = wl.WassersteinClassifier("ordinal", tol=0.01).fit(x, y)
    classifier.save(tmp_path / "grades.model")
    again = wl.load(tmp_path / "grades.model")
    assert isinstance(again, wl.WassersteinClassifier)
    np.testing.assert_array_equal(again.predict_proba(x), classifier.predict_proba(x))
    regressor = wl.WassersteinMeasureRegressor("ordinal", tol=0.1).fit(
        x, np.eye(5)[np.searchsorted(VALUES, y)]
    )
    regressor.save(tmp_path / "masses.model")
    assert isinstance(wl.load(tmp_path / "masses.model"), wl.WassersteinMeasureRegressor)


def test_what_cannot_be_loaded(run: TrainedRun, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="does not exist"):
        wl.load(tmp_path / "nowhere")
    with pytest.raises(FileNotFoundError, match=r"is not a run: it has no config\.json"):
        wl.load(tmp_path)
    assert isinstance(wl.load(run.path / "model.safetensors"), wl.WassersteinClassifier)
    for name in ("config.json", "log.jsonl"):
        with pytest.raises(ValueError, match=f"{name} is not a saved estimator: "):
            wl.load(run.path / name)


def test_a_hint_where_the_extra_is_missing(run: TrainedRun) -> None:
    code = (
        "import sys; sys.modules['safetensors'] = None\n"
        f"import wassloss as wl\nwl.load({str(run.path)!r})"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert 'files of models need safetensors: pip install "wassloss[train]"' in done.stderr
