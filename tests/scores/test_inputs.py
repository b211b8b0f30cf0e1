"""All scores take every form of input, weight examples equally, and name mistakes."""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from scipy import sparse

import wassloss as wl
from tests.scores.cases import METRIC, K, forms
from wassloss import decisions, scores
from wassloss.ground import Ordinal

RNG = np.random.default_rng(0)
X = RNG.random((4, K))
X = X / X.sum(1, keepdims=True)
TAGS = np.array([[1, 0, 0, 1, 0, 0], [0, 1, 0, 0, 0, 0], [0, 0, 1, 1, 0, 1], [0, 0, 0, 0, 1, 0.0]])
NAN, INF = math.nan, math.inf

SCORES: dict[str, Callable[..., Any]] = {
    "top_k_cost": lambda x, y, **kw: scores.top_k_cost(x, y, METRIC, k=2, **kw),
    "top_k_cost, several": lambda x, y, **kw: scores.top_k_cost(x, y, METRIC, k=[1, 3], **kw),
    "distance_at_k": lambda x, y, **kw: scores.distance_at_k(x, y, METRIC, **kw),
    "distance_at_k, several": lambda x, y, **kw: scores.distance_at_k(x, y, METRIC, [1, 3], **kw),
    "mean_wasserstein": lambda x, y, **kw: scores.mean_wasserstein(x, y, METRIC, **kw),
    "ranking_auc": lambda x, y, **kw: scores.ranking_auc(x, y, **kw),
    "accuracy": lambda x, y, **kw: scores.accuracy(x, y, **kw),
    "precision_at_k": lambda x, y, **kw: scores.precision_at_k(x, y, k=2, **kw),
    "recall_at_k": lambda x, y, **kw: scores.recall_at_k(x, y, k=[1, 3], **kw),
}
NAMES = """
    brier_score canberra chebyshev clark cosine intersection kl_divergence mean_absolute_error
    negative_log_likelihood off_by_one_accuracy ranked_probability_score
"""
SCORES |= {name: getattr(scores, name) for name in NAMES.split()}
every_score = pytest.mark.parametrize("score", SCORES.values(), ids=SCORES)


@every_score
@pytest.mark.parametrize("form", forms(TAGS))
def test_every_form_of_target(score: Callable[..., Any], form: str) -> None:
    np.testing.assert_allclose(score(X, forms(TAGS)[form]), score(X, TAGS))
    with_tensor = score(torch.from_numpy(X), forms(TAGS)[form])
    assert isinstance(with_tensor, torch.Tensor)
    np.testing.assert_allclose(with_tensor.numpy(), score(X, TAGS))


@every_score
def test_class_ids_are_one_hot(score: Callable[..., Any]) -> None:
    for ids in ([1, 0, 5, 2], np.array([1, 0, 5, 2], np.uint8), torch.tensor([1, 0, 5, 2])):
        np.testing.assert_allclose(score(X, ids), score(X, np.eye(K)[[1, 0, 5, 2]]))


@every_score
def test_arrays_of_any_kind(score: Callable[..., Any]) -> None:
    expected = score(X, TAGS)
    swapped = X.astype(X.dtype.newbyteorder())
    frozen = X.copy()
    frozen.flags.writeable = False
    for same in (X.tolist(), np.asfortranarray(X), swapped, frozen, X[::-1][::-1]):
        np.testing.assert_allclose(score(same, TAGS), expected)
    np.testing.assert_allclose(score(X.astype(np.float32), TAGS), expected, rtol=1e-5)
    np.testing.assert_allclose(score(X.astype(np.longdouble), TAGS), expected)


