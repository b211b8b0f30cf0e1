"""The report of runs shows the right numbers, stands alone, and looks right in a browser."""

import copy
import dataclasses
import json
import re
import shutil
from html import escape
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
import torch

import wassloss as wl
from tests.app.cli.commands import METRIC, failed, graded, ok, saved, tagged
from tests.data.tables import split
from tests.app.report.browser import assert_looks_right
from wassloss._sealed import sealed
from wassloss.app.report import Report, runs_report, write_report
from wassloss.app.report.page import render
from wassloss.runs.directory import TrainedRun, open_run
from wassloss.runs.fitting import fit
from wassloss.runs.task import Task
from wassloss.scores.differences import paired_difference

matplotlib = pytest.importorskip("matplotlib")


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[TrainedRun]:
    folder = tmp_path_factory.mktemp("runs")
    names = ("awful", "bad", "<b>fair</b>", "good & fine", "superb")
    wl.ground.Ordinal(5, labels=names).save(folder / "metric.npz")
    data = str(saved(tagged(names=names), folder / "data.parquet"))
    task = Task(data=data, metric=str(folder / "metric.npz"))
    steps = {"solver": "adam", "max_iter": 10, "batch_size": 20}
    fit(task, {"transport_weight": 0.0, **steps}, folder / "kl")
    fit(task, {"kl_weight": 0.1, **steps}, folder / "w")
    return [open_run(folder / "kl"), open_run(folder / "w")]


@pytest.fixture(scope="module")
def report(runs: list[TrainedRun]) -> Report:
    return runs_report(runs)


def test_numbers_are_those_of_the_scores(runs: list[TrainedRun], report: Report) -> None:
    test = tagged().part("test")
    page = render(report)
    for run, model in zip(runs, report.models, strict=True):
        logits = run.model._outputs(test.features)
        expected = wl.scores.top_k_cost(logits, test.target, METRIC)
        assert model.distance.mean() == pytest.approx(float(expected))
        assert f'<td data-head="{run.name}">{model.accuracy.mean():.3f}</td>' in page
        assert f"{wl.scores.ranking_auc(logits, test.target):.3f}" in page
    first, second = (model.distance for model in report.models)
    assert report.models[1].versus == paired_difference(second - first)
    assert [(one.loss, one.decision) for one in report.candidates] == [
        (run, decision) for decision in ("probable", "least cost") for run in ("kl", "w")
    ]


def test_mistakes_are_those_whose_distance_changes(runs: list[TrainedRun], report: Report) -> None:
    test = tagged().part("test")
    both = {"mended": (report.mended, -1), "made": (report.made, 1)}
    first, second = (model.distance for model in report.models)
    for shown, sign in both.values():
        assert len(shown) == min(5, np.sum(sign * (second - first) > 0))
        for mistake in shown:
            row = int(mistake.name.removeprefix("example "))
            assert sign * (second - first)[row] > 0
            used = test.target.weights[row] > 0
            true = test.target.indices[row][used].tolist()
            assert sorted(mistake.truth.split(", ")) == sorted(runs[0].labels[i] for i in true)
            guesses = [run.model.predict(test.features[[row]].numpy())[0] for run in runs]
            assert list(mistake.guesses) == guesses


def test_one_label_has_a_confusion_matrix(tmp_path: Path) -> None:
    METRIC.save(tmp_path / "metric.npz")
    data = graded()
    path, metric = str(saved(data, tmp_path / "data.parquet")), str(tmp_path / "metric.npz")
    fit(Task(data=path, metric=metric), {}, tmp_path / "run")
    run = open_run(tmp_path / "run")
    found = runs_report([run])
    test = data.part("test")
    assert found.truth is not None
    assert found.truth.tolist() == test.target.tolist()
    chosen = run.model._outputs(test.features).argmax(1).numpy()
    assert found.models[0].guess.tolist() == chosen.tolist()
    page = render(found)
    assert '<section id="confusion">' in page
    kappa = wl.scores.quadratic_weighted_kappa(np.eye(5)[chosen], test.target)
    assert f"{kappa:.3f}" in page


