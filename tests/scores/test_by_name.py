"""Scores known by name, compared with other implementations."""

import math
import warnings
from typing import Any

import numpy as np
import pytest
import torch
from scipy.spatial import distance as scipy_distance
from scipy.stats import entropy
from sklearn import metrics

import wassloss as wl
from tests.scores.cases import Array
from wassloss import scores

K = 5
CASES = ("many", "absent", "ties", "one", "right", "first label only")


def labels_case(name: str) -> tuple[Array, Array, Array]:
    """Scores, class ids and weights: typical, a class that never occurs, ties, one example, …"""
    rng = np.random.default_rng(5)
    x, ids, weight = rng.random((40, K)), rng.integers(K, size=40), rng.random(40)
    if name == "absent":
        ids[ids == 2] = 4
    if name == "ties":
        x = x.round(1)
        x[:3] = 0.5
    if name == "one":
        x, ids, weight = x[:1], ids[:1], weight[:1]
    if name == "right":
        x = np.eye(K)[ids]
    if name == "first label only":
        x, ids = np.tile([1.0, 0, 0, 0, 0], (40, 1)), np.zeros(40, dtype=int)
    return x, ids, weight


@pytest.mark.parametrize("case", CASES)
def test_ordinal_scores_are_those_of_scikit_learn(case: str) -> None:
    x, ids, weight = labels_case(case)
    guess = x.argmax(1)
    for w in (None, weight):
        expected = metrics.mean_absolute_error(ids, guess, sample_weight=w)
        assert scores.mean_absolute_error(x, ids, sample_weight=w) == pytest.approx(expected)
        by_class = [
            metrics.mean_absolute_error(
                ids[ids == c], guess[ids == c], sample_weight=None if w is None else w[ids == c]
            )
            for c in np.unique(ids)
        ]
        assert scores.average_mae(x, ids, sample_weight=w) == pytest.approx(np.mean(by_class))
        assert scores.maximum_mae(x, ids, sample_weight=w) == pytest.approx(max(by_class))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about an undefined kappa
            kappa = metrics.cohen_kappa_score(
                ids, guess, weights="quadratic", sample_weight=w, labels=range(K)
            )
        found = scores.quadratic_weighted_kappa(x, ids, sample_weight=w)
        assert found == pytest.approx(kappa, nan_ok=True)


@pytest.mark.parametrize("case", CASES)
def test_ordinal_scores_are_those_of_skordinal(case: str) -> None:
    oracle = pytest.importorskip("skordinal.metrics")
    x, ids, weight = labels_case(case)
    p = x / x.sum(1, keepdims=True)
    known: dict[str, Any] = {"labels": np.arange(K), "sample_weight": weight}
    guess = x.argmax(1)
    assert scores.average_mae(x, ids, sample_weight=weight) == pytest.approx(
        oracle.average_mean_absolute_error(ids, guess, **known)
    )
    assert scores.maximum_mae(x, ids, sample_weight=weight) == pytest.approx(
        oracle.maximum_mean_absolute_error(ids, guess, **known)
    )
    assert scores.off_by_one_accuracy(x, ids, sample_weight=weight) == pytest.approx(
        oracle.accuracy_off1_score(ids, guess, **known)
    )
    assert scores.ranked_probability_score(p, ids, sample_weight=weight) == pytest.approx(
        oracle.ranked_probability_score(ids, p, **known)
    )


def distributions(zeros: bool) -> tuple[Array, Array]:
    rng = np.random.default_rng(6)
    h, y = rng.random((2, 7, K))
    if zeros:  # labels without mass on one side, or on both
        y[:, 1] = h[:, 2] = y[:, 2] = 0
    return h / h.sum(1, keepdims=True), y / y.sum(1, keepdims=True)


@pytest.mark.parametrize("zeros", [False, True])
def test_distributions_are_compared_as_scipy_does(zeros: bool) -> None:
    h, y = distributions(zeros)
    rows = list(zip(h, y, strict=True))
    clipped = [(np.clip(a, 2e-16, 1), np.clip(b, 2e-16, 1)) for a, b in rows]  # as in PyLDL
    expected = {
        "chebyshev": [scipy_distance.chebyshev(a, b) for a, b in rows],
        "clark": [np.sqrt((((a - b) / (a + b)) ** 2).sum()) for a, b in clipped],
        "canberra": [scipy_distance.canberra(a, b) for a, b in rows],
        "kl_divergence": [entropy(b, a) for a, b in rows],
        "cosine": [1 - scipy_distance.cosine(a, b) for a, b in rows],
        "intersection": [1 - 0.5 * np.abs(a - b).sum() for a, b in rows],
        "brier_score": [scipy_distance.sqeuclidean(a, b) for a, b in rows],
        "negative_log_likelihood": [entropy(b, a) + entropy(b) for a, b in rows],
        "ranked_probability_score": [np.square(np.cumsum(a) - np.cumsum(b)).sum() for a, b in rows],
    }
    for name, values in expected.items():
        found = getattr(scores, name)(h, y, reduction="none")
        np.testing.assert_allclose(found, values, rtol=1e-9, atol=1e-12, err_msg=name)
        # Rows need not sum to 1.
        np.testing.assert_allclose(getattr(scores, name)(3 * h, 2 * y), found.mean(), err_msg=name)