@every_score
def test_mean_and_each_example(score: Callable[..., Any]) -> None:
    each = score(X, TAGS, reduction="none")
    assert isinstance(each, np.ndarray)
    assert len(each) == len(X)
    np.testing.assert_allclose(score(X, TAGS), each.mean(0))
    weight = np.array([1, 0, 2, 0.5])
    expected = np.average(each, axis=0, weights=weight)
    for weights in (weight, weight.tolist(), torch.from_numpy(weight)):
        np.testing.assert_allclose(score(X, TAGS, sample_weight=weights), expected)
    # A weight of 2 is the same as repeating the example.
    twice, once = [0, 1, 2, 2, 3], [1, 1, 2, 1]
    np.testing.assert_allclose(score(X[twice], TAGS[twice]), score(X, TAGS, sample_weight=once))
    rows = np.array([score(X[i : i + 1], TAGS[i : i + 1]) for i in range(len(X))])
    np.testing.assert_allclose(rows, each)


@every_score
def test_numbers_are_floats_unless_tensors_came(score: Callable[..., Any]) -> None:
    value = score(X, TAGS)
    assert isinstance(value, float | np.ndarray)
    assert not isinstance(value, np.ndarray) or value.shape == (2,)
    x = torch.from_numpy(X).requires_grad_()
    answer = score(x, torch.from_numpy(TAGS))
    assert isinstance(answer, torch.Tensor)
    assert not answer.requires_grad


@every_score
def test_no_examples(score: Callable[..., Any]) -> None:
    x, ids = np.zeros((0, K)), np.zeros(0, dtype=int)
    assert len(score(x, ids, reduction="none")) == 0
    with pytest.raises(ValueError, match="0 examples"):
        score(x, ids)


@every_score
@pytest.mark.parametrize(
    ("x", "y", "keywords", "error", "message"),
    [
        (X[0], 1, {}, ValueError, r"must have shape \(batch, labels\), got \(6,\)"),
        (X[:, :0], [0] * 4, {}, ValueError, r"must have shape \(batch, labels\), got \(4, 0\)"),
        (np.where(X[2, 3] == X, NAN, X), TAGS, {}, ValueError, "not hold NaN, got .* example 2"),
        (X.astype(complex), TAGS, {}, TypeError, "must hold real numbers, got .*complex"),
        (torch.from_numpy(X).to_sparse(), TAGS, {}, TypeError, "must be dense real numbers"),
        ([[1.0, 2.0], [3.0]], [0, 0], {}, ValueError, "must be rectangular"),
        (X, TAGS[:3], {}, ValueError, r"target must be weights of shape \(4, 6\).* got \(3, 6\)"),
        (X, [0, 1, 2, 6], {}, ValueError, r"class ids in 0..5, got 6 for example 3"),
        (X, [0.0, 1.0, 2.0, 3.0], {}, ValueError, r"target must be weights of shape \(4, 6\)"),
        (X, -TAGS, {}, ValueError, "target must be non-negative"),
        (X, np.where(TAGS > 0, INF, 0), {}, ValueError, "target must be finite"),
        (X, ["a", "b", "c", "d"], {}, TypeError, "target must hold real numbers, got list"),
        (X, torch.tensor(TAGS).cfloat(), {}, TypeError, "target must hold real .* torch.complex64"),
        (X, None, {}, TypeError, "target must hold real numbers, got NoneType"),
        (X, sparse.csr_array(TAGS[:3]), {}, ValueError, r"sparse matrix of shape \(4, 6\)"),
        (X, TAGS, {"reduction": "sum"}, ValueError, "reduction must be 'mean' or 'none'"),
        (X, TAGS, {"sample_weight": [1, 1]}, ValueError, r"sample_weight must have shape \(4,\)"),
        (X, TAGS, {"sample_weight": [1, 1, -1, 1]}, ValueError, "sample_weight must be finite and"),
        (X, TAGS, {"sample_weight": [1, 1, NAN, 1]}, ValueError, "sample_weight must be finite"),
        (X, TAGS, {"sample_weight": [0, 0, 0, 0]}, ValueError, "positive weight"),
    ],
)
def test_bad_input(
    score: Callable[..., Any], x: Any, y: Any, keywords: Any, error: type, message: str
) -> None:
    with pytest.raises(error, match=message):
        score(x, y, **keywords)