def test_distributions_are_as_far_as_they_must_travel(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(60, 3)), rng.dirichlet(np.ones(5), size=60)
    names = ("awful", "bad", "fair", "good", "superb")
    data = wl.data.Dataset(torch.tensor(x).float(), torch.tensor(y).float(), label_names=names)
    data = split(data, {"train": 0.6, "validation": 0.2, "test": 0.2})
    task = Task(data=str(saved(data, tmp_path / "data.parquet")), metric="ordinal", order=names)
    fit(task, {"tol": 0.01}, tmp_path / "run")
    run = open_run(tmp_path / "run")
    found = runs_report([run])
    test = data.part("test")
    h = run.model._outputs(test.features).softmax(1).numpy()
    true = test.target.to_dense().numpy()
    far = np.abs((h - true).cumsum(1)).sum(1)
    np.testing.assert_allclose(found.models[0].distance, far, rtol=1e-4)
    assert found.truth is None
    worst = found.mended[0]
    assert worst.name == f"example {far.argmax()}"
    assert worst.truth.startswith(names[true[far.argmax()].argmax()])
    assert worst.guesses == [names[h[far.argmax()].argmax()]]


def test_notes_say_what_to_keep_in_mind(runs: list[TrainedRun]) -> None:
    first, second = runs
    assert not runs_report(runs).warnings
    model = copy.copy(second.model)
    model.metric_ = wl.ground.Discrete(5, labels=second.labels)
    other = dataclasses.replace(second, model=model)
    page = render(runs_report([first, other]))
    assert "under different ground metrics; distances here are those of kl" in page
    assert "w is WassersteinClassifier(" in page
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


def test_the_page_is_whole_and_stands_alone(runs: list[TrainedRun]) -> None:
    page = render(runs_report(runs))
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


def test_one_run_and_three(runs: list[TrainedRun], tmp_path: Path) -> None:
    alone = render(runs_report(runs[:1]))
    assert "change, %" not in alone
    third = tmp_path / "third"
    shutil.copytree(runs[1].path, third)
    three = render(runs_report([*runs, open_run(third)]))
    assert three.count('class="dot"') == 7  # in the legend and above the mistakes
    with pytest.raises(ValueError, match="runs must differ"):
        runs_report([runs[0], runs[0]])


def test_runs_that_do_not_compare(runs: list[TrainedRun], tmp_path: Path) -> None:
    METRIC.save(tmp_path / "metric.npz")
    other = saved(tagged(), tmp_path / "data.parquet")
    run = tmp_path / "run"
    ok("train", other, "--metric", tmp_path / "metric.npz", "--tol", 0.1, "--out", run)
    assert "must have the same labels" in failed("report", runs[0].path, run)
    third = tmp_path / "third"
    shutil.copytree(run, third)
    config = (third / "config.json").read_text().replace("data.parquet", "other.parquet")
    values = json.loads(config)
    del values["sha256"]
    (third / "config.json").write_bytes(sealed(values))
    assert "were trained on different data" in failed("report", run, third)
    page = tmp_path / "report.html"
    ok("report", run, third, "--data", other, "--out", page)
    assert page.exists()


def test_examples_that_were_drawn_differently_do_not_compare(tmp_path: Path) -> None:
    """One run would be judged on what it was trained on."""
    METRIC.save(tmp_path / "metric.npz")
    data = saved(tagged(parts=False), tmp_path / "data.parquet")
    for seed in (0, 1):
        ok(
            *("train", data, "--metric", tmp_path / "metric.npz", "--tol", 0.1),
            *("--test", 0.2, "--seed", seed, "--out", tmp_path / f"run{seed}"),
        )
    said = failed("report", tmp_path / "run0", tmp_path / "run1")
    assert "hold out different examples" in said


def test_in_a_browser(report: Report, tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    write_report(report, page)
    assert_looks_right(page)


def test_the_answer_comes_first(runs: list[TrainedRun], report: Report) -> None:
    page = render(report)
    assert page.index(str(escape(report.answer))) < page.index("<svg")
    said = {"better": "Milder mistakes", "worse": "Graver mistakes", "unclear": "No clear gain"}
    assert report.answer.startswith(said[report.models[1].verdict])
    for model in report.models:
        assert f"{model.distance.mean():.3g} with {model.loss}" in report.answer
    alone = runs_report(runs[:1]).answer
    assert alone.startswith("The mean distance from the nearest true label is")
