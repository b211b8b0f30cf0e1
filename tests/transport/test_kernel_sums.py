"""Different ways to compute the same sums, and the solvers that use them."""

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import wassloss as wl
from tests.generators import OBJECTIVE_NAMES, OBJECTIVES, is_finite, random_masses, random_metric
from tests.oracles import INF, convex
from wassloss import _memory
from wassloss.ground import Cost, Grid, GroundMetric
from wassloss.transport import Newton, Sinkhorn
from wassloss.transport.algorithm_one import AlgorithmOne
from wassloss.transport.conditions import Conditions, conclude
from wassloss.transport.kernel_sums import (
    AxisLogSums,
    BlockLogSums,
    KernelSums,
    Products,
    kernel_sums_of,
)
from wassloss.transport.newton.lockstep import DenseConditions
from wassloss.transport.objective import Objective, Regularizer
from wassloss.transport.precision import LARGEST_EXPONENT
from wassloss.transport.problem import Problem

F32, F64 = torch.float32, torch.float64
each_objective = pytest.mark.parametrize(("gamma", "regularizer"), OBJECTIVES, ids=OBJECTIVE_NAMES)
each_dtype = pytest.mark.parametrize("dtype", [F32, F64], ids=str)
BALANCED = (INF, INF)


def plane(power: float = 2, norm: Any = "euclidean") -> Grid:
    return Grid((5, 6), norm, [1.0, 0.5], power=power, scale="median").to(dtype=F64)


def asymmetric() -> Cost:
    return Cost(
        torch.rand(30, 30, generator=torch.Generator().manual_seed(3), dtype=F64)
    ).tabulated()


def everything(y: Tensor) -> Tensor:
    return torch.arange(y.shape[1]).unsqueeze(0)


def dense_problem(
    gamma: tuple[float, float] = BALANCED,
    regularizer: str = "plan",
    epsilon: float = 0.1,
    dtype: torch.dtype = F64,
    metric: GroundMetric | None = None,
    batch: int = 4,
) -> Problem:
    """All 30 labels are in the target; prediction and target lack some of them."""
    h, y = random_masses(batch, 30, support=25, seed=1), random_masses(batch, 30, 28, seed=2)
    objective = Objective(epsilon, gamma, Regularizer(regularizer))
    metric = random_metric(30) if metric is None else metric
    return Problem.from_log(h.log().to(dtype), y.to(dtype), everything(y), metric, objective)


def ragged_problem(
    gamma: tuple[float, float] = BALANCED,
    regularizer: str = "plan",
    epsilon: float = 0.1,
    dtype: torch.dtype = F64,
    metric: GroundMetric | None = None,
) -> Problem:
    """Targets with different labels in any order; some repeated, some padding."""
    h, weights = random_masses(4, 30, seed=1), random_masses(4, 14, seed=2)
    support = torch.randint(30, (4, 14), generator=torch.Generator().manual_seed(1))
    support[0, 1] = support[0, 0]
    weights[1, 5:9] = 0
    weights /= weights.sum(1, keepdim=True)
    objective = Objective(epsilon, gamma, Regularizer(regularizer))
    metric = random_metric(30).tabulated() if metric is None else metric
    return Problem.from_log(h.log().to(dtype), weights.to(dtype), support, metric, objective)


# name: problem, the sums to use, and a suitable epsilon
WAYS: dict[str, tuple[Callable[..., Problem], Any, type, float]] = {
    "one kernel": (dense_problem, random_metric(30), Products, 0.1),
    "one kernel, wide range": (dense_problem, random_metric(30), Products, 0.006),
    "one kernel, own supports": (ragged_problem, random_metric(30).tabulated(), Products, 0.1),
    "one kernel, own supports, asymmetric": (ragged_problem, asymmetric(), Products, 0.1),
    "blocks": (ragged_problem, random_metric(30), BlockLogSums, 0.1),
    "shared block": (dense_problem, random_metric(30), BlockLogSums, 0.001),
    "axes, squared": (dense_problem, plane(), Products, 0.1),
    "axes, Manhattan": (dense_problem, plane(1, "manhattan"), Products, 0.1),
    "axes, wide range": (dense_problem, plane(), Products, 0.015),
    "axes, own supports": (ragged_problem, plane(), Products, 0.1),
    "axes in the log domain": (dense_problem, plane(), AxisLogSums, 0.001),
    "axes in the log domain, own supports": (ragged_problem, plane(), AxisLogSums, 0.001),
}
each_way = pytest.mark.parametrize("way", WAYS.values(), ids=list(WAYS))