@every_score
def test_an_example_without_a_true_label(score: Callable[..., Any]) -> None:
    y = TAGS.copy()
    y[1] = 0
    if score is SCORES["ranking_auc"]:
        kept = [0, 2, 3]
        assert score(X, y) == pytest.approx(score(X[kept], y[kept]))
        return
    with pytest.raises(ValueError, match=r"target must have some mass .* example 1"):
        score(X, y)


POOLED: dict[str, Callable[..., Any]] = {
    "average_mae": scores.average_mae,
    "expected_calibration_error": scores.expected_calibration_error,
    "maximum_mae": scores.maximum_mae,
    "mistake_severity": lambda x, y, **kw: scores.mistake_severity(x, y, METRIC, **kw),
    "quadratic_weighted_kappa": scores.quadratic_weighted_kappa,
}


@pytest.mark.parametrize("score", POOLED.values(), ids=POOLED)
def test_scores_that_are_no_mean(score: Callable[..., Any]) -> None:
    ids = [1, 0, 5, 2]
    expected = score(X, ids)
    assert isinstance(expected, float)
    for form in forms(np.eye(K)[ids]).values():
        assert score(X, form) == pytest.approx(expected)
    answer = score(torch.from_numpy(X).requires_grad_(), ids)
    assert isinstance(answer, torch.Tensor)
    assert not answer.requires_grad
    # A weight of 2 is the same as repeating the example, and a weight of 0 as dropping it.
    twice, weight = [0, 2, 2, 3], [1, 0, 2, 1]
    repeated = score(X[twice], np.array(ids)[twice])
    assert score(X, ids, sample_weight=weight) == pytest.approx(repeated)
    with pytest.raises(ValueError, match="0 examples"):
        score(np.zeros((0, K)), np.zeros(0, dtype=int))
    with pytest.raises(ValueError, match=r"class ids in 0..5, got 6"):
        score(X, [0, 1, 2, 6])
    with pytest.raises(ValueError, match=r"sample_weight must have shape \(4,\)"):
        score(X, ids, sample_weight=[1, 1])
    with pytest.raises(ValueError, match=r"target must have some mass .* example 1"):
        score(X, TAGS * [[1], [0], [1], [1]])


K_SCORES: dict[str, Callable[[Any], object]] = {
    "top_k_cost": lambda k: scores.top_k_cost(X, TAGS, METRIC, k=k),
    "distance_at_k": lambda k: scores.distance_at_k(X, TAGS, METRIC, k=k),
    "precision_at_k": lambda k: scores.precision_at_k(X, TAGS, k=k),
    "recall_at_k": lambda k: scores.recall_at_k(X, TAGS, k=k),
}


@pytest.mark.parametrize("score", K_SCORES.values(), ids=K_SCORES)
@pytest.mark.parametrize(
    ("k", "error", "message"),
    [
        (0, ValueError, "k must be at least 1, got 0"),
        (K + 1, ValueError, "k must be at most the number of labels, 6, got 7"),
        ([1, 7], ValueError, "k must be at most the number of labels, 6, got 7"),
        ([], ValueError, "k must hold at least one"),
        (2.0, TypeError, "k must be an integer, got 2.0"),
        (True, TypeError, "k must be an integer, got True"),
        ([1, "a"], TypeError, "k must be an integer, got 'a'"),
        (None, TypeError, "k must be an integer, got None"),
    ],
)
def test_bad_k(score: Callable[[Any], object], k: Any, error: type, message: str) -> None:
    with pytest.raises(error, match=message):
        score(k)


