"""The page: the conclusion first, and pictures that match the data."""

import dataclasses
import re
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

import wassloss as wl
from tests.app.report.browser import assert_looks_right, measured
from tests.app.report.reports import report
from wassloss.app.report.figures import (
    draw_confusion,
    draw_distances,
    draw_frontier,
    neighbour_order,
)
from wassloss.app.report.page import most_mended, render, write_report

matplotlib = pytest.importorskip("matplotlib")
pytest.importorskip("jinja2")
from matplotlib.figure import Figure  # noqa: E402


def test_bars_are_the_shares_of_distances() -> None:
    found = report()
    draw_distances(found, axes := Figure().subplots())
    bars = axes.patches
    expected = [
        100 * np.mean(model.distance == value) for model in found.models for value in (1, 2, 3, 4)
    ]
    assert [bar.get_height() for bar in bars] == pytest.approx(expected)


def test_the_frontier_has_a_mark_for_each_point() -> None:
    found = report()
    draw_frontier(found, axes := Figure().subplots())
    marks = [line for line in axes.lines if not line.get_label().startswith("_")]
    shown = {(line.get_label(), line.get_xdata()[0], line.get_ydata()[0]) for line in marks}
    assert shown == {
        (f"{c.loss}, {c.decision}", 100 * c.accuracy.mean(), c.distance.mean())
        for c in found.candidates
    }


def test_the_frontier_has_the_intervals_of_changes() -> None:
    found = report()
    draw_frontier(found, axes := Figure().subplots())
    shown = sorted(each.get_segments()[0][:, 1].tolist() for each in axes.collections)
    start = found.candidates[0].distance.mean()
    assert shown == [[start - 0.3, start - 0.1]] * 4


def test_labels_that_are_never_answered_are_named() -> None:
    found = report()
    assert "never predicts" not in render(found)
    first = dataclasses.replace(found.models[0], guess=found.models[0].guess % 2)
    page = render(dataclasses.replace(found, models=[first, found.models[1]]))
    assert "cross-entropy, probable label never predicts label 2, label 3." in page
    assert page.count("never predicts") == 1


def test_neighbours_are_next_to_each_other() -> None:
    assert neighbour_order(wl.ground.Ordinal([0.0, 2.0, 1.0, 4.0])).tolist() == [0, 2, 1, 3]
    families = [("animal", "cat"), ("plant", "rose"), ("animal", "dog"), ("plant", "oak")]
    order = neighbour_order(wl.ground.Tree.from_paths(families)).tolist()
    assert {frozenset(order[:2]), frozenset(order[2:])} == {frozenset({0, 2}), frozenset({1, 3})}
    line = np.array([3.0, 0.0, 5.0, 1.0, 4.0])
    order = neighbour_order(wl.ground.Matrix(np.abs(line[:, None] - line))).tolist()
    assert order in ([1, 3, 0, 4, 2], [2, 4, 0, 3, 1])
    cost = np.array([[0.0, 1.0, 9.0], [2.0, 0.0, 9.0], [9.0, 9.0, 0.0]])
    assert neighbour_order(wl.ground.Cost(cost)).tolist() in ([2, 0, 1], [0, 1, 2], [2, 1, 0])
    assert neighbour_order(wl.ground.Discrete(1)).tolist() == [0]


def test_cells_are_as_dark_as_labels_are_confused() -> None:
    found = report()
    groups = list(neighbour_order(found.metric)[:, None])
    draw_confusion(found, groups, 1, axes := Figure().subplots())
    cells = axes.images[0].get_array()
    place = np.argsort(np.concatenate(groups))  # each group is one label
    counts = np.zeros((4, 4))
    np.add.at(counts, (place[found.truth], place[found.models[1].guess]), 1)
    assert np.asarray(cells)[..., 3] ** 2 == pytest.approx(counts / counts.sum(1, keepdims=True))
    names = [text.get_text() for text in axes.get_yticklabels()]
    assert names == ["label 0", "label 2", "label 1", "label 3"]  # by position
    many = report(wl.ground.Ordinal(100))
    draw_confusion(many, list(np.arange(100).reshape(20, 5)), 0, axes := Figure().subplots())
    assert axes.images[0].get_array().shape == (20, 20, 4)


