import itertools
import math
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
import torch
from hypothesis import given
from torch import Tensor

import wassloss as wl
from tests.generators import lines, masses
from tests.ground.instances import Factory, every
from tests.scores.cases import METRIC, Array, K, ranked, scores
from wassloss.decisions import least_cost_label, least_cost_labels, top_labels
from wassloss.ground import Discrete, GroundMetric, Ordinal
from wassloss.scores import distance_at_k


def expected_cost(p: Tensor, chosen: Tensor, metric: GroundMetric) -> Tensor:
    """Return the expected cost to the nearest label of a set, `(batch,)`."""
    return (p * metric.cost_columns(chosen.reshape(len(p), -1)).amin(1)).sum(1)


@given(scores(), st.integers(1, K))
def test_top_labels_are_ranked_and_ties_go_to_the_first(x: Array, k: int) -> None:
    assert top_labels(x, k).tolist() == [ranked(row)[:k] for row in x]


def test_top_labels_of_one_row_among_tied_ones() -> None:
    x = torch.tensor([[1.0, 1, 1, 1], [4, 3, 2, 1], [0, 2, 2, 2]])
    assert top_labels(x, 2).tolist() == [[0, 1], [0, 1], [1, 2]]
    assert top_labels(x).tolist() == [[0], [0], [1]]


@pytest.mark.parametrize("factory", every())
@pytest.mark.parametrize("power", [0.5, 1.0, 2.0])
def test_no_label_costs_less(factory: Factory, power: float) -> None:
    metric = factory(power=power).to(dtype=torch.float64)
    p = torch.rand(30, metric.size, dtype=torch.float64).square()
    expected = p @ metric.cost()
    found = least_cost_label(p, metric)
    torch.testing.assert_close(expected.gather(1, found[:, None])[:, 0], expected.amin(1))


@given(st.data(), st.sampled_from([1.0, 2.0]))
def test_on_a_line_with_labels_in_any_place(data: st.DataObject, power: float) -> None:
    line = data.draw(lines(power))
    p = data.draw(masses(line.size, batch=3))
    expected = p @ line.cost().to(p)
    found = least_cost_label(p, line)
    torch.testing.assert_close(
        expected.gather(1, found[:, None])[:, 0], expected.amin(1), rtol=1e-6, atol=1e-6
    )


def test_the_median_and_the_mean() -> None:
    p = np.array([[0.4, 0.1, 0.0, 0.0, 0.5, 0.0], [0.0, 0.0, 1.0, 0.0, 0.0, 0.0]])
    assert least_cost_label(3 * p, Ordinal(6)).tolist() == [1, 2]
    assert least_cost_label(p, Ordinal(6, power=2)).tolist() == [2, 2]  # the mean is 2.1


def test_the_median_never_builds_columns() -> None:
    metric = Ordinal(100_000)
    p = torch.zeros(2, 100_000)
    p[0, [10, 20, 99_999]] = 1
    p[1, 7] = 1
    assert least_cost_label(p, metric).tolist() == [20, 7]


def test_where_all_mistakes_are_alike_the_most_probable() -> None:
    p = torch.stack([torch.randperm(7) for _ in range(20)]) / 28  # no near ties
    assert torch.equal(least_cost_label(p, Discrete(7)), p.argmax(1))
    chosen = least_cost_labels(p, Discrete(7), 3)
    assert torch.equal(chosen, top_labels(p, 3))


def test_deciding_by_cost_makes_milder_mistakes() -> None:
    # Labels are drawn from the prediction itself, so the decision is optimal.
    p = torch.rand(4000, 8, dtype=torch.float64).pow(3)
    truth = torch.multinomial(p, 1).squeeze(1)
    metric = wl.ground.Grid((2, 4)).to(dtype=torch.float64)
    decided = torch.eye(8)[least_cost_label(p, metric)]
    assert distance_at_k(decided, truth, metric) < 0.95 * distance_at_k(p, truth, metric)


@pytest.mark.parametrize("factory", every())
def test_greedy_sets_against_all_sets(factory: Factory) -> None:
    metric = factory(power=1.5).to(dtype=torch.float64)
    p = torch.rand(10, metric.size, dtype=torch.float64).square()
    p = p / p.sum(1, keepdim=True)
    for k in range(1, min(4, metric.size) + 1):
        found = least_cost_labels(p, metric, k)
        assert all(len(set(row)) == k for row in found.tolist())
        greedy = expected_cost(p, found, metric)
        best = torch.stack(
            [
                expected_cost(p, torch.tensor(chosen).expand(10, k), metric)
                for chosen in itertools.combinations(range(metric.size), k)
            ]
        ).amin(0)
        worst = metric.max_cost()
        assert (greedy >= best - 1e-12).all()
        assert (worst - greedy >= (1 - 1 / math.e) * (worst - best) - 1e-9).all()
        if k == 1:
            torch.testing.assert_close(greedy, best)


@given(masses(K, batch=3), st.integers(1, K))
def test_each_label_of_a_set_is_the_greedy_choice(p: Tensor, k: int) -> None:
    found = least_cost_labels(p, METRIC, k)
    for step in range(1, k + 1):
        options = []
        for label in range(K):
            last = torch.full((3, 1), label)
            options.append(expected_cost(p, torch.cat([found[:, : step - 1], last], dim=1), METRIC))
        best = torch.stack(options).amin(0)
        torch.testing.assert_close(expected_cost(p, found[:, :step], METRIC), best)


