"""Cut-offs on a line: the best of all, equal to the scores of that name, bad input."""

import itertools
import math
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

import wassloss as wl
from wassloss.decisions import Cutoffs, least_cost_label

K = 4
LINE = wl.ground.Ordinal(K)
SCORES = {
    "quadratic_weighted_kappa": wl.scores.quadratic_weighted_kappa,
    "mean_absolute_error": lambda *args, **keywords: (
        -wl.scores.mean_absolute_error(*args, **keywords)
    ),
}
every_score = pytest.mark.parametrize("score", SCORES)


def draw(rows: int, seed: int = 0) -> tuple[NDArray[Any], NDArray[Any]]:
    rng = np.random.default_rng(seed)
    y = rng.choice(K, rows, p=[0.5, 0.25, 0.15, 0.1])
    p = rng.dirichlet([3, 1, 1, 1], rows) + 0.3 * np.eye(K)[y]  # unsure, and too low
    return p / p.sum(1, keepdims=True), y


@every_score
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("seed", range(6))
def test_no_cutoffs_are_better(score: str, weighted: bool, seed: int) -> None:
    p, y = draw(9, seed)
    p[3] = p[5]  # rows at one place have one answer
    y[:2] = [0, 2]
    weight = np.random.default_rng(seed).random(9) if weighted else None
    places = np.sort(np.unique(p @ np.arange(K)))
    middles = [-1.0, *(places[1:] + places[:-1]) / 2, 9.0]
    best = -math.inf
    for cuts in itertools.combinations_with_replacement(middles, K - 1):
        answers = np.searchsorted(cuts, p @ np.arange(K), side="right")
        value = SCORES[score](np.eye(K)[answers], y, sample_weight=weight)
        best = max(best, -math.inf if math.isnan(value) else value)
    found = Cutoffs(LINE, score).fit(p, y, weight)
    value = SCORES[score](np.eye(K)[found(p)], y, sample_weight=weight)
    assert value == pytest.approx(best, abs=1e-9)
    assert abs(found.score_) == pytest.approx(abs(best), abs=1e-9)
    assert (found.cutoffs[1:] >= found.cutoffs[:-1]).all()


@every_score
def test_they_help_on_new_rows(score: str) -> None:
    rng = np.random.default_rng(0)
    place = rng.normal(1.5, 1.2, 6000)
    y = (place + 0.3 * rng.normal(size=6000)).round().clip(0, K - 1).astype(int)
    shrunk = 0.4 * place[:, None] + 0.9  # a model that hardly leaves the middle
    p = np.exp(-((np.arange(K) - shrunk) ** 2))
    p /= p.sum(1, keepdims=True)
    p, new, y, truth = p[:1000], p[1000:], y[:1000], y[1000:]
    tuned = Cutoffs(LINE, score).fit(p, y)(new)
    plain = least_cost_label(new, LINE)
    ours, theirs = (SCORES[score](np.eye(K)[each], truth) for each in (tuned, plain))
    assert ours > theirs + 0.02


def test_lines_whose_labels_are_in_another_order() -> None:
    p, y = draw(300)
    order = np.array([2, 0, 3, 1])  # the label at each step
    line = wl.ground.Ordinal(np.array([1.0, 3.0, 0.0, 2.0]))
    shuffled = np.empty_like(p)
    shuffled[:, order] = p
    found = Cutoffs(line).fit(torch.from_numpy(shuffled), order[y])
    expected = Cutoffs(LINE).fit(p, y)
    assert torch.is_tensor(found(torch.from_numpy(shuffled)))
    np.testing.assert_array_equal(found(shuffled), order[expected(p)])


def test_frames_and_names() -> None:
    pd = pytest.importorskip("pandas")
    p, y = draw(200)
    names = ["poor", "fair", "good", "great"]
    line = wl.ground.Ordinal(labels=names)
    frame = pd.DataFrame(p, columns=names, index=range(9, 209))[sorted(names)]
    found = Cutoffs(line).fit(frame, np.array(names)[y])
    assert found(frame).index.equals(frame.index)
    np.testing.assert_array_equal(found(frame), Cutoffs(LINE).fit(p, y)(p))
    assert repr(found) == f"Cutoffs(Ordinal(4), 'quadratic_weighted_kappa'): {found.score_:.4g}"
    assert repr(Cutoffs(line)).endswith("not fitted")


def test_bad_input_is_named() -> None:
    p, y = draw(20)
    with pytest.raises(TypeError, match="metric must be an Ordinal"):
        Cutoffs(wl.ground.Discrete(K))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="score must be 'quadratic_weighted_kappa' or"):
        Cutoffs(LINE, "accuracy")
    with pytest.raises(ValueError, match="must be fitted first"):
        Cutoffs(LINE)(p)
    with pytest.raises(ValueError, match="two labels or more for a kappa"):
        Cutoffs(LINE).fit(p, np.zeros(20, dtype=int))
    with pytest.raises(ValueError, match="a row with positive weight"):
        Cutoffs(LINE).fit(p, y, np.zeros(20))
    with pytest.raises(ValueError, match="must sum to 1"):
        Cutoffs(LINE).fit(p / 2, y)