def test_what_is_mended_most() -> None:
    before, after = np.array([5.0, 4, 4, 3, 2, 2, 1]), np.array([6.0, 0, 2, 0, 0, 1, 0])
    assert most_mended(before, after).tolist() == [1, 3, 2, 4, 5]
    assert most_mended(after, before).tolist() == [0]


def test_the_answer_comes_first_and_text_is_text(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    write_report(report(), page)
    text = page.read_text()
    order = [
        text.index(f'<section id="{name}">') for name in re.findall(r'<section id="(\w+)">', text)
    ]
    assert re.findall(r'<section id="(\w+)">', text) == [
        *("distances", "frontier", "mended", "made", "confusion", "scores", "notes")
    ]
    assert text.index("Milder mistakes: by half.") < order[0]
    assert "<b>bold" not in text
    assert "&lt;b&gt;bold" in text
    assert "http" not in re.sub(r'xmlns[:\w]*="[^"]*"', "", text)


ODD = [
    r"$\frac$",
    "$x^2$",
    "_hidden",
    "<b>&amp;",
    "犬",
    "שלום",
    "",
    "%s {0}",
    "a\nb",
    "\\",
    "🙂",
    "\x07",
]


@pytest.mark.parametrize("where", ["labels", "names"])
def test_names_are_drawn_as_they_are(where: str) -> None:
    """No name is interpreted as a formula, dropped, or warned about."""
    found = report(wl.ground.Ordinal(len(ODD)))
    for odd in [""] if where == "labels" else ODD[:-1]:
        if where == "labels":
            changed = dataclasses.replace(found, labels=ODD)
        else:
            names = [odd, f"{odd}2"]
            both = [
                dataclasses.replace(c, loss=n) for c, n in zip(found.models, names, strict=True)
            ]
            changed = dataclasses.replace(found, names=names, candidates=both)
        figures = re.findall(r"<svg .*?</svg>", render(changed), re.DOTALL)
        texts = [
            [
                "".join(each.itertext())
                for each in ElementTree.fromstring(figure).iter()
                if each.tag.endswith("text")
            ]
            for figure in figures
        ]
        shown = [" ".join(" ".join(own).split()) for own in texts]
        for name in ODD[:6] if where == "labels" else names:
            assert all(
                " ".join(name.split()) in own for own in shown[2 if where == "labels" else 0 :][:2]
            )


def test_the_users_own_style_of_figures_changes_nothing() -> None:
    expected, before = render(report()), dict(matplotlib.rcParams)
    with matplotlib.rc_context({"text.usetex": True, "text.parse_math": True}):
        assert render(report()) == expected
    assert dict(matplotlib.rcParams) == before


def test_several_true_labels_have_no_confusion_matrix() -> None:
    assert '<section id="confusion">' not in render(report(one_label=False))


def test_one_model_has_its_worst_mistakes() -> None:
    found = report()
    worst = dataclasses.replace(found.mended[0], guesses=("bad",))
    page = render(
        dataclasses.replace(found, models=found.models[:1], names=["w"], mended=[worst], made=())
    )
    assert '<section id="worst">' in page
    assert '<section id="made">' not in page


@pytest.mark.parametrize("labels", [4, 100])
def test_in_a_browser(labels: int, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    write_report(report(wl.ground.Ordinal(labels)), page)
    assert_looks_right(page)


def test_a_browser_tells_what_is_broken(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    narrow = '<p style="width:4rem; overflow-wrap:anywhere">incomprehensibilities</p>'
    page.write_text(f'<!doctype html><body>{narrow}<p style="width:900px">wide</p></body>')
    found = measured(page)
    assert [each["broken"] for each in found] == [["incomprehensibilities"]] * 3
    assert [each["overflow"] > 0 for each in found] == [True, True, False]


def test_many_distances_that_are_all_large() -> None:
    """Random vectors are about equally far apart, so the smallest distance is not near 0."""
    vectors = np.random.default_rng(0).normal(size=(8, 50))
    page = report(wl.ground.Embedding(vectors))
    draw_distances(page, axes := Figure().subplots())
    heights = [bar.get_height() for bar in axes.patches]
    wrong = [np.mean(model.distance > 0) for model in page.models]
    assert sum(heights) == pytest.approx(100 * sum(wrong))
