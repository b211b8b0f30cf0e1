"""Closed forms, each compared with an iterative solver."""

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import wassloss as wl
from tests.generators import (
    REGULARIZERS,
    Case,
    is_finite,
    lines,
    masses,
    random_masses,
    random_metric,
    translations,
    trees,
)
from tests.oracles import linear_program
from tests.transport.certificates import assert_dual_certificate
from wassloss import SparseTarget
from wassloss.ground import Discrete, GroundMetric, Matrix, Ordinal, Tree
from wassloss.transport import Newton, Sinkhorn, Solution, Status
from wassloss.transport.closed_forms import LineArea, LineQuantiles, OneHot, TreeFlow, ZeroOne
from wassloss.transport.network_simplex import NetworkSimplex

F64 = torch.float64
POWERS = [1.0, 1.5, 2.0, 3.0]


def assert_exact(solution: Solution) -> None:
    """Optimal by its own potentials, with the value that a linear program finds."""
    assert solution.status is Status.EXACT
    assert solution.converged.all()
    assert_dual_certificate(solution, 1e-11)
    problem = solution.problem
    h, y = problem.log_h.exp().numpy(), problem.dense_target().numpy()
    cost = problem.metric.cost().numpy()
    for b in range(problem.batch):
        expected = linear_program(h[b] / h[b].sum(), y[b] / y[b].sum(), cost) * h[b].sum()
        # HiGHS satisfies its constraints only to 1e-7.
        assert solution.value[b].item() == pytest.approx(expected, rel=1e-7, abs=1e-7)


def draw_problem(
    data: st.DataObject, metric: GroundMetric, batch: int = 2
) -> tuple[torch.Tensor, torch.Tensor]:
    return data.draw(masses(metric.size, batch)), data.draw(masses(metric.size, batch))


# One label in the target


@pytest.mark.parametrize("regularizer", REGULARIZERS)
@pytest.mark.parametrize("epsilon", [0.0, 1e-4, 0.1, 30.0])
@pytest.mark.parametrize("mass", [1.0, 3.5])
def test_one_hot_is_linear_in_the_prediction_up_to_the_regulariser(
    regularizer: str, epsilon: float, mass: float
) -> None:
    h, cost = mass * random_masses(3, 6, support=4, seed=1), random_metric(6).cost()
    target = SparseTarget(torch.tensor([[2], [0], [5]]), torch.full((3, 1), mass, dtype=F64))
    solution = wl.solve(h, target, cost, epsilon=epsilon, regularizer=regularizer)
    linear = (h * cost[[2, 0, 5]]).sum(1)
    entropy = torch.special.xlogy(h, h).sum(1)
    if regularizer == "product":  # ε KL~(T ‖ h yᵀ) at T = h, which vanishes at unit mass
        entropy = torch.full((3,), mass * (mass - 1) - torch.tensor(mass).double().log() * mass)
    torch.testing.assert_close(solution.value, linear + epsilon * entropy)
    torch.testing.assert_close(solution.support_plan(), h.unsqueeze(1))
    assert solution.status is Status.EXACT


