"""Costs that are not distances: `C[i, j]` is the cost of predicting i if the truth is j."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from wassloss.ground import Cost, GroundMetric, Matrix, Ordinal
from wassloss.ground.matrix import as_ground_metric

K = 7
LABELS = [f"label {i}" for i in range(K)]


def some_costs(dtype: torch.dtype = torch.float64) -> torch.Tensor:
    """Asymmetric costs with a nonzero diagonal, and a zero off the diagonal."""
    costs = torch.rand(K, K, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    costs[2, 5] = 0
    return (costs + 0.05 * torch.eye(K, dtype=torch.float64)).to(dtype)


def expected_cost(power: float, scale: float) -> torch.Tensor:
    costs = some_costs()
    return torch.where(costs == 0, 0.0, (costs / scale) ** power)


@pytest.fixture(params=[False, True], ids=["as it is", "tabulated"])
def metric(request: Any) -> Cost:
    made = Cost(some_costs(), power=1.5, scale=2.0, labels=LABELS)
    return made.tabulated() if request.param else made


def test_entries_are_from_prediction_to_target(metric: Cost) -> None:
    M, C = expected_cost(1.5, 2.0), some_costs()
    indices = torch.tensor([[2, 0, 5], [1, 1, 6]])
    torch.testing.assert_close(metric.cost(), M)
    torch.testing.assert_close(metric.distance(), C)
    torch.testing.assert_close(metric.cost_columns(indices), M.T[indices])
    torch.testing.assert_close(metric.unchecked_cost_columns(indices), M.T[indices])
    torch.testing.assert_close(metric.distance_columns(indices), C.T[indices])
    torch.testing.assert_close(metric.cost_rows(indices), M[indices])
    torch.testing.assert_close(metric.cost_rows(3), M[3])
    first, second = torch.tensor([[0, 2], [1, 1]]), torch.tensor([1, 2])
    torch.testing.assert_close(metric.cost_between(first, second), M[first, second])


def test_a_table_is_by_target() -> None:
    table = Cost(some_costs()).tabulated()
    assert table.known_costs is not None
    torch.testing.assert_close(table.known_costs, some_costs().T)
    single = table.known_costs_in(torch.float32)
    assert single is not None
    torch.testing.assert_close(single, some_costs(torch.float32).T)
    moved = table.to(dtype=torch.float32).known_costs
    assert moved is not None
    torch.testing.assert_close(moved, some_costs(torch.float32).T)


def test_rows_are_columns_of_a_distance() -> None:
    line = Ordinal([0.0, 1.0, 4.0], power=2)
    for metric in (line, line.tabulated()):
        torch.testing.assert_close(metric.cost_rows([2, 0]), metric.cost_columns([2, 0]))


@pytest.mark.parametrize("power", [0.0, 0.5, 1.0, 2.0])
def test_power_and_scale_apply_to_each_entry(power: float) -> None:
    metric = Cost(some_costs(), power=power, scale=4.0)
    torch.testing.assert_close(metric.cost(), expected_cost(power, 4.0))
    torch.testing.assert_close(Cost(some_costs()).with_cost(power=power, scale=4).cost(),
                               metric.cost())  # fmt: skip


def test_largest_and_median() -> None:
    costs = some_costs()
    costs[3, 3] = 10.0
    metric = Cost(costs)
    off_diagonal = costs[~torch.eye(K, dtype=torch.bool)]
    assert metric.max_cost() == 10.0
    assert metric.median_cost() == pytest.approx(float(off_diagonal.median()))
    assert Cost(costs, scale="max").cost().max() == 1.0
    assert Cost(costs, scale="median").median_cost() == pytest.approx(1.0)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_save_and_load_round_trip(dtype: torch.dtype, tmp_path: Path) -> None:
    metric = Cost(some_costs(dtype), power=2, scale="median", labels=LABELS)
    metric.save(tmp_path / "cost.npz")
    loaded = GroundMetric.load(tmp_path / "cost.npz")
    assert type(loaded) is Cost
    assert repr(loaded) == repr(metric)
    assert (loaded.power, loaded.scale, loaded.labels) == (2, metric.scale, tuple(LABELS))
    assert loaded.dtype == dtype
    assert torch.equal(loaded.distance(), metric.distance())


def test_learned_costs_are_saved_by_value(tmp_path: Path) -> None:
    parameter = some_costs().requires_grad_()
    Cost(parameter).save(tmp_path / "cost.npz")
    assert torch.equal(GroundMetric.load(tmp_path / "cost.npz").distance(), some_costs())


def test_nearest_are_the_cheapest_predictions(metric: Cost) -> None:
    costs = some_costs()[:, 4].tolist()
    order = sorted(set(range(K)) - {4}, key=lambda i: costs[i])
    expected = [(LABELS[i], pytest.approx(costs[i])) for i in order]
    assert metric.nearest("label 4", 3) == expected[:3]
    assert metric.nearest("label 4", K) == expected


def test_axioms_are_reported_in_the_right_direction() -> None:
    costs = torch.tensor([[0.0, 1.0, 9.0], [1.0, 0.0, 1.0], [1.0, 1.0, 0.5]])
    report = Cost(costs).check_axioms()
    assert not report.ok
    assert "symmetric: no\n  zero diagonal: no" in str(report)
    assert "d(0, 2) exceeds d(0, 1) + d(1, 2) by 7" in str(report)
    assert Cost(1 - torch.eye(3)).check_axioms().ok


def test_columns_trace_as_one_graph(metric: Cost) -> None:
    torch.compiler.reset()
    indices = torch.tensor([[1, 0], [2, 2]])
    compiled = torch.compile(metric.cost_columns, fullgraph=True, backend="eager")
    torch.testing.assert_close(compiled(indices), metric.cost_columns(indices))


def test_gradient_reaches_each_entry() -> None:
    parameter = some_costs().requires_grad_()
    metric = Cost(parameter, power=2.0)
    assert metric.requires_grad
    weights = torch.rand(2, K, dtype=torch.float64)
    (weights * metric.cost_columns([5, 1])).sum().backward()
    expected = torch.zeros(K, K, dtype=torch.float64)
    expected[:, [5, 1]] = weights.T * 2 * some_costs()[:, [5, 1]]
    torch.testing.assert_close(parameter.grad, expected)
    with torch.no_grad():
        parameter[0, 5] = -3.0  # an optimiser may step too far
    for column in (metric.cost_columns(5), metric.cost()[:, 5]):
        assert column[0] == 0
    with torch.no_grad():
        assert metric.cost_columns(5)[0] == 0


def test_negative_costs_within_rounding_are_zero() -> None:
    costs = some_costs(torch.float32)
    costs[1, 2] = -1e-6
    assert Cost(costs).cost()[1, 2] == 0
    Cost(costs.requires_grad_())


def test_later_changes_to_the_input_do_not_reach_it() -> None:
    costs = some_costs()
    metric = Cost(costs)
    costs[0, 1] = 100
    assert torch.equal(metric.cost(), some_costs())


@pytest.mark.parametrize(
    ("cost", "message"),
    [
        ([[0.0, 1.0]], "cost must be square, got shape (1, 2)"),
        ([1.0, 2.0], "cost must have shape (labels, labels), got (2,)"),
        ([[0.0, np.nan], [1.0, 0.0]], "cost must be finite, got cost[0, 1] = nan"),
        ([[0.0, np.inf], [1.0, 0.0]], "cost must be finite, got cost[0, 1] = inf"),
        ([[0, 1], [-1, 0]], "cost must not be negative, got cost[1, 0] = -1"),
    ],
)
def test_wrong_values(cost: Any, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        Cost(cost)


def test_a_plain_matrix_stays_a_distance_and_points_here() -> None:
    for given in (some_costs(), some_costs().numpy(), 1 + torch.eye(3)):
        with pytest.raises(ValueError, match=r"distance must .*wassloss\.ground\.Cost"):
            as_ground_metric(given)
    assert Matrix.is_distance
    assert not Cost.is_distance
