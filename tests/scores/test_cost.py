from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
import torch
from hypothesis import given

import wassloss as wl
from tests.generators import masses
from tests.ground.instances import Factory, every
from tests.scores.cases import METRIC, Array, K, scores, tags
from tests.scores.cases import top_k_cost as naive_top_k_cost
from wassloss.ground import Discrete, Embedding, Matrix, Ordinal
from wassloss.scores import accuracy, distance_at_k, mean_wasserstein, top_k_cost


@given(st.data())
def test_top_k_cost_is_the_papers(data: st.DataObject) -> None:
    x = data.draw(scores())
    y = data.draw(tags(len(x)))
    curve = top_k_cost(x, y, METRIC, range(1, K + 1), reduction="none")
    for k in range(1, K + 1):
        expected = naive_top_k_cost(x, y, METRIC, k)
        np.testing.assert_allclose(curve[:, k - 1], expected, atol=1e-12)
        assert top_k_cost(x, y, METRIC, k) == pytest.approx(expected.mean())


def test_a_hand_made_example() -> None:
    # Tags street, parade, dragon; proposals people, protest, parade, at these distances.
    distances = np.array(
        [  # people protest parade street dragon
            [0.0, 0.9, 0.8, 0.7, 1.2],
            [0.9, 0.0, 0.6, 1.0, 1.3],
            [0.8, 0.6, 0.0, 0.5, 1.1],
            [0.7, 1.0, 0.5, 0.0, 1.4],
            [1.2, 1.3, 1.1, 1.4, 0.0],
        ]
    )
    x = np.array([[0.4, 0.3, 0.2, 0.05, 0.05]])
    costs = top_k_cost(x, [[0, 0, 1, 1, 1]], distances, k=[3, 1, 2])
    np.testing.assert_allclose(costs, [(0.7 + 0.6 + 0.0) / 3, 0.7, (0.7 + 0.6) / 2])


@pytest.mark.parametrize("factory", every())
def test_every_ground_metric(factory: Factory) -> None:
    metric = factory(power=1.5)
    x = np.random.default_rng(0).normal(size=(4, metric.size))
    y = np.eye(metric.size)[[0, 1, 2, 0]]
    y[:, 1] = 1
    costs = top_k_cost(x, y, metric, k=2, reduction="none")
    np.testing.assert_allclose(costs, naive_top_k_cost(x, y, metric, 2), rtol=1e-5)


@given(st.data())
def test_order_of_labels_does_not_matter(data: st.DataObject) -> None:
    x = data.draw(scores(ties=False))
    y = data.draw(tags(len(x)))
    order = data.draw(st.permutations(range(K)))
    renamed = Embedding(METRIC.vectors[list(order)], normalize=False)
    ks = range(1, K + 1)
    np.testing.assert_allclose(
        top_k_cost(x[:, order], y[:, order], renamed, ks), top_k_cost(x, y, METRIC, ks), atol=1e-12
    )
    assert distance_at_k(x[:, order], y[:, order], renamed) == pytest.approx(
        distance_at_k(x, y, METRIC)
    )


@given(st.data())
def test_all_guesses_cost_the_same_whatever_their_order(data: st.DataObject) -> None:
    y = data.draw(tags(1))
    one, other = data.draw(scores())[:1], data.draw(scores())[:1]
    assert top_k_cost(one, y, METRIC, K) == pytest.approx(top_k_cost(other, y, METRIC, K))


@given(scores(), st.data())
def test_one_true_label_and_one_guess(x: Array, data: st.DataObject) -> None:
    ids = np.array(data.draw(st.lists(st.integers(0, K - 1), min_size=len(x), max_size=len(x))))
    top = top_k_cost(x, ids, METRIC, reduction="none")
    expected = distance_at_k(x, ids, METRIC, reduction="none")
    np.testing.assert_allclose(top, expected)
    np.testing.assert_allclose(expected, METRIC.distance().numpy()[x.argmax(1), ids])
    # The same with all the mass on that guess.
    certain = np.eye(K)[x.argmax(1)]
    moved = mean_wasserstein(certain, ids, METRIC, reduction="none")
    np.testing.assert_allclose(moved, expected, atol=1e-12)


def test_the_distance_knows_nothing_of_power_and_scale() -> None:
    x, ids = np.random.default_rng(0).random((5, 4)), [0, 1, 2, 3, 0]
    h = x / x.sum(1, keepdims=True)
    plain, bent = Ordinal(4), Ordinal(4, power=3, scale=2)
    for score, given_scores in (
        (top_k_cost, x),
        (distance_at_k, x),
        (mean_wasserstein, h),
    ):
        function: Any = score
        base = function(given_scores, ids, plain, reduction="none")
        np.testing.assert_allclose(function(given_scores, ids, bent, reduction="none"), base)


