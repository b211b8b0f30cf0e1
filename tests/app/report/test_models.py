"""The report of models shows the right numbers, stands alone, and looks right in a browser."""

import re
import shutil
from html import escape
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import wassloss as wl
from tests.app.cli.commands import (
    FEATURES,
    METRIC,
    failed,
    graded,
    ok,
    opened,
    saved,
    tagged,
    target_of,
)
from tests.app.report.browser import assert_looks_right
from wassloss.app.model import TableModel
from wassloss.app.report import Report, models_report, write_report
from wassloss.app.report.page import render
from wassloss.scores import paired_difference

NAMES = ("awful", "bad", "<b>fair</b>", "good & fine", "superb")


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> list[TableModel]:
    folder = tmp_path_factory.mktemp("models")
    wl.ground.Ordinal(5, labels=NAMES).save(folder / "metric.npz")
    data = saved(tagged(names=NAMES), folder / "data.parquet")
    words = ("train", data, "--metric", folder / "metric.npz", "--solver", "adam")
    words += ("--max-iter", 10, "--batch-size", 20, "--out")
    ok(*words, folder / "kl.wassloss", "--transport-weight", 0)
    ok(*words, folder / "w.wassloss", "--kl-weight", 0.1)
    return [opened(folder / f"{name}.wassloss") for name in ("kl", "w")]


@pytest.fixture(scope="module")
def report(models: list[TableModel]) -> Report:
    return models_report(models)


def held() -> pd.DataFrame:
    frame = tagged(names=NAMES)
    return frame[frame["part"] == "test"]


def test_numbers_are_those_of_the_scores(models: list[TableModel], report: Report) -> None:
    target = target_of(held(), NAMES)
    page = render(report)
    for name, own, model in zip(("kl", "w"), models, report.models, strict=True):
        logits = own.logits(held()[FEATURES])
        expected = wl.scores.top_k_cost(logits, target, METRIC)
        assert model.distance.mean() == pytest.approx(float(expected))
        assert f'<td data-head="{name}">{model.accuracy.mean():.3f}</td>' in page
        auc = wl.scores.ranking_auc(logits, target, reduction="none").numpy()
        assert f"{auc.mean():.3f}" in page
    first, second = (model.distance for model in report.models)
    assert report.models[1].versus == paired_difference(second - first)
    assert [(one.loss, one.decision) for one in report.candidates] == [
        (name, decision) for decision in ("probable", "least cost") for name in ("kl", "w")
    ]


def test_mistakes_are_those_whose_distance_changes(
    models: list[TableModel], report: Report
) -> None:
    test = held()
    both = {"mended": (report.mended, -1), "made": (report.made, 1)}
    first, second = (model.distance for model in report.models)
    for shown, sign in both.values():
        assert len(shown) == min(5, np.sum(sign * (second - first) > 0))
        for mistake in shown:
            row = int(mistake.name.removeprefix("row "))  # of the file
            place = test.index.get_loc(row)
            assert sign * (second - first)[place] > 0
            assert sorted(mistake.truth.split(", ")) == sorted(test.loc[row, "labels"])
            guesses = [model.predict(test.loc[[row], FEATURES])[0] for model in models]
            assert list(mistake.guesses) == guesses


def test_one_label_has_a_confusion_matrix(tmp_path: Path) -> None:
    METRIC.save(tmp_path / "metric.npz")
    frame, path = graded(), tmp_path / "m.wassloss"
    data = saved(frame, tmp_path / "data.parquet")
    ok("train", data, "--metric", tmp_path / "metric.npz", "--out", path)
    found = models_report([opened(path)])
    test = frame[frame["part"] == "test"]
    assert found.truth is not None
    assert found.truth.tolist() == target_of(test).tolist()
    chosen = opened(path).logits(test[FEATURES]).argmax(1).numpy()
    assert found.models[0].guess.tolist() == chosen.tolist()
    page = render(found)
    assert '<section id="confusion">' in page
    kappa = wl.scores.quadratic_weighted_kappa(np.eye(5)[chosen], target_of(test))
    assert f"{kappa:.3f}" in page


