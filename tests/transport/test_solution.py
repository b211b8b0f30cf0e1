"""Gradients of a solution against finite differences, and its views."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import wassloss as wl
from tests.generators import (
    OBJECTIVE_NAMES,
    OBJECTIVES,
    is_finite,
    random_masses,
    random_metric,
)
from tests.oracles import INF, derivative
from tests.sampling import one_in
from wassloss import SparseTarget
from wassloss.ground import Discrete, Matrix, Ordinal, Tree
from wassloss.transport import Newton, Status
from wassloss.transport.algorithm_one import AlgorithmOne
from wassloss.transport.network_simplex import NetworkSimplex

F64 = torch.float64
K = 5
STEP = 1e-3  # a fourth-order formula has an error of 1e-12, like rounding
TIGHT = Newton(1e-13)

each_objective = pytest.mark.parametrize(("gamma", "regularizer"), OBJECTIVES, ids=OBJECTIVE_NAMES)


def problem(gamma: tuple[float, float], regularizer: str, epsilon: float) -> dict[str, Any]:
    h, y = random_masses(1, K, seed=1) + 0.05, random_masses(1, K, seed=2) + 0.05
    h, y = h / h.sum(), y / y.sum()
    if gamma != (INF, INF):
        y = 1.8 * y
    objective = {"epsilon": epsilon, "gamma": gamma, "regularizer": regularizer}
    return {"h": h, "y": y, "metric": random_metric(K), "solver": TIGHT, **objective}


def directions(gamma: tuple[float, float]) -> np.ndarray:
    """Every coordinate; if balanced, every coordinate minus its neighbour."""
    each = np.eye(K)
    return each - np.roll(each, 1, axis=1) if gamma == (INF, INF) else each


def value_with(given: dict[str, Any], **changes: Any) -> float:
    return wl.solve(**{**given, **changes}).value.item()


def row(x: np.ndarray) -> Tensor:
    return torch.from_numpy(x).unsqueeze(0)


# Gradients


@pytest.mark.one_in(5)
@each_objective
@pytest.mark.parametrize("epsilon", [0.05, 0.5, 5.0])
@pytest.mark.parametrize("side", ["h", "y"])
def test_gradient_in_the_masses_is_the_finite_difference(
    side: str, gamma: tuple[float, float], regularizer: str, epsilon: float
) -> None:
    given = problem(gamma, regularizer, epsilon)
    gradient = wl.solve(**given).gradient(0 if side == "h" else 1)[0].numpy()
    base = given[side][0].numpy()
    for direction in directions(gamma):
        expected = derivative(
            lambda x: value_with(given, **{side: row(x)}), base, direction, STEP * base.min()
        )
        assert gradient @ direction == pytest.approx(expected, rel=1e-6, abs=1e-7)


@pytest.mark.one_in(5)
@each_objective
@pytest.mark.parametrize("epsilon", [0.05, 0.5, 5.0])
def test_gradient_in_the_log_of_the_prediction_is_the_finite_difference(
    gamma: tuple[float, float], regularizer: str, epsilon: float
) -> None:
    given = problem(gamma, regularizer, epsilon)
    solution = wl.solve(**given)
    gradient, base = solution.log_gradient()[0].numpy(), given["h"][0].log().numpy()

    def at(log_h: np.ndarray) -> float:
        h = np.exp(log_h)
        return value_with(given, h=row(h / h.sum() if gamma == (INF, INF) else h))

    for direction in np.eye(K):
        if gamma == (INF, INF):  # through the softmax, whose Jacobian at h is diag(h) − h hᵀ
            along = gradient @ direction - gradient.sum() * (given["h"][0].numpy() @ direction)
        else:
            along = gradient @ direction
        assert along == pytest.approx(derivative(at, base, direction, STEP), rel=1e-6, abs=1e-7)


@pytest.mark.one_in(3)
@each_objective
@pytest.mark.parametrize("epsilon", [0.05, 0.5])
def test_gradient_in_the_costs_is_the_plan(
    gamma: tuple[float, float], regularizer: str, epsilon: float
) -> None:
    given = problem(gamma, regularizer, epsilon)
    plan, cost = wl.solve(**given).plan()[0].numpy(), given["metric"].cost().numpy()
    for i in range(K):
        for j in range(i):
            direction = np.zeros((K, K))
            direction[i, j] = direction[j, i] = 1.0
            expected = derivative(
                lambda M: value_with(given, metric=torch.from_numpy(M)), cost, direction, STEP
            )
            assert plan[i, j] + plan[j, i] == pytest.approx(expected, rel=1e-6, abs=1e-9)


@each_objective
def test_derivative_in_epsilon_is_the_regulariser_at_the_plan(
    gamma: tuple[float, float], regularizer: str
) -> None:
    given = problem(gamma, regularizer, 0.4)
    T, h, y = wl.solve(**given).plan()[0], given["h"][0], given["y"][0]
    expected = torch.special.xlogy(T, T).sum()
    if regularizer == "product":
        product = h[:, None] * y
        expected = (torch.special.xlogy(T, T / product) - T + product).sum()
    actual = derivative(
        lambda e: value_with(given, epsilon=e.item()), np.array(0.4), np.array(1.0), STEP
    )
    assert actual == pytest.approx(expected.item(), rel=1e-6)


@pytest.mark.parametrize(
    "metric",
    [
        Matrix(random_metric(K).cost()),
        Discrete(K),
        Ordinal([0.0, 1.5, 1.0, 4.0, 7.0]),
        Ordinal([0.0, 1.5, 1.0, 4.0, 7.0], power=2.5),
        Tree([-1, 0, 0, 1, 1, 2], [0.0, 1.0, 0.7, 2.0, 0.4, 1.1], nodes=[3, 4, 5, 0, 1]),
    ],
    ids=["matrix", "0-1", "line", "line, power 2.5", "tree"],
)
def test_exact_gradients_are_finite_differences_where_there_is_no_kink(metric: Any) -> None:
    h, y = random_masses(1, K, seed=1), random_masses(1, K, seed=2)
    solution = wl.solve(h, y, metric)
    for direction in directions((INF, INF)):
        for side, x in (("h", h), ("y", y)):
            gradient = solution.gradient(0 if side == "h" else 1)[0].numpy()
            expected = derivative(
                lambda x, side=side: wl.solve(
                    **{"h": h, "y": y, side: row(x)}, metric=metric
                ).value.item(),
                x[0].numpy(),
                direction,
                1e-6,
            )
            assert gradient @ direction == pytest.approx(expected, rel=1e-6, abs=1e-8)


# Views


@each_objective
def test_the_plan_over_all_labels_is_the_plan_on_the_support(
    gamma: tuple[float, float], regularizer: str
) -> None:
    h, y = random_masses(3, 8, seed=1), random_masses(3, 8, support=3, seed=2)
    solution = wl.solve(h, y, random_metric(8), epsilon=0.2, gamma=gamma, regularizer=regularizer)
    plan = solution.plan()
    assert plan.shape == (3, 8, 8)
    for b in range(3):
        torch.testing.assert_close(plan[b][:, solution.support[b]], solution.support_plan()[b].T)
    assert (plan.sum(1)[y == 0] == 0).all()


def test_one_label_of_padding_does_not_overwrite_another() -> None:
    # Padding names label 1, which is in the support as well.
    target = SparseTarget(torch.tensor([[1, 3, 1]]), torch.tensor([[0.4, 0.6, 0.0]], dtype=F64))
    for epsilon in (0.0, 0.1):
        solution = wl.solve(random_masses(1, 5), target, random_metric(5), epsilon=epsilon)
        expected = torch.tensor([[0.0, 0.4, 0.0, 0.6, 0.0]], dtype=F64)
        torch.testing.assert_close(solution.plan().sum(1), expected)


def test_converged_single_precision_plans_are_plans_at_everyday_epsilon() -> None:
    h, y = random_masses(4, 200, seed=1).float(), random_masses(4, 200, support=5, seed=2).float()
    metric = random_metric(200)
    for epsilon in (1.0, 0.1, 0.01):
        plan = wl.solve(h, y, metric, epsilon=epsilon).plan()
        rounding = 2 * torch.finfo(torch.float32).eps * metric.max_cost() / epsilon
        assert ((plan.sum(2) - h).abs().sum(1) < 1e-5 + rounding).all()
        assert ((plan.sum(1) - y).abs().sum(1) < 1e-5 + rounding).all()


def test_it_reads_as_a_sentence_that_ends_in_advice() -> None:
    h, y = random_masses(2, 6, seed=1), random_masses(2, 6, support=3, seed=2)
    text = str(wl.solve(h, y, random_metric(6), epsilon=0.1))
    assert text.startswith("Solution(2 of 2 converged, error at most ")
    assert text.endswith(Status.CONVERGED.value)
    assert "Exact: solved in closed form" in str(wl.solve(h, y, random_metric(6)))


@pytest.mark.parametrize("solver", [TIGHT, AlgorithmOne(5), NetworkSimplex()])
def test_no_graph_is_kept(solver: Any) -> None:
    h = random_masses(2, 6, seed=1).requires_grad_()
    cost = random_metric(6).cost().requires_grad_()
    epsilon = 0.0 if isinstance(solver, NetworkSimplex) else 0.1
    solution = wl.solve(h, random_masses(2, 6, seed=2), cost, epsilon=epsilon, solver=solver)
    parts = (solution.value, solution.f, solution.g, solution.gradient(), solution.plan())
    assert not any(part.requires_grad for part in parts)
    assert is_finite(*parts)


@pytest.mark.parametrize("support", one_in(2, [4, 200]))
@pytest.mark.parametrize("metric_dtype", [torch.float32, F64])
def test_the_plan_has_the_digits_of_the_solve_not_of_the_potentials(
    support: int, metric_dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In single precision potentials are rounded to a tenth of this epsilon."""
    labels, batch = 2 * support, 3
    h = random_masses(batch, labels, seed=1).float()
    weights, indices = random_masses(batch, labels, support, seed=2).topk(support)
    target = SparseTarget(indices, weights.float())
    metric = random_metric(labels).to(dtype=metric_dtype)

    def worst(solution: wl.Solution) -> float:
        plan = solution.support_plan()
        assert plan.dtype == torch.float32
        off = (plan.sum(1) - h).abs().sum(1) + (plan.sum(2) - target.weights).abs().sum(1)
        return float(off.max())

    whole = wl.solve(h, target, metric, epsilon=1e-6)
    assert whole.status is Status.CONVERGED
    assert worst(whole) < 1e-4
    # In chunks, some of which may not need a wider dtype.
    monkeypatch.setattr("wassloss._memory.LARGEST_BLOCK", 1)
    assert worst(wl.solve(h, target, metric, epsilon=1e-6)) < 1e-4
    with_torch = wl.solve(h, target, metric, epsilon=1e-6, solver=Newton())
    assert worst(with_torch) < 1e-4


def test_potentials_are_centred_up_to_the_end_of_the_range_of_numbers() -> None:
    # They are ε times logs here, and the sum of six of them overflows single precision.
    metric = wl.ground.Grid((2, 3), power=13, scale=0.01)
    h, y = torch.full((2, 6), 1 / 6), torch.tensor([[1.0, 1e-30] + [0.0] * 4, [1.0] + [0.0] * 5])
    solution = wl.solve(h, y, metric, epsilon=1e6 * metric.max_cost())
    assert solution.f.isfinite().all()
    assert solution.g.isfinite().all()