def test_a_true_label_without_probability_is_infinitely_surprising() -> None:
    for score in (scores.kl_divergence, scores.negative_log_likelihood):
        assert score(np.array([[1.0, 0.0]]), [1]) == math.inf
        assert score(np.array([[1.0, 0.0]]), [0]) == 0


@pytest.mark.parametrize("case", ["many", "absent", "one"])
def test_calibration_is_that_of_scikit_learn_and_torchmetrics(case: str) -> None:
    functional = pytest.importorskip("torchmetrics.functional.classification")
    x, ids, weight = labels_case(case)
    p = x / x.sum(1, keepdims=True)
    nll = metrics.log_loss(ids, p, labels=range(K), sample_weight=weight)
    assert scores.negative_log_likelihood(p, ids, sample_weight=weight) == pytest.approx(nll)
    brier = np.average(((p - np.eye(K)[ids]) ** 2).sum(1), weights=weight)
    assert scores.brier_score(p, ids, sample_weight=weight) == pytest.approx(brier)
    for bins in (1, 4, 15):
        expected = functional.multiclass_calibration_error(
            torch.from_numpy(p), torch.from_numpy(ids), num_classes=K, n_bins=bins, norm="l1"
        )
        found = scores.expected_calibration_error(p, ids, bins=bins)
        assert found == pytest.approx(float(expected), abs=1e-6)


def test_certainty_and_the_edges_of_bins() -> None:
    certain = np.array([[1.0, 0.0]] * 4)
    assert scores.expected_calibration_error(certain, [0, 0, 0, 1]) == pytest.approx(0.25)
    # An edge belongs to the bin below: 0.5 and 0.4 + 1e-9 are both in (0.4, 0.5].
    p = np.array([[0.5, 0.25, 0.25], [0.4 + 1e-9, 0.3, 0.3 - 1e-9]])
    found = scores.expected_calibration_error(p, [0, 1], bins=10)
    assert found == pytest.approx(abs(0.5 + 0.4 - 1) / 2)


PATHS = [("a", "x", "1"), ("a", "x", "2"), ("a", "y", "3"), ("b", "z", "4")]
TREE = wl.ground.Tree.from_paths(PATHS, distance="lca_height")


def test_mistakes_in_a_taxonomy_by_hand() -> None:
    x = np.array([[4, 3, 2, 1], [1, 4, 3, 2], [4, 1, 2, 3], [1, 2, 3, 4.0]])
    ids = [0, 0, 3, 1]  # distances of first guesses 0, 1, 3, 3
    assert scores.distance_at_k(x, ids, TREE) == pytest.approx(7 / 4)
    assert scores.mistake_severity(x, ids, TREE) == pytest.approx(7 / 3)
    assert scores.distance_at_k(x[:1], [0], TREE, k=[2, 4]).tolist() == [0.5, 1.5]
    assert scores.mistake_severity(x, ids, TREE, sample_weight=[5, 1, 0, 1]) == pytest.approx(2)
    assert math.isnan(scores.mistake_severity(x[:1], [0], TREE))
    for k in (1, 3):
        same = scores.top_k_cost(x, ids, TREE, k=k)
        assert scores.distance_at_k(x, ids, TREE, k=k) == pytest.approx(same)
    with pytest.raises(ValueError, match="k must be at most the number of labels, 4, got 5"):
        scores.distance_at_k(x, ids, TREE, k=5)


def test_severity_and_accuracy_make_the_distance() -> None:
    x, ids, weight = labels_case("many")
    metric = wl.ground.Ordinal(K, power=2)
    severity = scores.mistake_severity(x, ids, metric, sample_weight=weight)
    wrong = 1 - scores.accuracy(x, ids, sample_weight=weight)
    whole = scores.distance_at_k(x, ids, metric, sample_weight=weight)
    assert severity * wrong == pytest.approx(whole)


def test_nothing_that_counts_and_autocast() -> None:
    x, y = torch.randn(3000, 5), torch.randint(5, (3000,))
    assert wl.scores.maximum_mae(x, y, sample_weight=torch.zeros(3000)).isnan()
    expected = wl.scores.quadratic_weighted_kappa(x, y)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        torch.testing.assert_close(wl.scores.quadratic_weighted_kappa(x, y), expected)