@each_way
@each_objective
@each_dtype
def test_all_ways_take_the_same_sums(dtype, gamma, regularizer, way):
    make, metric, kind, epsilon = way
    problem = make(gamma, regularizer, epsilon, dtype, metric)
    fast = Conditions.of(problem, kernel_sums_of(problem))
    plain = DenseConditions.over_blocks(problem)
    assert isinstance(fast.sums, kind)
    if isinstance(fast.sums, Products):
        assert len(fast.sums.kernels) == (2 if isinstance(metric, Grid) else 1)
    largest = float(problem.cost().max())
    assert problem.costs.largest >= largest * (1 - 1e-6)
    g = 0.3 * torch.randn(problem.log_y.shape, dtype=dtype)
    rtol = max(1e-12, 4 * torch.finfo(dtype).eps)
    close = {"rtol": rtol, "atol": rtol * (largest + 10 * epsilon)}
    few = torch.tensor([True, False, True, False])
    for a, b, start in ((fast, plain, g), (fast[few], plain[few], g[few])):
        f = b.f_of(start)
        torch.testing.assert_close(a.f_of(start), f, **close)
        close_sum = {"rtol": rtol, "atol": close["atol"] / epsilon}
        torch.testing.assert_close(a.column_log_sum(f), b.column_log_sum(f), **close_sum)


@pytest.mark.one_in(3)
@each_way
@each_objective
def test_sinkhorn_finds_the_optimum_by_all_ways(gamma, regularizer, way):
    make, metric, kind, epsilon = way
    epsilon = epsilon if kind in (AxisLogSums, BlockLogSums) else max(epsilon, 0.02)
    problem = make(gamma, regularizer, epsilon, F64, metric)
    expected = Newton(1e-12).solve(problem)
    found = Sinkhorn(1e-10, max_iterations=100_000).solve(problem)
    assert found.converged.all()
    torch.testing.assert_close(found.value, expected.value, rtol=1e-8, atol=1e-10)
    heavy = problem.log_h > -20
    difference = found.log_gradient() - expected.log_gradient()
    torch.testing.assert_close(
        difference.where(heavy, 0), torch.zeros_like(difference), rtol=0, atol=1e-7
    )
    assert is_finite(found.f, found.g, found.gradient(0), found.log_gradient())


@each_way
@each_dtype
def test_single_precision_ends_where_double_does(dtype, way):
    make, metric, _, epsilon = way
    expected = Newton(1e-11).solve(make(epsilon=max(0.02, epsilon), metric=metric))
    problem = make(epsilon=max(0.02, epsilon), metric=metric, dtype=dtype)
    found = Sinkhorn(1e-6).solve(problem)
    assert found.converged.all()
    assert found.f.dtype == found.value.dtype == dtype
    torch.testing.assert_close(found.value.double(), expected.value, rtol=2e-6, atol=2e-6)


@each_objective
@pytest.mark.parametrize("batch", [1, 2])
def test_a_grid_against_a_convex_solver(batch, gamma, regularizer):
    metric = Grid((2, 3), spacing=[1.0, 0.7], power=2, scale="max").to(dtype=F64)
    h, y = random_masses(batch, 6, seed=1), random_masses(batch, 6, seed=2)
    if gamma != BALANCED:
        y = 2.5 * y
    keywords = {"epsilon": 0.1, "gamma": gamma, "regularizer": regularizer}
    solution = wl.solve(h, y, metric, solver=Sinkhorn(1e-11), **keywords)
    assert isinstance(kernel_sums_of(solution.problem), Products)
    for b in range(batch):
        value, T = convex(
            h[b].numpy(), y[b].numpy(), metric.cost().numpy(), 0.1, gamma, regularizer
        )
        assert float(solution.value[b]) == pytest.approx(value, rel=1e-6, abs=1e-8)
        np.testing.assert_allclose(solution.plan()[b].numpy(), T, atol=2e-4)


@each_objective
def test_the_papers_iterations_take_the_same_sums(gamma, regularizer):
    for metric in (random_metric(30), plane()):
        problem = dense_problem(gamma, regularizer, metric=metric)
        expected = Newton(1e-12).solve(problem)
        found = AlgorithmOne(3000).solve(problem)
        torch.testing.assert_close(found.value, expected.value, rtol=1e-8, atol=1e-10)