def test_no_label_is_chosen_twice_though_nothing_is_left_to_save() -> None:
    p = torch.eye(K, dtype=torch.float64)
    found = least_cost_labels(p, METRIC, 4)
    assert torch.equal(found[:, 0], torch.arange(K))
    assert all(len(set(row)) == 4 for row in found.tolist())


def test_all_labels_cost_nothing() -> None:
    p = torch.rand(2, K, dtype=torch.float64)
    found = least_cost_labels(p, METRIC, K)
    assert found.sort(1).values.tolist() == [list(range(K))] * 2


@pytest.mark.parametrize("entries", [1, 13, 40])
def test_in_blocks(monkeypatch: pytest.MonkeyPatch, entries: int) -> None:
    p = torch.rand(9, K, dtype=torch.float64)
    one, several = least_cost_label(p, METRIC), least_cost_labels(p, METRIC, 3)
    monkeypatch.setattr("wassloss._memory.LARGEST_COLUMNS", entries)
    assert torch.equal(least_cost_label(p, METRIC), one)
    assert torch.equal(least_cost_labels(p, METRIC, 3), several)


def test_arrays_in_arrays_out() -> None:
    p: Any = np.array([[0.2, 0.8, 0.0]], dtype=np.float32)
    for labels in (top_labels(p, 2), least_cost_label(p, Ordinal(3)), top_labels([[1, 2]])):
        assert isinstance(labels, np.ndarray)
        assert labels.dtype == np.int64


@pytest.mark.parametrize("k", [1, 3])
def test_decisions_for_no_example_are_none(k: int) -> None:
    nothing, metric = torch.zeros(0, 4), Ordinal(4, power=2)
    assert least_cost_labels(nothing, metric, k).shape == (0, k)
    assert least_cost_label(nothing, metric).shape == (0,)
    assert top_labels(nothing, k).shape == (0, k)


@given(masses(6, batch=4), st.floats(0, 3))
def test_an_answer_costs_less_than_its_price(p: Tensor, price: float) -> None:
    p = p.double() / p.double().sum(1, keepdim=True)
    metric = Ordinal(6).to(dtype=torch.float64)
    expected = (p @ metric.cost()).amin(1)
    answered = least_cost_label(p, metric, abstain=price)
    clear = (expected - price).abs() > 1e-6
    assert torch.equal((answered >= 0)[clear], (expected <= price)[clear])
    kept = answered >= 0
    assert torch.equal(answered[kept], least_cost_label(p, metric)[kept])


def test_no_other_rule_pays_less_than_the_price_of_abstaining() -> None:
    # Chow's rule: every row pays the smaller of its least expected cost and the price.
    p, metric = torch.rand(50, 5, dtype=torch.float64).softmax(1), Ordinal(5, power=2)
    costs = p @ metric.cost().double()
    for price in (0.5, 1.0, 2.0):
        answers = least_cost_label(p, metric, abstain=price)
        paid = costs.gather(1, answers.clamp(min=0)[:, None])[:, 0]
        paid = torch.where(answers < 0, price, paid)
        torch.testing.assert_close(paid, costs.amin(1).clamp(max=price))


def test_costs_of_each_row() -> None:
    rng = np.random.default_rng(0)
    p, costs = rng.dirichlet(np.ones(4), 30), rng.random((30, 3, 4))
    expected = np.array([costs[r] @ p[r] for r in range(30)])  # three answers for four labels
    np.testing.assert_array_equal(least_cost_label(p, costs), expected.argmin(1))
    price = float(np.median(expected.min(1)))
    answers = least_cost_label(torch.from_numpy(p), torch.from_numpy(costs), abstain=price)
    assert torch.equal(answers < 0, torch.from_numpy(expected.min(1) > price))
    same = np.broadcast_to(Ordinal(4).cost().numpy(), (30, 4, 4))
    np.testing.assert_array_equal(least_cost_label(p, same), least_cost_label(p, Ordinal(4)))


def test_frames_are_matched_by_name() -> None:
    pd = pytest.importorskip("pandas")
    metric = Ordinal(labels=["low", "middle", "high"])
    frame = pd.DataFrame(
        [[0.6, 0.3, 0.1], [0.7, 0.1, 0.2]], columns=["high", "low", "middle"], index=[7, 9]
    )
    expected = pd.Series([2, 2], index=[7, 9])
    pd.testing.assert_series_equal(least_cost_label(frame, metric), expected)
    every = least_cost_labels(frame, metric, 3)
    assert every.index.equals(frame.index)
    assert every.columns.tolist() == [0, 1, 2]  # not names: these are guesses, best first
    with pytest.raises(ValueError, match="one column for each of the ground metric's labels"):
        least_cost_label(frame.rename(columns={"high": "tall"}), metric)


@pytest.mark.parametrize(
    ("metric", "price", "message"),
    [
        (Ordinal(2), -1, "abstain must be a finite number, at least 0"),
        (Ordinal(2), math.nan, "abstain must be a finite number"),
        (np.zeros((2, 2, 3)), 1, r"must have shape \(1, answers, 2\), got \(2, 2, 3\)"),
        (np.full((1, 2, 2), np.nan), 1, "must be finite"),
    ],
)
def test_bad_prices_and_costs_are_named(metric: Any, price: float, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        least_cost_label([[0.5, 0.5]], metric, abstain=price)


def test_a_price_takes_probabilities() -> None:
    with pytest.raises(ValueError, match=r"must sum to 1 in every row, got 2\.7 in row 0"):
        least_cost_label([[0.9, 1.0, 0.8]], Ordinal(3), abstain=1)