def test_distributions_are_as_far_as_they_must_travel(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    x, true = rng.normal(size=(60, 3)), rng.dirichlet(np.ones(5), size=60).astype(np.float32)
    names = ["awful", "bad", "fair", "good", "superb"]
    frame = pd.DataFrame(x, columns=list("abc"))
    frame["labels"], frame["weights"] = [names] * 60, true.tolist()
    frame["part"] = ["train"] * 40 + ["test"] * 20
    data, path = saved(frame, tmp_path / "data.parquet"), tmp_path / "m.wassloss"
    words = ("--metric", "ordinal", "--order", ",".join(names), "--tol", 0.01)
    ok("train", data, *words, "--out", path)
    found = models_report([opened(path)])
    h = opened(path).logits(frame.loc[40:, list("abc")]).softmax(1).numpy()
    far = np.abs((h - true[40:]).cumsum(1)).sum(1)
    np.testing.assert_allclose(found.models[0].distance, far, rtol=1e-4)
    assert found.truth is None
    worst, at = found.mended[0], far.argmax()
    assert worst.name == f"row {40 + at}"
    assert worst.truth.startswith(names[true[40 + at].argmax()])
    assert worst.guesses == [names[h[at].argmax()]]


def test_notes_say_what_to_keep_in_mind(models: list[TableModel], tmp_path: Path) -> None:
    assert not models_report(models).warnings
    data = models[0].origin["data"]
    words = ("train", data, "--metric", "discrete", "--order", ",".join(NAMES), "--tol", 0.1)
    ok(*words, "--kl-weight", 0.1, "--out", tmp_path / "other.wassloss")
    page = render(models_report([models[0], opened(tmp_path / "other.wassloss")]))
    assert "under different ground metrics; distances here are those of kl" in page
    assert "other is WassersteinClassifier(" in page
    assert "kl_weight=0.1" in page


class _Tags(HTMLParser):
    """What a page is made of, and that every element is closed."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.ids += [given["id"] or ""] if "id" in given else []
        self.links += [v or "" for k, v in attrs if k in ("src", "href", "xlink:href")]
        if tag not in ("meta", "link", "img", "br"):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_the_page_is_whole_and_stands_alone(models: list[TableModel]) -> None:
    page = render(models_report(models))
    tags = _Tags()
    tags.feed(page)
    assert tags.open == []
    assert len(tags.ids) == len(set(tags.ids))
    assert all(link.startswith(("#", "data:")) for link in tags.links)
    assert "@import" not in page
    assert not re.search(r"url\((?!#)", page)
    assert "<script" not in page
    assert "<b>fair</b>" not in page  # labels are text
    assert "&lt;b&gt;fair&lt;/b&gt;" in page
    assert page.count("<b") == page.count("<body")


def test_one_model_and_three(models: list[TableModel], tmp_path: Path) -> None:
    alone = render(models_report(models[:1]))
    assert "change, %" not in alone
    third = tmp_path / "third.wassloss"
    shutil.copy(models[1].path, third)
    three = render(models_report([*models, opened(third)]))
    assert three.count('class="dot"') == 7  # in the legend and above the mistakes
    with pytest.raises(ValueError, match="models must differ"):
        models_report([models[0], models[0]])


def test_models_that_do_not_compare(models: list[TableModel], tmp_path: Path) -> None:
    METRIC.save(tmp_path / "metric.npz")
    data, moved = saved(tagged(), tmp_path / "data.parquet"), tmp_path / "moved.parquet"
    words = ("--metric", tmp_path / "metric.npz", "--tol", 0.1, "--out")
    ok("train", data, *words, tmp_path / "one.wassloss")
    assert "must have the same labels" in failed(
        "report", models[0].path, tmp_path / "one.wassloss"
    )
    shutil.copy(data, moved)
    ok("train", moved, *words, tmp_path / "two.wassloss")
    both = (tmp_path / "one.wassloss", tmp_path / "two.wassloss")
    assert "were trained on different data" in failed("report", *both)
    page = tmp_path / "report.html"
    new = tagged().assign(**{name: tagged()[name] + 1 for name in FEATURES})
    ok("report", *both, "--data", saved(new, tmp_path / "new.parquet"), "--out", page)
    assert page.exists()


def test_models_may_take_different_columns(tmp_path: Path) -> None:
    data = saved(graded(), tmp_path / "data.csv")
    words = ("train", data, "--metric", "discrete", "--tol", 0.1, "--out")
    ok(*words, tmp_path / "all.wassloss")
    ok(*words, tmp_path / "few.wassloss", "--drop", "x0,x1")
    found = models_report([opened(tmp_path / f"{name}.wassloss") for name in ("all", "few")])
    assert [len(model.guess) for model in found.models] == [40, 40]


def test_examples_that_were_drawn_differently_do_not_compare(tmp_path: Path) -> None:
    """One model would be judged on what it was trained on."""
    METRIC.save(tmp_path / "metric.npz")
    data = saved(tagged(parts=False), tmp_path / "data.parquet")
    for seed in (0, 1):
        ok(
            *("train", data, "--metric", tmp_path / "metric.npz", "--tol", 0.1),
            *("--test", 0.2, "--seed", seed, "--out", tmp_path / f"{seed}.wassloss"),
        )
    said = failed("report", tmp_path / "0.wassloss", tmp_path / "1.wassloss")
    assert "held out different rows" in said


def test_in_a_browser(report: Report, tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    write_report(report, page)
    assert_looks_right(page)


def test_the_answer_comes_first(models: list[TableModel], report: Report) -> None:
    page = render(report)
    assert page.index(str(escape(report.answer))) < page.index("<svg")
    said = {"better": "Milder mistakes", "worse": "Graver mistakes", "unclear": "No clear gain"}
    assert report.answer.startswith(said[report.models[1].verdict])
    for model in report.models:
        assert f"{model.distance.mean():.3g} with {model.loss}" in report.answer
    alone = models_report(models[:1]).answer
    assert alone.startswith("The mean distance from the nearest true label is")