def test_a_range_that_products_cannot_hold_goes_to_the_log_domain():
    for metric, inside, outside in (
        (random_metric(30), Products, BlockLogSums),
        (plane(), Products, AxisLogSums),
    ):
        for dtype in (F32, F64):
            limit = float(metric.cost().max()) / LARGEST_EXPONENT[dtype]
            for factor, kind in ((1.01, inside), (0.99, outside)):
                problem = dense_problem(epsilon=factor * limit, metric=metric)
                assert type(kernel_sums_of(problem, dtype)) is kind


@each_dtype
def test_products_hold_the_smallest_sums_of_their_range(dtype):
    metric = random_metric(30)
    epsilon = 1.01 * float(metric.cost().max()) / LARGEST_EXPONENT[dtype]
    problem = dense_problem(epsilon=epsilon, metric=metric)
    sums = kernel_sums_of(problem, dtype)
    assert isinstance(sums, Products)
    log_v = torch.full_like(problem.log_y, -torch.inf)
    log_v[:, 0] = (
        0  # with a single target, the sum at the farthest label is the kernel's least entry
    )
    expected = BlockLogSums(problem.costs.block(), epsilon).log_sum(log_v, over_labels=False)
    found = sums.log_sum(log_v, over_labels=False)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-4 if dtype == F32 else 1e-10)


def test_few_targets_on_a_grid_are_summed_by_their_own_columns():
    metric = Grid((5, 6), power=2)
    for support, kind in ((11, BlockLogSums), (12, Products)):
        y = random_masses(2, support, seed=1)
        labels = torch.arange(support).expand(2, support)
        log_h = random_masses(2, 30, seed=2).log()
        problem = Problem.from_log(log_h, y, labels, metric, Objective(50.0))
        assert type(kernel_sums_of(problem)) is kind


def sums_of_both(sums: KernelSums, problem: Problem) -> tuple[Tensor, Tensor]:
    on_labels = sums.log_sum(problem.log_y, over_labels=False)
    return on_labels, sums.log_sum(problem.log_h, over_labels=True)


def test_large_blocks_are_summed_in_parts(monkeypatch):
    for metric in (random_metric(30), plane()):
        problem = dense_problem(epsilon=1e-3, metric=metric)
        sums = kernel_sums_of(problem)
        whole = sums_of_both(sums, problem)
        monkeypatch.setattr(_memory, "LARGEST_BLOCK", 1000)
        parts = sums_of_both(sums, problem)
        monkeypatch.undo()
        for a, b in zip(whole, parts, strict=True):
            torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-12)


@each_objective
def test_no_matrix_of_all_costs_is_built_for_a_grid(gamma, regularizer, monkeypatch):
    h, y = random_masses(3, 144, seed=1), random_masses(3, 144, seed=2)
    full = Grid((12, 12), power=2, scale="max").to(dtype=F64)
    keywords: dict[str, Any] = {"epsilon": 0.05, "gamma": gamma, "regularizer": regularizer}
    expected = wl.solve(h, y, full.cost(), **keywords, solver=Newton(1e-10))
    monkeypatch.setattr(Grid, "cost_columns", None)
    monkeypatch.setattr(Grid, "distance_columns", None)
    for dtype, close in ((F32, 1e-4), (F64, 1e-7)):
        found = wl.solve(h.to(dtype), y.to(dtype), full, **keywords)
        assert found.converged.all()
        torch.testing.assert_close(found.value.double(), expected.value, rtol=close, atol=close)
    wl.wasserstein(h.requires_grad_(), y, full, **keywords).sum().backward()
    assert is_finite(h.grad)
    nobody = wl.solve(h[:0].detach(), y[:0], full, **keywords)
    assert nobody.value.shape == (0,)


