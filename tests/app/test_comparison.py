"""`wl.compare`: losses and decisions with equal tuning budgets, evaluated on held-out rows."""

from __future__ import annotations

from typing import Any

import joblib
import numpy as np
import pytest
from scipy import sparse

import wassloss as wl
from wassloss.app.comparison import Comparison, compare_table, tuning
from wassloss.app.examples import ReadOptions
from wassloss.app.splitting import held_out
from wassloss.app.tables import Table


def grades(n: int = 300, seed: int = 0, noise: float = 0.7) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4))
    y = np.digitize(X[:, 0] + noise * rng.normal(size=n), [-1.5, -0.5, 0.5, 1.5])
    return X, y


X, Y = grades()


@pytest.fixture(scope="module")
def progress() -> list[tuple[int, int]]:
    """The progress reported while `found` was computed."""
    return []


@pytest.fixture(scope="module")
def found(progress: list[tuple[int, int]]) -> Comparison:
    return wl.compare(X, Y, "ordinal", progress=lambda *told: progress.append(told))


@pytest.fixture
def one_fold(monkeypatch: pytest.MonkeyPatch) -> None:
    """To choose by, where it does not matter what is chosen."""
    monkeypatch.setattr(tuning, "_MANY", 1)


@pytest.fixture
def few_settings(one_fold: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Use few settings, an eighth of the work."""
    paths = {
        loss: tuple((strengths, alphas[1::2][:2]) for strengths, alphas in of_loss[:1])
        for loss, of_loss in tuning._PATHS.items()
    }
    monkeypatch.setattr(tuning, "_PATHS", paths)


def test_every_loss_with_every_decision(found: Comparison) -> None:
    pairs = [(c.loss, c.decision) for c in found.candidates]
    losses = ("cross-entropy", "W + KL", "softened")
    assert pairs == [
        *((loss, decision) for decision in ("probable", "least cost") for loss in losses),
        ("ridge", "nearest"),
    ]
    assert found.rows == (225, 75)
    for c in found.candidates:
        assert len(c.distance) == len(c.accuracy) == 75
        assert ((c.distance == 0) == (c.accuracy == 1)).all()
    assert found.candidates[0].versus.mean == 0


def test_answers_are_those_of_the_rows_held_out(found: Comparison) -> None:
    assert found.labels == ["0", "1", "2", "3", "4"]
    assert (found.truth == Y[found.held]).all()
    for c in found.candidates:
        assert (np.abs(c.guess - found.truth) == c.distance).all()


def test_all_losses_have_as_many_settings() -> None:
    counts = {sum(len(alphas) for _, alphas in paths) for paths in tuning._PATHS.values()}
    assert counts == {8} == {len(tuning._MORE_ALPHAS)}


def test_the_answer_and_the_table(found: Comparison) -> None:
    text = str(found)
    assert text.startswith(found.answer)
    assert "75 held-out rows" in found.answer
    assert f"{found.candidates[0].distance.mean():.3g} with cross-entropy" in found.answer
    assert len(text.splitlines()) == 3 + len(found.candidates)


def test_differences_are_paired_with_cross_entropy(found: Comparison) -> None:
    for c in found.candidates:
        gap = wl.scores.paired_difference(c.distance - found.candidates[0].distance)
        assert (c.versus.mean, c.versus.low, c.versus.high) == (gap.mean, gap.low, gap.high)


def test_scores_are_those_of_a_model_that_never_saw_the_rows(
    found: Comparison,
) -> None:
    train, held = held_out(Y, len(Y), 0.25, None, 0)
    for c in found.candidates[:3]:
        again = wl.WassersteinClassifier("ordinal", **c.settings).fit(X[train], Y[train])
        np.testing.assert_array_equal(np.abs(again.predict(X[held]) - Y[held]), c.distance)
        logs = again.predict_log_proba(X[held])[np.arange(75), Y[held]]
        assert c.nll is not None
        np.testing.assert_allclose(-logs, c.nll, rtol=1e-3)


def test_the_best_is_fitted_to_all_rows(found: Comparison) -> None:
    chosen = min(found.candidates[:-1], key=lambda c: c.validation)
    rule = "least_cost" if chosen.decision == "least cost" else "probable"
    again = wl.WassersteinClassifier("ordinal", decision=rule, **chosen.settings).fit(X, Y)
    np.testing.assert_allclose(found.best.predict_proba(X), again.predict_proba(X), atol=1e-6)
    assert found.best.classifier.decision == rule


@pytest.mark.usefixtures("one_fold")
def test_what_is_scored_is_what_the_classifier_answers() -> None:
    # Least expected cost differs from least expected distance if the power is 2.
    metric = wl.ground.Ordinal(5, power=2)
    found = wl.compare(X, Y, metric)
    train, held = held_out(Y, len(Y), 0.25, None, 0)
    for c in found.candidates[3:6]:
        again = wl.WassersteinClassifier(metric, decision="least_cost", **c.settings)
        answers = again.fit(X[train], Y[train]).predict(X[held])
        assert np.mean(np.abs(answers - Y[held]) == c.distance) > 0.97  # ties may go either way


@pytest.mark.slow
def test_it_is_reproducible_in_any_number_of_processes(found: Comparison) -> None:
    again = wl.compare(X, Y, "ordinal", n_jobs=2)
    assert [c.settings for c in again.candidates] == [c.settings for c in found.candidates]
    other = wl.compare(X, Y, "ordinal", random_state=1)
    assert other.answer != found.answer


def test_groups_stay_together(monkeypatch: pytest.MonkeyPatch) -> None:
    groups = np.repeat(np.arange(60), 5).astype(str)
    train, held = held_out(Y, len(Y), 0.25, np.repeat(np.arange(60), 5), 0)
    assert not set(groups[train]) & set(groups[held])
    for one, other in tuning.folds_of(Y[train], np.repeat(np.arange(60), 5)[train], 0):
        assert not set(groups[train][one]) & set(groups[train][other])
    monkeypatch.setattr(tuning, "_MANY", 1)  # one fold
    found = wl.compare(X, Y, "ordinal", groups=groups)
    assert sum(found.rows) == len(X)


@pytest.mark.usefixtures("one_fold")
def test_names_without_an_order() -> None:
    names = np.array(["a", "b", "c", "d", "e"])[Y]
    found = wl.compare(X[:120], names[:120])
    assert "ridge" not in {c.loss for c in found.candidates}
    assert set(found.best.predict(X)) <= set("abcde")


@pytest.mark.usefixtures("found")
def test_progress_is_told(progress: list[tuple[int, int]]) -> None:
    assert progress[0] == (1, 5 * 3 + 6)
    assert progress[-1][0] == progress[-1][1]


@pytest.mark.parametrize("processes", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_a_dask_cluster(found: Comparison, processes: bool) -> None:
    import distributed

    workers = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None}
    search = wl.WassersteinClassifierCV("ordinal", alphas=(10.0, 1.0), cv=2)
    expected = search.fit(X, Y).scores_
    with (
        distributed.Client(processes=processes, **workers) as client,
        joblib.parallel_config("dask"),
    ):
        assert str(wl.compare(X, Y, "ordinal")) == str(found)
        np.testing.assert_allclose(search.fit(X, Y).scores_, expected, atol=1e-6)
        counts = client.run(lambda dask_worker: dask_worker.state.executed_count)
        assert min(counts.values()) > 0


@pytest.mark.usefixtures("one_fold")
def test_a_hidden_layer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wassloss.app.comparison.experiment.STEPS", 20)
    found = wl.compare(X, Y, "ordinal", model="mlp")
    assert found.best.classifier.hidden_layer_sizes == (64,)
    assert found.best.classifier.n_iter_ * 300 >= 20 * 225
    assert found.candidates[0].accuracy.mean() > 0.3


@pytest.mark.parametrize(
    ("keywords", "said"),
    [
        ({"model": "tree"}, "model must be"),
        ({"test": 1.5}, "test must be more than 0 and less than 1, got 1.5"),
        ({"groups": [0, 1]}, "groups must have 300 entries, got 2"),
        ({"random_state": -1}, "random_state must be"),
    ],
)
def test_bad_input(keywords: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        wl.compare(X, Y, "ordinal", **keywords)
    with pytest.raises(ValueError, match="y must hold class ids"):
        wl.compare(X, np.eye(5)[Y])


@pytest.mark.usefixtures("one_fold")
def test_rows_to_hold_out_can_be_named() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(60, 2))
    y = np.digitize(x[:, 0], [-0.5, 0.5])
    rows = np.arange(0, 60, 4)
    found = wl.compare(x, y, "ordinal", test=rows)
    np.testing.assert_array_equal(found.held, rows)
    assert found.rows == (45, 15)
    np.testing.assert_array_equal(found.truth, y[rows])
    for wrong in ([60], [], np.arange(60), [1.0], [True] * 60):
        with pytest.raises(
            ValueError, match=r"test must be a share, or some but not all rows in 0\.\.59"
        ):
            wl.compare(x, y, "ordinal", test=wrong)


def chosen(found: Comparison) -> Any:
    """All that was decided before the rows held out were looked at."""
    encoder = found.best.encoder
    columns = None if encoder is None else (encoder.feature_names, encoder.medians.tolist())
    return (
        [(c.loss, c.decision, c.settings, c.validation) for c in found.candidates],
        (found.kept.loss, found.kept.decision, found.labels, columns),
        found.best.metric_.distance().tolist(),
        found.best.metric_.scale,
    )


HELD = np.arange(0, 120, 4)


@pytest.mark.usefixtures("few_settings")
@pytest.mark.parametrize("kind", ["dense", "sparse", "labels", "label set", "groups"])
def test_rows_held_out_decide_nothing(kind: str) -> None:
    x, y, rng = X[:120].copy(), Y[:120].copy(), np.random.default_rng(1)
    keywords: dict[str, Any] = {"test": HELD}
    if kind == "label set":
        keywords["classes"] = range(6)
    if kind == "groups":
        groups = np.arange(120) // 2 * 2 + (np.arange(120) % 4 == 0)
        keywords["groups"] = groups
    first = wl.compare(sparse.csr_array(x) if kind == "sparse" else x, y, "ordinal", **keywords)
    if kind in ("dense", "sparse"):
        x[HELD] = 100 * rng.normal(size=(len(HELD), 4)) - 50
    elif kind == "groups":
        groups[HELD] = 1000
    else:
        y[HELD] = 5 if kind == "label set" else rng.permutation(y[HELD])
    again = wl.compare(sparse.csr_array(x) if kind == "sparse" else x, y, "ordinal", **keywords)
    assert chosen(again) == chosen(first)


@pytest.mark.usefixtures("few_settings")
@pytest.mark.filterwarnings("ignore::wassloss.app._messages.DataWarning")
@pytest.mark.parametrize("kind", ["numbers", "gaps", "levels", "rare level", "ordered labels"])
def test_rows_held_out_decide_nothing_of_a_frame(kind: str) -> None:
    pd = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    y: Any = Y[:120]
    frame = pd.DataFrame(X[:120], columns=list("abcd"))
    frame["level"] = np.where(np.arange(120) % 3 == 0, "u", "v")
    if kind != "gaps":
        frame.loc[[1, 9, 17], "a"] = np.nan
    if kind == "ordered labels":
        names = ["worst", "poor", "fair", "good", "best"]
        y = pd.Series(pd.Categorical(np.array(names)[y], names, ordered=True))
    first = wl.compare(frame, y, "ordinal", test=HELD)
    if kind == "numbers":
        frame.loc[HELD, "a"] = 1e6
    elif kind == "gaps":
        frame.loc[HELD, "a"] = np.nan
    elif kind == "levels":
        frame.loc[HELD, "level"] = [f"new {i % 2}" for i in range(len(HELD))]
    elif kind == "rare level":
        frame.loc[HELD[:2], "level"] = "once"
    else:
        y.iloc[HELD] = "worst"
    again = wl.compare(frame, y, "ordinal", test=HELD)
    assert chosen(again) == chosen(first)


def test_a_class_of_held_out_rows_alone_is_refused() -> None:
    y = np.where(np.arange(300) == 6, 9, Y)
    with pytest.raises(ValueError, match="every class in the training rows, got 9 only in"):
        wl.compare(X, y, "ordinal", test=np.arange(0, 300, 3))


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("groups", [None, np.arange(40) // 2])
def test_a_share_leaves_every_class_in_the_rows_to_train_on(seed: int, groups: Any) -> None:
    y = np.repeat([0, 1, 2, 3, 4], [18, 18, 1, 1, 2])
    train, held = held_out(y, 40, 0.4, groups, seed)
    assert set(y[train]) == set(y)
    assert np.array_equal(np.sort(np.concatenate([train, held])), np.arange(40))
    if groups is not None:
        assert not set(groups[train]) & set(groups[held])


def test_a_group_on_both_sides_is_refused() -> None:
    groups = np.arange(300) // 2
    with pytest.raises(ValueError, match=r"groups must not .* but rows 1 and 0 are in one group"):
        wl.compare(X, Y, "ordinal", groups=groups, test=np.arange(0, 300, 3))


@pytest.mark.usefixtures("few_settings")
def test_half_stars() -> None:
    """Labels that look like continuous targets."""
    stars = 0.5 + Y[:120] / 2
    with pytest.raises(ValueError, match=r"If these numbers are labels.*classes=np.unique\(y\)"):
        wl.compare(X[:120], stars, "ordinal")
    found = wl.compare(X[:120], stars, "ordinal", classes=np.unique(stars))
    assert found.labels == ["0.5", "1", "1.5", "2", "2.5"]
    whole = wl.compare(X[:120], Y[:120], "ordinal")
    assert [c.settings for c in found.candidates] == [c.settings for c in whole.candidates]
    for half, one in zip(found.candidates, whole.candidates, strict=True):
        np.testing.assert_allclose(half.distance, one.distance / 2)


@pytest.mark.parametrize("rows", [1, 2, 3])
def test_too_few_rows(rows: int) -> None:
    with pytest.raises(ValueError, match=r"cannot be held out|must have at least 3 rows that"):
        wl.compare(X[:rows], np.zeros(rows, dtype=int), "ordinal")
    with pytest.raises(ValueError, match=r"must have at least 3 groups that .*got 2"):
        wl.compare(X, Y, "ordinal", groups=np.arange(300) // 100)


@pytest.mark.usefixtures("few_settings")
def test_one_held_out_row_gives_no_conclusion() -> None:
    found = wl.compare(X[:60], Y[:60], "ordinal", test=[3])
    assert found.answer.startswith("No clear gain")
    assert "[no interval]" in str(found) or "–" in str(found)
    assert {c.verdict for c in found.candidates} == {"unclear"}


@pytest.mark.usefixtures("few_settings")
def test_a_table_is_compared_as_its_features_and_classes_are() -> None:
    pd = pytest.importorskip("pandas")
    names = np.array(["worst", "poor", "fair", "good", "best"])
    frame = pd.DataFrame(X[:120], columns=list("abcd")).assign(label=names[Y[:120]])
    frame["part"] = np.where(np.arange(120) % 4, "train", "test")
    options = ReadOptions(order=tuple(names))
    found = compare_table(Table.of(frame), "ordinal", options=options).found
    again = wl.compare(X[:120], names[Y[:120]], "ordinal", classes=names, test=HELD)
    assert [c.settings for c in found.candidates] == [c.settings for c in again.candidates]
    for one, other in zip(found.candidates, again.candidates, strict=True):
        np.testing.assert_array_equal(one.guess, other.guess)
    assert found.best.origin["answer"] == found.answer == again.answer
    assert found.best.origin["options"]["order"] == tuple(names)
    with pytest.raises(ValueError, match="one label per example to be compared"):
        compare_table(
            Table.of(frame.assign(label=[["good", "best"]] * 120)), "ordinal", options=options
        )