def test_k_of_any_integer_kind() -> None:
    expected = scores.top_k_cost(X, TAGS, METRIC, k=2)
    assert scores.top_k_cost(X, TAGS, METRIC, k=np.int64(2)) == expected  # type: ignore[arg-type]
    curve = scores.top_k_cost(X, TAGS, METRIC, k=np.arange(1, 4))
    assert curve.shape == (3,)
    assert curve[1] == pytest.approx(expected)
    assert scores.top_k_cost(X, TAGS, METRIC, k=[2]).shape == (1,)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: scores.top_k_cost(X, TAGS, Ordinal(5)), ValueError, "scores must have 5 labels"),
        (lambda: scores.top_k_cost(X, TAGS, "line"), TypeError, "metric must be a GroundMetric"),
        (
            lambda: scores.expected_calibration_error(X, TAGS, bins=0),
            ValueError,
            "bins must be at least 1",
        ),
        (lambda: scores.brier_score(-X, TAGS), ValueError, "probabilities must be non-negative"),
        (
            lambda: decisions.least_cost_label(-X, METRIC),
            ValueError,
            "probabilities must be non-neg",
        ),
        (lambda: decisions.least_cost_label(0 * X, METRIC), ValueError, "must have some mass"),
        (lambda: decisions.least_cost_labels(X, METRIC, 7), ValueError, "k must be at most"),
        (lambda: decisions.least_cost_labels(X, METRIC, 0), ValueError, "k must be at least 1"),
        (lambda: decisions.top_labels(X, [1, 2]), TypeError, "k must be an integer"),
        (
            lambda: decisions.top_labels(X, 7),
            ValueError,
            "k must be at most the number of labels, 6",
        ),
        (
            lambda: scores.mean_wasserstein(np.log(X), TAGS, METRIC),
            ValueError,
            "probabilities must be non-negative",
        ),
        (
            lambda: scores.top_k_cost(torch.zeros(4, K, device="meta"), TAGS, METRIC),
            ValueError,
            r"scores must be on the ground metric's device \(cpu\), got meta",
        ),
        (
            lambda: scores.accuracy(X, wl.SparseTarget(torch.tensor([[9]] * 4), torch.ones(4, 1))),
            ValueError,
            "target must name labels in 0..5",
        ),
    ],
)
def test_other_bad_input(call: Callable[[], object], error: type, message: str) -> None:
    with pytest.raises(error, match=message):
        call()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", ["points", "tree"])
def test_autocast_changes_no_score_and_no_decision(name: str, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    metric = {
        "points": wl.ground.Embedding(torch.randn(40, 3, dtype=dtype)),
        "tree": wl.ground.Tree.from_paths([(a, b) for a in "vwxyz" for b in "abcdefgh"]),
    }[name]
    p = torch.rand(200, 40, dtype=dtype)
    target = torch.randint(40, (200,))

    def answers() -> list[torch.Tensor]:
        return [
            decisions.least_cost_label(p, metric),
            decisions.least_cost_labels(p, metric, 3),
            scores.top_k_cost(p, target, metric, k=3, reduction="none"),
            scores.distance_at_k(p, target, metric, reduction="none"),
            scores.mean_wasserstein(p, target, metric, reduction="none"),
        ]

    expected = answers()
    with torch.autocast("cpu", torch.bfloat16):
        found = answers()
    assert all(torch.equal(a, b) for a, b in zip(expected, found, strict=True))


def test_sums_that_overflow_are_refused() -> None:
    """Shares of an infinite sum would be 0, and so would most scores."""
    huge, p = torch.full((2, K), 3e38), torch.rand(2, K)
    for score in (scores.cosine, scores.brier_score, scores.ranked_probability_score):
        with pytest.raises(
            ValueError, match=r"probabilities must have finite sums in torch\.float32"
        ):
            score(huge, torch.tensor([0, 1]))
    for score in (scores.cosine, partial(scores.distance_at_k, metric=METRIC)):
        with pytest.raises(ValueError, match=r"target must have finite sums .* in example 0"):
            score(p, huge)
        assert score(p, huge.double() / 3e38).isfinite()