@pytest.mark.parametrize("shape", [(30,), (5, 6), (2, 3, 5), (1, 30), (30, 1)])
@pytest.mark.parametrize(("norm", "power"), [("euclidean", 2), ("manhattan", 1)])
def test_grids_of_any_dimension(shape, norm, power):
    metric = Grid(shape, norm, power=power, scale="max").to(dtype=F64)
    problem = dense_problem(epsilon=0.1, metric=metric)
    table = Problem.from_log(
        problem.log_h, problem.log_y.exp(), problem.support, wl.ground.Matrix(metric.cost()),
        problem.objective,
    )  # fmt: skip
    expected, found = (Sinkhorn(1e-11).solve(p) for p in (table, problem))
    torch.testing.assert_close(found.value, expected.value, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("grid", [plane(), plane(1, "manhattan")], ids=["squared", "Manhattan"])
def test_costs_along_axes_add_up(grid):
    first, second = grid.axis_costs()
    added = first[:, None, :, None] + second[None, :, None, :]
    torch.testing.assert_close(added.reshape(30, 30), grid.cost())


def test_other_costs_have_no_axes():
    for norm, power in itertools.product(("euclidean", "manhattan"), (0, 0.5, 1, 2, 3)):
        separable = (norm, power) in (("euclidean", 2), ("manhattan", 1))
        assert (Grid((3, 4), norm, power=power).axis_costs() is not None) == separable
    assert random_metric(30).axis_costs() is None


# Kernels that are cut off where they would underflow


def steep_problem(
    gamma: tuple[float, float] = BALANCED, regularizer: str = "plan", spread: float = 0.0
) -> Problem:
    """Costs up to thousands of ε, of which plans between near measures use the lowest."""
    metric = random_metric(30).with_cost(power=6)
    h = random_masses(4, 30, seed=1) + 0.01
    h = h / h.sum(1, keepdim=True)
    y = (h.log() + 0.3 * torch.randn(4, 30, dtype=F64)).softmax(1)
    if spread:  # all mass of two examples is far from its target
        here, there = divmod(int(metric.cost().argmax()), 30)
        h[:2], y[:2] = 0.01, 0.01
        h[:2, here] = y[:2, there] = 0.71
    objective = Objective(0.02, gamma, Regularizer(regularizer))
    problem = Problem.from_log(h.log(), y, everything(y), metric, objective)
    assert float(problem.cost().max()) / 0.02 > 2 * LARGEST_EXPONENT[F64]
    return problem


@each_objective
@pytest.mark.parametrize("spread", [0.0, 1.0], ids=["near", "far"])
def test_a_cut_kernel_is_used_where_it_leaves_out_nothing(gamma, regularizer, spread, monkeypatch):
    problem = steep_problem(gamma, regularizer, spread)
    whole = Conditions.of(problem, kernel_sums_of(problem))
    iterated = Sinkhorn()._iterate(whole, None, 1e-11, 100_000)
    expected = conclude(problem, whole, *iterated, 1e-11)
    assert expected.converged.all()
    if not spread:
        torch.testing.assert_close(expected.value, Newton(1e-12).solve(problem).value)
    used: list[bool] = []
    iterate = Sinkhorn._iterate

    def recording(self, conditions, *rest):
        used.append(getattr(conditions.sums, "cut", False))
        return iterate(self, conditions, *rest)

    monkeypatch.setattr(Sinkhorn, "_iterate", recording)
    found = Sinkhorn(1e-11, max_iterations=100_000).solve(problem)
    assert found.converged.all()
    torch.testing.assert_close(found.value, expected.value, rtol=1e-8, atol=1e-9)
    torch.testing.assert_close(found.log_gradient(), expected.log_gradient(), rtol=0, atol=1e-7)
    if not spread:
        assert used == [True]
    elif gamma == BALANCED:  # mass must move far
        assert used == [True, False]


def test_what_a_cut_kernel_neglects_is_bounded():
    problem = steep_problem()
    cut, whole = kernel_sums_of(problem, cut=True), kernel_sums_of(problem)
    assert isinstance(cut, Products)
    assert isinstance(whole, BlockLogSums)
    conditions = Conditions.of(problem, cut)
    for size in (1.0, 10.0, 20.0):
        f, g = (size * torch.randn(4, 30, dtype=F64) for _ in range(2))
        log_u, log_v = conditions.log_u(f), conditions.log_v(g)
        bound = cut.neglected(log_u, log_v)
        for x, over_labels in ((log_v, False), (log_u, True)):
            a, b = (sums.log_sum(x, over_labels=over_labels) for sums in (cut, whole))
            missing = -torch.expm1(a - b).amin(1)
            assert (missing <= bound + 1e-10).all()  # the logarithms themselves are thousands
    assert (bound > 1).any()


def test_a_problem_that_runs_out_of_iterations_is_not_run_again(monkeypatch):
    problem = steep_problem()
    used: list[bool] = []
    iterate = Sinkhorn._iterate

    def recording(self, conditions, *rest):
        used.append(getattr(conditions.sums, "cut", False))
        return iterate(self, conditions, *rest)

    monkeypatch.setattr(Sinkhorn, "_iterate", recording)
    stopped = Sinkhorn(1e-12, max_iterations=3).solve(problem)
    assert not stopped.converged.any()
    assert used == [True]