@pytest.mark.parametrize("solver", [Newton(1e-11), Sinkhorn(1e-11)], ids=["Newton", "Sinkhorn"])
@pytest.mark.parametrize("regularizer", REGULARIZERS)
@pytest.mark.parametrize("epsilon", [1e-4, 0.1, 30.0])
def test_one_hot_is_what_the_iterative_solvers_find(
    regularizer: str, epsilon: float, solver: Any
) -> None:
    h, ids, metric = (
        2 * random_masses(3, 6, seed=1),
        torch.tensor([[2], [0], [5]]),
        random_metric(6),
    )
    target = SparseTarget(ids, torch.full((3, 1), 2.0, dtype=F64))
    closed, found = (
        wl.solve(h, target, metric, epsilon=epsilon, regularizer=regularizer, solver=s)
        for s in (OneHot(), solver)
    )
    assert found.converged.all()
    torch.testing.assert_close(closed.value, found.value, rtol=1e-11, atol=1e-12)
    torch.testing.assert_close(closed.f, found.f, rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(closed.g, found.g, rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(closed.plan(), found.plan(), rtol=1e-7, atol=1e-12)
    torch.testing.assert_close(closed.log_gradient(), found.log_gradient(), rtol=1e-9, atol=1e-9)


def test_one_hot_exactly_is_what_the_network_simplex_finds() -> None:
    h, ids = random_masses(3, 6, support=4, seed=1), torch.tensor([2, 0, 5])
    closed, found = (
        wl.solve(h, ids, random_metric(6), solver=s) for s in (OneHot(), NetworkSimplex())
    )
    torch.testing.assert_close(closed.value, found.value)
    torch.testing.assert_close(closed.f, found.f)
    torch.testing.assert_close(closed.plan(), found.plan())


# All labels equally far apart


@given(data=st.data())
def test_zero_one_is_half_the_distance_in_l1(data: st.DataObject) -> None:
    metric = Discrete(
        data.draw(st.integers(1, 6)),
        power=data.draw(st.sampled_from([0.0, 1.0, 2.0])),
        scale=data.draw(st.sampled_from([1.0, 0.5, 3.0])),
    )
    h, y = draw_problem(data, metric)
    solution = wl.solve(h, y, metric, solver=ZeroOne())
    step = (1 / metric.scale) ** metric.power
    torch.testing.assert_close(
        solution.value, 0.5 * step * (h - y).abs().sum(1), atol=1e-14, rtol=0
    )
    assert_exact(solution)


# Labels on a line


@pytest.mark.parametrize("power", POWERS)
@given(data=st.data())
def test_on_a_line_a_moved_measure_costs_how_far_it_moved(
    data: st.DataObject, power: float
) -> None:
    case: Case = data.draw(translations(power))
    solvers = [LineArea(), LineQuantiles()] if power == 1 else [LineQuantiles()]
    for solver in solvers:
        solution = wl.solve(case.h, case.y, case.metric, solver=solver)
        assert solution.value.item() == pytest.approx(case.value, rel=1e-9, abs=1e-12)
        assert_dual_certificate(solution, 1e-10)


@pytest.mark.parametrize("power", POWERS)
@given(data=st.data())
def test_lines_are_solved_exactly_in_any_order_with_labels_at_one_place(
    data: st.DataObject, power: float
) -> None:
    metric: Ordinal = data.draw(lines(power))
    h, y = draw_problem(data, metric)
    assert_exact(wl.solve(h, y, metric, solver=LineQuantiles()))
    if power == 1:
        assert_exact(wl.solve(h, y, metric, solver=LineArea()))


@given(data=st.data())
def test_area_and_quantiles_agree_at_power_one(data: st.DataObject) -> None:
    metric: Ordinal = data.draw(lines(1.0))
    h, y = draw_problem(data, metric)
    area, quantiles = (wl.solve(h, y, metric, solver=s) for s in (LineArea(), LineQuantiles()))
    torch.testing.assert_close(area.value, quantiles.value, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("power", POWERS)
def test_lines_of_many_labels_against_the_network_simplex(power: float) -> None:
    positions = torch.randn(300, dtype=F64)
    metric = Ordinal(positions, power=power)
    h, y = random_masses(4, 300, support=200, seed=1), random_masses(4, 300, seed=2)
    sparse = random_masses(4, 300, support=5, seed=3)
    for target in (y, sparse):
        closed = wl.solve(h, target, metric)
        assert_dual_certificate(closed, 1e-10)
        found = wl.solve(h, target, metric, solver=NetworkSimplex())
        torch.testing.assert_close(closed.value, found.value, rtol=1e-11, atol=0)
        single = wl.solve(h.float(), target.float(), metric)
        assert single.value.dtype == torch.float32
        torch.testing.assert_close(single.value.double(), closed.value, rtol=1e-5, atol=1e-6)


def test_cdf_area_of_digits_by_hand() -> None:
    h, y = torch.tensor([[0.5, 0.5, 0.0, 0.0]]), torch.tensor([[0.0, 0.25, 0.0, 0.75]])
    assert wl.solve(h, y, Ordinal(4)).value.item() == pytest.approx(0.5 + 0.75 + 0.75)
    # Quantiles: 0 → 1 with 0.25, 0 → 3 with 0.25, 1 → 3 with 0.5.
    squared = wl.solve(h, y, Ordinal(4, power=2)).value.item()
    assert squared == pytest.approx(0.25 * 1 + 0.25 * 9 + 0.5 * 4)


# Labels in a tree


@given(data=st.data())
def test_trees_are_solved_exactly_whatever_the_edges_and_the_labels_nodes(
    data: st.DataObject,
) -> None:
    metric: Tree = data.draw(trees())
    h, y = draw_problem(data, metric)
    assert_exact(wl.solve(h, y, metric, solver=TreeFlow()))


def test_a_path_is_a_line() -> None:
    lengths = torch.tensor([0.0, 1.0, 0.5, 2.0, 0.0], dtype=F64)
    path = Tree([-1, 0, 1, 2, 3], lengths, nodes=[3, 0, 4, 1, 2])
    line = Ordinal(lengths.cumsum(0)[[3, 0, 4, 1, 2]])
    h, y = random_masses(4, 5, seed=1), random_masses(4, 5, seed=2)
    on_path, on_line = (wl.solve(h, y, metric) for metric in (path, line))
    torch.testing.assert_close(on_path.value, on_line.value)
    torch.testing.assert_close(on_path.f, on_line.f)


def test_a_star_is_the_zero_one_metric() -> None:
    star = Tree([-1, 0, 0, 0, 0], [0.0, 0.5, 0.5, 0.5, 0.5])
    h, y = random_masses(4, 4, seed=1), random_masses(4, 4, seed=2)
    torch.testing.assert_close(wl.solve(h, y, star).value, wl.solve(h, y, Discrete(4)).value)


# Laws of all closed forms

METRICS = {
    "0-1": Discrete(6, scale=2.0),
    "line": Ordinal([3.0, 0.0, 1.0, 7.0, 7.0, 2.0]),
    "line, squared": Ordinal([3.0, 0.0, 1.0, 7.0, 7.0, 2.0], power=2.0),
    "tree": Tree([-1, 0, 0, 1, 1, 2, 2], nodes=[3, 4, 5, 6, 0, 1]),
}
each_metric = pytest.mark.parametrize("metric", METRICS.values(), ids=METRICS.keys())


@each_metric
def test_exact_laws(metric: GroundMetric) -> None:
    h, y = random_masses(3, 6, support=4, seed=1), random_masses(3, 6, support=2, seed=2)
    solution = wl.solve(h, y, metric)
    assert solution.status is Status.EXACT
    torch.testing.assert_close(solution.f.mean(1), torch.zeros(3, dtype=F64), rtol=0, atol=1e-14)
    torch.testing.assert_close(wl.solve(y, h, metric).value, solution.value)
    nothing = wl.solve(h, h, metric).value
    torch.testing.assert_close(nothing, torch.zeros(3, dtype=F64), rtol=0, atol=1e-14)
    torch.testing.assert_close(wl.solve(70 * h, 70 * y, metric).value, 70 * solution.value)


@each_metric
def test_padding_and_explicit_zeros_change_nothing(metric: GroundMetric) -> None:
    h, y = random_masses(3, 6, support=4, seed=1), random_masses(3, 6, support=2, seed=2)
    plain = wl.solve(h, y, metric)
    everywhere = SparseTarget(torch.arange(6).expand(3, 6), y)
    padded = SparseTarget(
        torch.cat([plain.support, torch.tensor([[5, 0]] * 3)], 1),
        torch.cat([y.gather(1, plain.support), torch.zeros(3, 2)], 1),
    )
    for target in (everywhere, padded):
        other = wl.solve(h, target, metric)
        torch.testing.assert_close(other.value, plain.value)
        assert is_finite(other.f, other.g)
        assert_dual_certificate(other, 1e-12)


@each_metric
def test_the_plan_is_found_where_it_is_asked_for(metric: GroundMetric) -> None:
    h, y = random_masses(3, 6, support=4, seed=1), random_masses(3, 6, support=2, seed=2)
    solution = wl.solve(h, y, metric)
    plan = solution.plan()
    torch.testing.assert_close(plan.sum(2), h)
    torch.testing.assert_close(plan.sum(1), y)
    torch.testing.assert_close((plan * metric.cost()).sum((1, 2)), solution.value)


@each_metric
def test_small_epsilon_tends_to_the_closed_form(metric: GroundMetric) -> None:
    h, y = random_masses(3, 6, seed=1), random_masses(3, 6, support=3, seed=2)
    exact, epsilon = wl.solve(h, y, metric).value, 1e-4
    product = wl.solve(h, y, metric, epsilon=epsilon, regularizer="product").value
    assert (product >= exact - 1e-9).all()
    assert (product <= exact + 4 * epsilon).all()


@pytest.mark.parametrize("power", [0.5, 1.0, 2.0])
def test_a_matrix_of_the_same_costs_gives_the_same_answer(power: float) -> None:
    h, y = random_masses(3, 6, seed=1), random_masses(3, 6, seed=2)
    metric = Ordinal(torch.randn(6, dtype=F64), power=power)
    torch.testing.assert_close(
        wl.solve(h, y, metric).value, wl.solve(h, y, Matrix(metric.cost())).value
    )
