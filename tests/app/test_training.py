"""A table and options become a model, with scores on rows that it never saw."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import wassloss as wl
from wassloss.app._messages import DataWarning
from wassloss.app.evaluation import evaluate, judge
from wassloss.app.examples import ReadOptions, read_examples
from wassloss.app.model import load_model
from wassloss.app.splitting import divided
from wassloss.app.tables import Table, read_table
from wassloss.app.training import fit_table

NAMES = ("awful", "bad", "fair", "good")


def frame(rows: int = 120, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rows, 3))
    y = np.digitize(x[:, 0] + 0.4 * rng.normal(size=rows), [-1, 0, 1])
    return pd.DataFrame(x, columns=["a", "b", "c"]).assign(label=np.array(NAMES)[y])


def table(**more: Any) -> Table:
    return Table.of(frame().assign(**more))


ORDER = ReadOptions(order=NAMES)


def test_it_is_the_classifier_on_the_rows_to_train_on() -> None:
    parts = np.where(np.arange(120) % 4, "train", "test")
    fitted = fit_table(table(part=parts), "ordinal", options=ORDER, params={"kl_weight": 0.3})
    given = frame()
    train, test = given[parts == "train"], given[parts == "test"]
    own = wl.WassersteinClassifier("ordinal", classes=NAMES, kl_weight=0.3, random_state=0)
    own.fit(train[["a", "b", "c"]], train["label"])
    np.testing.assert_array_equal(
        fitted.model.predict_proba(test[["a", "b", "c"]]), own.predict_proba(test[["a", "b", "c"]])
    )
    assert fitted.scores["test"].mean("accuracy") == own.score(test[["a", "b", "c"]], test["label"])
    assert fitted.scores["test"].count == 30
    assert "validation" not in fitted.scores


def test_test_rows_decide_nothing() -> None:
    parts = np.where(np.arange(120) % 4, "train", "test")
    messy = table(part=parts, town=np.where(np.arange(120) % 3, "u", "v"))
    first = fit_table(messy, "ordinal", options=ORDER).model
    changed = messy.frame.copy()
    changed.loc[parts == "test", "a"] = 1e6
    changed.loc[parts == "test", "town"] = "new"
    changed.loc[parts == "test", "b"] = np.nan
    with pytest.warns(DataWarning, match="column 'town' holds 'new', unlike the training rows"):
        again = fit_table(Table.of(changed), "ordinal", options=ORDER).model
    own = messy.frame[parts == "train"]
    np.testing.assert_array_equal(first.predict_proba(own), again.predict_proba(own))


def test_a_share_is_held_out_and_groups_stay_together() -> None:
    groups = np.arange(120) // 3
    options = ReadOptions(order=NAMES, group="who")
    fitted = fit_table(table(who=groups), "ordinal", options=options, test=0.25)
    examples = read_examples(table(who=groups), options)
    parts = divided(examples, 0.25, 0)
    assert not set(groups[parts["train"]]) & set(groups[parts["test"]])
    assert fitted.scores["test"].count == len(parts["test"])
    assert fitted.model.trained_on is not None
    assert fitted.model.trained_on.rows == len(parts["train"])
    crossed = table(who=groups, part=np.where(np.arange(120) % 2, "train", "test"))
    with pytest.raises(ValueError, match="groups must not have both training and held-out rows"):
        fit_table(crossed, "ordinal", options=options)


def test_several_labels() -> None:
    both = [[name, "good"] if name != "good" else ["good"] for name in frame()["label"]]
    given = frame().drop(columns="label").assign(labels=both)
    fitted = fit_table(Table.of(given), "ordinal", options=ORDER, test=0.2)
    assert fitted.scores["test"].kind == "tags"
    examples = read_examples(Table.of(given), ReadOptions(order=fitted.model.labels))
    assert evaluate(fitted.model, examples).mean("accuracy") > 0.6
    metric = wl.ground.Ordinal(4)  # without names: labels are numbers
    numbers = given.assign(labels=[[NAMES.index(n) for n in each] for each in both])
    assert fit_table(Table.of(numbers), metric).model.labels == ("0", "1", "2", "3")


def test_labels_of_every_metric() -> None:
    named = wl.ground.Ordinal([0, 1, 5, 9], labels=NAMES[::-1])
    fitted = fit_table(table(), named, test=0.2)
    assert fitted.model.labels == NAMES[::-1]
    assert fit_table(table(), "discrete").model.labels == NAMES
    ids = frame().assign(label=[NAMES.index(name) for name in frame()["label"]])
    for metric in (wl.ground.Ordinal(4), "ordinal"):
        assert fit_table(Table.of(ids), metric).model.labels == ("0", "1", "2", "3")
    stars = ids.assign(label=ids["label"] / 2)
    assert fit_table(Table.of(stars), "ordinal").model.labels == ("0", "0.5", "1", "1.5")


@pytest.mark.parametrize(
    ("metric", "keywords", "message"),
    [
        (None, {}, r"X has no ground metric of its own: pass metric \(--metric\)"),
        ("ordinal", {}, "the order of the labels is unknown, because X only names them: .*--ord"),
        ("ordinal", {"options": ORDER, "test": 1.0}, "test must be at least 0 and less than 1"),
        ("ordinal", {"options": ORDER, "params": {"alpha": -1.0}}, "alpha"),
        ("nearly", {}, "metric must be ordinal, discrete, or a file"),
    ],
)
def test_what_does_not_fit_together(metric: Any, keywords: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        fit_table(table(), metric, **keywords)


def test_parts_without_one_to_train_on() -> None:
    with pytest.raises(ValueError, match="data with parts must have a part named train, got test"):
        fit_table(table(part="test"), "ordinal", options=ORDER)
    with pytest.warns(DataWarning, match="unused parts: later"):
        fit_table(table(part=["train", "later"] * 60), "ordinal", options=ORDER)
    part = np.where(np.arange(120) % 4, "train", "test")
    lonely = frame().assign(part=part, label=["late", *([1] * 119)])
    with pytest.raises(ValueError, match="y must have every class in the training rows, got"):
        fit_table(Table.of(lonely), "discrete")


# --- judging --------------------------------------------------------------------------------------


@pytest.fixture
def data(tmp_path: Path) -> Path:
    frame().to_csv(tmp_path / "data.csv", index=False)
    return tmp_path / "data.csv"


def trained(data: Path, name: str, **keywords: Any) -> Any:
    keywords = {"options": ORDER, "test": 0.25} | keywords
    fitted = fit_table(read_table(data), "ordinal", **keywords)
    fitted.model.save(data.parent / name)
    return fitted, load_model(data.parent / name)


def test_a_model_is_judged_by_what_it_held_out(data: Path) -> None:
    fitted, model = trained(data, "m")
    judging = judge(model)
    assert judging.part == "test"
    assert judging.overlap is not None
    assert judging.overlap.seen == 0
    assert evaluate(model, judging.examples).to_json() == fitted.scores["test"].to_json()
    whole = judge(model, str(data), part="train")
    assert whole.overlap is not None
    assert whole.overlap.seen == len(whole.examples) == 90


def test_data_that_changed_are_no_longer_its_own(data: Path) -> None:
    _, model = trained(data, "m")
    frame().sample(frac=1, random_state=0).to_csv(data, index=False)
    with pytest.raises(ValueError, match=r"data.csv has changed since .* was trained on it"):
        judge(model)
    other = judge(model, str(data))  # all of it, as of other data
    assert (other.part, len(other.examples)) == (None, 120)
    assert other.overlap is not None
    assert (other.overlap.seen, other.overlap.by_chance) == (90, False)


@pytest.mark.parametrize("keywords", [{"test": 0.0}, {}])
def test_other_data(keywords: dict[str, Any], data: Path) -> None:
    _, model = trained(data, "m", **keywords)
    other = data.parent / "other.csv"
    frame(40, seed=1).to_csv(other, index=False)
    judging = judge(model, str(other))
    assert (judging.part, len(judging.examples)) == (None, 40)
    assert judging.overlap is not None
    assert judging.overlap.seen == 0
    with pytest.raises(ValueError, match=r"part must be a part of the data \(none\), got 'test'"):
        judge(model, str(other), part="test")
    frame(40, seed=1).replace("good", "superb").to_csv(other, index=False)
    with pytest.raises(ValueError, match="'superb' is not one of the 4 labels"):
        judge(model, str(other))
    if not keywords:
        return
    with pytest.raises(ValueError, match="no held-out part 'test' or 'validation': pass"):
        judge(model)


def test_columns_that_training_left_out_are_not_missed(data: Path) -> None:
    given = frame().assign(id=np.arange(120), who=np.arange(120) // 2)
    given.to_csv(data, index=False)
    options = ReadOptions(order=NAMES, drop=("id",), group="who")
    _, model = trained(data, "m", options=options)
    assert model.encoder is not None
    assert model.encoder.columns == ("a", "b", "c")
    given.sample(30, random_state=0).to_csv(data.parent / "new.csv", index=False)
    given.drop(columns=["id", "who"]).to_csv(data.parent / "bare.csv", index=False)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(judge(model, str(data.parent / "new.csv")).examples) == 30
        assert len(judge(model, str(data.parent / "bare.csv")).examples) == 120
        assert judge(model).examples.groups is not None


def test_a_model_of_a_comparison_says_that_nothing_was_held_out(data: Path) -> None:
    _, model = trained(data, "m")
    model.origin["made_by"] = "compare"
    with pytest.raises(
        ValueError, match=r"was fitted to all its rows: pass other data to score it on"
    ):
        judge(model)
