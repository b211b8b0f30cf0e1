"""The page shows the right numbers, stands alone, and looks as it should to a browser."""

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
from tests.cli.commands import METRIC, failed, ok, saved, tagged
from tests.report.browser import assert_looks_right
from wassloss._sealed import sealed
from wassloss.report import build_report, render, write_report
from wassloss.report.content import mass_by_distance
from wassloss.report.page import draw_losses, draw_mass, draw_top_k, draw_validation
from wassloss.runs.fitting import fit
from wassloss.runs.settings import Settings
from wassloss.runs.trained import open_run
from wassloss.scores.differences import paired_difference

matplotlib = pytest.importorskip("matplotlib")


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[wl.runs.TrainedRun]:
    folder = tmp_path_factory.mktemp("runs")
    names = ("awful", "bad", "<b>fair</b>", "good & fine", "superb")
    wl.ground.Ordinal(5, labels=names).save(folder / "metric.npz")
    data = str(saved(tagged(names=names), folder / "data.npz"))
    common = {
        "data": data,
        "metric": str(folder / "metric.npz"),
        "steps": 60,
        "batch_size": 20,
        "evaluate_every": 20,
    }
    fit(Settings(loss="kl", **common), folder / "kl")
    fit(Settings(kl_weight=0.1, **common), folder / "w")
    return [open_run(folder / "kl"), open_run(folder / "w")]


def test_numbers_are_those_of_the_scores(runs: list[wl.runs.TrainedRun]) -> None:
    report = build_report(runs, examples=4, seed=1)
    test = tagged().part("test")
    for run, found in zip(runs, report.scores, strict=True):
        logits = run.logits(test.features)
        expected = wl.scores.top_k_cost(logits, test.target, METRIC, k=range(1, 6))
        assert found.curve.mean(0) == pytest.approx(expected.numpy(), abs=1e-6)
    page = render(report)
    for found in report.scores:
        assert f"{found.mean('auc'):.4f}" in page
    first, second = (found.values["top1_cost"] for found in report.scores)
    assert report.differences["top1_cost"] == paired_difference(second - first)


def test_examples_are_drawn_and_their_guesses_right(runs: list[wl.runs.TrainedRun]) -> None:
    report = build_report(runs, examples=5, seed=3)
    again = build_report(runs, examples=5, seed=3)
    other = build_report(runs, examples=5, seed=4)
    rows = [example.row for example in report.examples]
    assert rows == [example.row for example in again.examples]
    assert rows != [example.row for example in other.examples]
    test = tagged().part("test")
    for example in report.examples:
        used = test.target.weights[example.row] > 0
        true = test.target.indices[example.row][used]
        assert example.truth == [runs[0].label(i) for i in true.tolist()]
        for run, guesses in zip(runs, example.guesses, strict=True):
            p = run.model.predict_proba(test.features[[example.row]])[0]
            best = int(p.argmax())
            assert guesses[0].label == run.label(best)
            assert guesses[0].probability == pytest.approx(float(p[best]), rel=1e-5)
            assert guesses[0].distance == min(abs(best - int(i)) for i in true)


def test_mass_by_distance_against_a_loop(runs: list[wl.runs.TrainedRun]) -> None:
    test = tagged().part("test")
    found = mass_by_distance(runs, [(test.features, test.target)], runs[0].metric)
    assert found.ticks == ["0", "1", "2", "3", "4"]
    for run, shares in zip(runs, found.shares, strict=True):
        expected = np.zeros(5)
        for x, labels, masses in zip(
            test.features, test.target.indices, test.target.weights, strict=True
        ):
            true = labels[masses > 0].tolist()
            for i, p in enumerate(run.model.predict_proba(x[None])[0].tolist()):
                expected[min(abs(i - j) for j in true)] += p / len(test)
        assert shares == pytest.approx(expected, abs=1e-6)
    assert found.even.sum() == pytest.approx(1.0)


def test_mass_falls_into_bins_where_distances_are_many() -> None:
    data = wl.data.clipart().part("test").take(slice(0, 20))
    assert data.metric is not None

    class Sure:
        """All mass on one label."""

        def __init__(self, label: int) -> None:
            self.label = label

        def logits(self, features: torch.Tensor) -> torch.Tensor:
            out = torch.full((len(features), 206), -100.0)
            out[:, self.label] = 100.0
            return out

    found = mass_by_distance([Sure(3)], [(data.features, data.target)], data.metric)  # type: ignore[list-item]
    near = data.metric.distance_columns(3)
    distances = [
        float(near[labels[masses > 0]].min())
        for labels, masses in zip(data.target.indices, data.target.weights, strict=True)
    ]
    positive = data.metric.distance()[data.metric.distance() > 1e-6]
    edges = np.linspace(float(positive.min()), float(positive.max()), 11)
    counts, _ = np.histogram([d for d in distances if d > 0], edges)
    expected = np.array([sum(d == 0 for d in distances), *counts]) / 20
    assert found.shares[0] == pytest.approx(expected)