@given(scores(), st.data())
def test_under_the_zero_one_metric_it_is_the_error_rate(x: Array, data: st.DataObject) -> None:
    y = data.draw(tags(len(x)))
    assert top_k_cost(x, y, Discrete(K)) == pytest.approx(1 - accuracy(x, y))


@given(scores(), st.data())
def test_distance_at_k_averages_over_the_target(x: Array, data: st.DataObject) -> None:
    y = data.draw(masses(K, batch=len(x))).numpy()
    expected = (METRIC.distance().numpy()[x.argmax(1)] * y).sum(1)
    for weights in (y, 3 * y):
        values = distance_at_k(x, weights, METRIC, reduction="none")
        np.testing.assert_allclose(values, expected, atol=1e-12)


@pytest.mark.parametrize("epsilon", [0.0, 0.1])
def test_mean_wasserstein_is_the_librarys(epsilon: float) -> None:
    h = torch.randn(4, K, dtype=torch.float64).softmax(1)
    y = torch.randn(4, K, dtype=torch.float64).softmax(1)
    expected = wl.wasserstein(h, y, METRIC.with_cost(power=1, scale=None), epsilon=epsilon)
    values = mean_wasserstein(2 * h, 5 * y, METRIC, epsilon=epsilon, reduction="none")
    torch.testing.assert_close(values, expected)
    torch.testing.assert_close(mean_wasserstein(h, y, METRIC, epsilon=epsilon), expected.mean())


def test_mean_wasserstein_of_tags() -> None:
    h = np.full((1, 4), 0.25)
    tagged = [[1, 0, 0, 1]]
    assert mean_wasserstein(h, tagged, Ordinal(4)) == pytest.approx(0.5)


def test_mean_wasserstein_forgives_the_users_rounding() -> None:
    h = torch.randn(64, 100, dtype=torch.float64).softmax(1)
    y = torch.randn(64, 100, dtype=torch.float64).softmax(1)
    exact = mean_wasserstein(h, y, Ordinal(100))
    for dtype, tolerance in ((torch.float32, 1e-5), (torch.bfloat16, 2e-2)):
        for pair in ((h.to(dtype), y), (h, y.to(dtype))):
            assert float(mean_wasserstein(*pair, Ordinal(100))) == pytest.approx(
                float(exact), rel=tolerance
            )


def test_nothing_as_large_as_all_pairs_of_labels() -> None:
    # 200 000 labels: a column per true label would take 80 MB per batch, all pairs 160 GB.
    labels = 200_000
    metric = Embedding(torch.randn(labels, 2))
    x = torch.randn(4, labels)
    truth = wl.SparseTarget(torch.randint(labels, (4, 3)), torch.ones(4, 3))
    calls = []
    metric._distance_columns = calls.append  # type: ignore[method-assign, assignment]
    top_k_cost(x, truth, metric, k=range(1, 11))
    assert not calls


def test_metrics_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    x = torch.randn(50, K, dtype=torch.float64)
    y = (torch.rand(50, K) < 0.5) | torch.eye(K, dtype=torch.bool)[0]
    expected = top_k_cost(x, y, METRIC, k=[1, 4], reduction="none")
    monkeypatch.setattr("wassloss._memory.LARGEST_COLUMNS", 7)
    torch.testing.assert_close(top_k_cost(x, y, METRIC, k=[1, 4], reduction="none"), expected)


def test_scores_carry_no_gradient() -> None:
    D = torch.tensor([[0.0, 1.0], [1.0, 0.0]], requires_grad=True)
    x = torch.tensor([[0.3, 0.7]], requires_grad=True)
    for function in (top_k_cost, distance_at_k, mean_wasserstein):
        value = function(x, torch.tensor([0]), Matrix(D))
        assert not value.requires_grad


def test_precision_is_the_wider_one() -> None:
    x = torch.randn(3, 4)
    ids = torch.tensor([0, 1, 2])
    assert top_k_cost(x, ids, Ordinal(4)).dtype == torch.float32
    assert top_k_cost(x.double(), ids, Ordinal(4)).dtype == torch.float64
    assert top_k_cost(x.half(), ids, Ordinal(4).to(dtype=torch.float64)).dtype == torch.float64
