"""Every score, its accumulator and its scorer, compared with another implementation."""

import inspect
import math
from typing import Any

import numpy as np
import pytest
import torch
from sklearn import metrics

import wassloss as wl
from tests.scores.cases import Array
from tests.scores.oracles import AT_TWO, LARGER_IS_BETTER, OF_DISTRIBUTIONS, ORACLES
from wassloss import scores
from wassloss.estimators import make_scorer

OTHERS = {"paired_difference"}  # not scores
SEEDS = range(2)
CORNERS = ("absent", "ties", "one", "right", "wrong", "first label only", "two labels", "no weight")
every_score = pytest.mark.parametrize("name", sorted(set(scores.__all__) - OTHERS))


def test_every_score_has_an_oracle() -> None:
    assert set(scores.__all__) - OTHERS == ORACLES.keys()


def simplex(x: Array) -> Array:
    return x / x.sum(1, keepdims=True)


def case(seed: int | str) -> tuple[Array, Array, Array]:
    """Predictions, class ids and weights: random for a number, or a named corner case."""
    rng = np.random.default_rng(seed if isinstance(seed, int) else 7)
    n, labels = int(rng.integers(20, 60)), 2 if seed == "two labels" else int(rng.integers(3, 9))
    h, ids, weight = rng.random((n, labels)) ** 2, rng.integers(labels, size=n), rng.random(n)
    if seed == "absent":
        ids[ids == 1] = labels - 1
    if seed == "ties":
        h = h.round(1) + 0.1
        h[:3] = 0.5
    if seed == "one":
        h, ids, weight = h[:1], ids[:1], weight[:1]
    if seed == "right":
        h = np.eye(labels)[ids] + 0.01
    if seed == "wrong":
        h = np.eye(labels)[(ids + 1) % labels] + 0.01
    if seed == "first label only":
        h, ids = np.tile(np.eye(labels)[0] + 0.01, (n, 1)), np.zeros(n, dtype=int)
    if seed == "no weight":
        weight[::2] = 0
    return simplex(h), ids, weight


def arguments(name: str, labels: int) -> dict[str, Any]:
    own = inspect.signature(getattr(scores, name)).parameters
    if name == "hierarchical_fbeta":  # two branches, of even and of odd labels
        nodes = range(3, 3 + labels)
        return {"metric": wl.ground.Tree([-1, 0, 0, *(1 + i % 2 for i in nodes)], nodes=nodes)}
    return {"metric": wl.ground.Ordinal(labels)} if "metric" in own else {}


@pytest.mark.parametrize(
    ("name", "seed"),
    [
        (name, seed)
        for name in sorted(ORACLES)
        for seed in [*SEEDS, *CORNERS]
        # Confidences on the edges of bins, subject to rounding.
        if (name, seed) != ("expected_calibration_error", "ties")
    ],
)
def test_class_ids(name: str, seed: int | str) -> None:
    h, ids, weight = case(seed)
    labels = h.shape[1]
    score, y = getattr(scores, name), np.eye(labels)[ids]
    for w in (None, weight):
        expected = ORACLES[name](h, y, np.ones(len(h)) if w is None else w)
        found = score(h, ids, **arguments(name, labels), sample_weight=w)
        assert found == pytest.approx(expected, rel=1e-9, abs=1e-12, nan_ok=True)
    if name in AT_TWO:
        found = score(h, ids, **arguments(name, labels), k=2, sample_weight=weight)
        assert found == pytest.approx(AT_TWO[name](h, y, weight))


@pytest.mark.parametrize("name", OF_DISTRIBUTIONS)
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("zeros", [False, True])
def test_distributions(name: str, seed: int, zeros: bool) -> None:
    h, _, weight = case(seed)
    y = np.random.default_rng(seed + 100).random(h.shape)
    if zeros:  # labels without mass in the target, or on both sides
        y[:, 1] = y[:, 2] = h[:, 2] = 0
    h, y = simplex(h), simplex(y)
    found = getattr(scores, name)(h, y, **arguments(name, h.shape[1]), sample_weight=weight)
    assert found == pytest.approx(OF_DISTRIBUTIONS[name](h, y, weight), rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("seed", SEEDS)
def test_those_of_scikit_learn(seed: int) -> None:
    h, ids, w = case(seed)
    labels = range(h.shape[1])
    guess = h.argmax(1)
    expected = {
        "accuracy": metrics.accuracy_score(ids, guess, sample_weight=w),
        "mean_absolute_error": metrics.mean_absolute_error(ids, guess, sample_weight=w),
        "negative_log_likelihood": metrics.log_loss(ids, h, labels=labels, sample_weight=w),
    }
    if "labels" in inspect.signature(metrics.brier_score_loss).parameters:  # since 1.7
        expected["brier_score"] = metrics.brier_score_loss(
            ids, h, labels=labels, sample_weight=w, scale_by_half=False
        )
    for name, value in expected.items():
        assert getattr(scores, name)(h, ids, sample_weight=w) == pytest.approx(value)
    for k in (1, 2):
        value = metrics.top_k_accuracy_score(ids, h, k=k, labels=labels, sample_weight=w)
        assert scores.recall_at_k(h, ids, k=k, sample_weight=w) == pytest.approx(value)


@every_score
@pytest.mark.parametrize("seed", [0, 1, "one"])
def test_accumulators(name: str, seed: int | str) -> None:
    accumulators = pytest.importorskip("wassloss.scores.accumulators", reason="needs torchmetrics")
    h, ids, weight = case(seed)
    labels = h.shape[1]
    whole = accumulators.Accumulator(getattr(scores, name), **arguments(name, labels))
    for rows in np.array_split(np.arange(len(h)), min(3, len(h))):
        whole.update(*(torch.from_numpy(each[rows]) for each in (h, ids, weight)))
    expected = ORACLES[name](h, np.eye(labels)[ids], weight)
    assert float(whole.compute()) == pytest.approx(expected, rel=1e-9, abs=1e-12, nan_ok=True)


class Fixed:
    """An estimator that always predicts `h`."""

    def __init__(self, h: Array) -> None:
        self.h, self.classes_ = h, np.arange(h.shape[1])

    def predict(self, X: Array) -> Array:
        return self.h.argmax(1)

    def predict_proba(self, X: Array) -> Array:
        return self.h


@every_score
@pytest.mark.parametrize("seed", [0, 1, "right"])
def test_scorers(name: str, seed: int | str) -> None:
    h, ids, weight = case(seed)
    labels = h.shape[1]
    scorer = make_scorer(getattr(scores, name), **arguments(name, labels))
    found = scorer(Fixed(h), np.zeros((len(h), 1)), ids, sample_weight=weight)
    expected = ORACLES[name](h, np.eye(labels)[ids], weight)
    expected = 0.0 if math.isnan(expected) else expected  # the severity of no mistakes
    sign = 1 if name in LARGER_IS_BETTER else -1
    assert found == pytest.approx(sign * expected, rel=1e-9, abs=1e-12)