def test_costs_of_true_labels_have_no_bar_of_their_own() -> None:
    cost = 1 + np.random.default_rng(0).random((6, 6))
    ids = torch.tensor([0, 3, 5])

    class Even:
        def logits(self, features: torch.Tensor) -> torch.Tensor:
            return torch.zeros(len(features), 6)

    found = mass_by_distance([Even()], [(torch.zeros(3, 1), ids)], wl.ground.Cost(cost))  # type: ignore[list-item]
    edges = np.linspace(cost.min(), cost.max(), 11)
    counts, _ = np.histogram(cost[:, ids], edges)
    assert found.shares[0] == pytest.approx(counts / 18)
    assert "true label" not in found.ticks


def test_figures_draw_what_the_report_says(runs: list[wl.runs.TrainedRun]) -> None:
    from matplotlib.figure import Figure

    report = build_report(runs)
    figure = Figure()
    draw_top_k(report, figure)
    for line, found in zip(figure.axes[0].lines, report.scores, strict=True):
        assert list(line.get_ydata()) == list(found.curve.mean(0))
    draw_mass(report, figure := Figure())
    heights = [bar.get_height() for bar in figure.axes[0].patches]
    assert heights == pytest.approx(100 * report.mass.shares.reshape(-1))
    draw_losses(report, figure := Figure())
    for axes, run in zip(figure.axes, runs, strict=True):
        assert list(axes.lines[0].get_xdata()) == [record.step for record in run.log()]
        assert list(axes.lines[0].get_ydata()) == [record.loss for record in run.log()]
    draw_validation(report, figure := Figure())
    scores = [record.score for record in runs[1].log() if record.score is not None]
    assert list(figure.axes[0].lines[1].get_ydata()) == scores
    assert figure.axes[0].get_ylabel() == "validation top1_cost"


def test_notes_say_what_to_keep_in_mind(runs: list[wl.runs.TrainedRun]) -> None:
    first, second = runs
    assert 'class="note"' not in render(build_report(runs))
    stopped = dataclasses.replace(first, finished=False)
    assert "kl was stopped before its end" in render(build_report([stopped, second]))
    metric = wl.ground.Discrete(5, labels=second.metric.labels)
    model = copy.copy(second.model)
    model.metric_ = metric
    other = dataclasses.replace(second, model=model)
    page = render(build_report([first, other]))
    assert "under different ground metrics; distances here are those of kl" in page


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


def test_the_page_is_whole_and_stands_alone(runs: list[wl.runs.TrainedRun]) -> None:
    page = render(build_report(runs))
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


def test_one_run_and_three(runs: list[wl.runs.TrainedRun], tmp_path: Path) -> None:
    alone = render(build_report(runs[:1]))
    assert "difference" not in alone
    third = tmp_path / "third"
    shutil.copytree(runs[1].path, third)
    three = render(build_report([*runs, open_run(third)]))
    assert three.count('class="dot"') >= 9
    with pytest.raises(ValueError, match="runs must differ"):
        build_report([runs[0], runs[0]])


def test_runs_that_do_not_compare(runs: list[wl.runs.TrainedRun], tmp_path: Path) -> None:
    METRIC.save(tmp_path / "metric.npz")
    other = saved(tagged(), tmp_path / "data.npz")
    run = tmp_path / "run"
    ok("train", other, "--metric", tmp_path / "metric.npz", "--steps", 5, "--out", run)
    assert "must have the same labels" in failed("report", runs[0].path, run)
    third = tmp_path / "third"
    shutil.copytree(run, third)
    config = (third / "config.json").read_text().replace("data.npz", "other.npz")
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
    data = saved(tagged(parts=False), tmp_path / "data.npz")
    for seed in (0, 1):
        ok(
            *("train", data, "--metric", tmp_path / "metric.npz", "--steps", 5),
            *("--validation", 0.2, "--seed", seed, "--out", tmp_path / f"run{seed}"),
        )
    said = failed("report", tmp_path / "run0", tmp_path / "run1")
    assert "must hold out the same examples" in said


def test_in_a_browser(runs: list[wl.runs.TrainedRun], tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    write_report(build_report(runs), page)
    assert_looks_right(page)


def test_the_answer_comes_first(runs: list[wl.runs.TrainedRun]) -> None:
    report = build_report(runs)
    page = render(report)
    assert page.index(str(escape(report.answer))) < page.index("<table")
    gap = report.differences["top1_cost"]
    said = {"better": "Milder mistakes", "worse": "Graver mistakes", "unclear": "No clear gain"}
    assert report.answer.startswith(said[gap.verdict(more_is_better=False)])
    for found in report.scores:
        assert f"{found.mean('top1_cost'):.3g} with" in report.answer
    assert build_report(runs[:1]).answer.startswith("The first guess is on average")
