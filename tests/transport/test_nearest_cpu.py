"""The compiled pass for free targets: the answers of torch's passes, wherever costs are."""

import math
from contextlib import nullcontext
from dataclasses import replace
from typing import Any
from unittest import mock

import pytest
import torch

import wassloss as wl
from tests.generators import is_finite, random_masses, random_metric
from tests.oracles import INF
from wassloss.kernels import launch
from wassloss.transport import Problem, Solution
from wassloss.transport import closed_forms as nearest
from wassloss.transport.closed_forms import Nearest, compiled_potential, potential
from wassloss.transport.objective import Objective, Regularizer

pytestmark = pytest.mark.skipif(not launch.HAS_NUMBA, reason="needs Numba")

F32, F64 = torch.float32, torch.float64
LABELS, BATCH = 300, 4  # more than a block, and no whole number of them
FREE = (INF, 0.0)

each_dtype = pytest.mark.parametrize("dtype", [F32, F64], ids=["single", "double"])
regularizers = pytest.mark.parametrize("regularizer", ["plan", "product"])
gammas = pytest.mark.parametrize("gamma", [FREE, (0.7, 0.0), (30.0, 0.0)], ids=str)


def a_problem(
    dtype: torch.dtype = F64,
    epsilon: float = 0.1,
    gamma: tuple[float, float] = FREE,
    regularizer: str = "product",
    metric: Any = None,
) -> Problem:
    """Targets of 1, 4, 7 and 9 labels, padded anywhere; two of the last are the same label."""
    generator = torch.Generator().manual_seed(3)
    y = torch.rand(BATCH, 9, dtype=F64, generator=generator)
    for row, n in zip(y, (1, 4, 7), strict=False):
        row[torch.randperm(9, generator=generator)[n:]] = 0
    support = torch.stack([torch.randperm(LABELS, generator=generator)[:9] for _ in y])
    support[3, 2] = support[3, 5]
    h = 2 * random_masses(BATCH, LABELS, support=250, seed=1)
    metric = random_metric(LABELS) if metric is None else metric
    objective = Objective(epsilon, gamma, Regularizer(regularizer))
    return Problem.from_log(h.log().to(dtype), y.to(dtype), support, metric, objective)


def same(one: torch.Tensor, other: torch.Tensor) -> None:
    close = 2e-6 if one.dtype == F32 else 1e-13
    torch.testing.assert_close(one, other, rtol=close, atol=close)


def in_torch() -> Any:
    """A context in which nothing is compiled."""
    return mock.patch("wassloss.kernels.launch.HAS_NUMBA", False)


def both_ways(problem: Problem) -> tuple[Solution, Solution]:
    compiled = Nearest().solve(problem)
    with in_torch():
        return compiled, Nearest().solve(problem)


@each_dtype
@pytest.mark.parametrize("epsilon", [10.0, 0.5, 0.05, 1e-3, 1e-7])
@gammas
@regularizers
def test_equals_the_passes_of_torch(
    regularizer: str, gamma: tuple[float, float], epsilon: float, dtype: torch.dtype
) -> None:
    problem = a_problem(dtype, epsilon, gamma, regularizer)
    compiled, plain = both_ways(problem)
    assert compiled.f.dtype == dtype
    assert is_finite(compiled.f, compiled.value)
    same(compiled.f, plain.f)
    torch.testing.assert_close(compiled.value, plain.value)
    torch.testing.assert_close(compiled.log_gradient(), plain.log_gradient())


@each_dtype
def test_the_least_cost_and_its_plan(dtype: torch.dtype) -> None:
    problem = a_problem(dtype, epsilon=0.0)
    compiled, plain = both_ways(problem)
    assert torch.equal(compiled.f, plain.f)
    assert torch.equal(compiled.value, plain.value)
    plan, h = compiled.support_plan(), problem.log_h.exp()
    torch.testing.assert_close(plan.sum(1), h)
    torch.testing.assert_close((plan * problem.cost()).sum(1), h * compiled.f)
    assert not plan[problem.log_y == -INF].any()


@pytest.mark.parametrize("epsilon", [0.0, 0.1])
def test_costs_in_a_table_of_any_dtype_on_demand_or_shared(epsilon: float) -> None:
    metric = random_metric(LABELS)
    on_demand = a_problem(epsilon=epsilon, metric=metric)
    expected = potential(on_demand)
    for problem in (on_demand, a_problem(epsilon=epsilon, metric=metric.tabulated())):
        same(compiled_potential(problem), expected)
    single = a_problem(F32, epsilon, metric=metric.tabulated())  # of a table in double
    same(compiled_potential(single), potential(single))
    y, everything = random_masses(3, LABELS, support=200, seed=7), torch.arange(LABELS)
    shared = Problem.from_log(y.log(), y, everything.unsqueeze(0), metric, on_demand.objective)
    same(compiled_potential(shared), potential(shared))


@pytest.mark.parametrize("labels", [1, 2, 255, 256, 257])
@pytest.mark.parametrize("epsilon", [0.0, 0.1])
def test_any_number_of_labels(labels: int, epsilon: float) -> None:
    h, metric = random_masses(2, labels, seed=1), random_metric(labels + 1).cost()[:-1, :-1]
    y = random_masses(2, labels, support=min(labels, 3), seed=2)
    compiled = wl.wasserstein(h, y, metric, epsilon=epsilon, gamma=FREE)
    with in_torch():
        same(compiled, wl.wasserstein(h, y, metric, epsilon=epsilon, gamma=FREE))


def test_a_batch_is_the_same_in_pieces_and_on_any_number_of_threads(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    h = random_masses(40, LABELS, seed=1)
    y = random_masses(40, LABELS, support=5, seed=2)
    given: dict[str, Any] = {"epsilon": 0.1, "gamma": FREE, "regularizer": "product"}
    metric = random_metric(LABELS).tabulated()  # the same costs, however many are asked for
    whole = wl.solve(h, y, metric, **given).f
    monkeypatch.setattr("wassloss.transport.closed_forms.WORTH_PASSING", 1)
    assert torch.equal(wl.solve(h, y, metric, **given).f, whole)
    monkeypatch.setattr("wassloss.transport.dispatch.LARGEST_BLOCK", 7 * 5 * LABELS)
    torch.testing.assert_close(wl.solve(h, y, metric, **given).f, whole, rtol=0, atol=1e-12)


def test_weights_too_small_for_a_normal_number_are_small_and_no_less() -> None:
    # The label itself has next to no weight; another at distance 1 has all the rest.
    h, y = torch.tensor([[1.0, 0.0]]), torch.tensor([[1e-40, 1.0]])
    metric = torch.tensor([[0.0, 1.0], [1.0, 0.0]])
    for context in (nullcontext(), in_torch()):
        with context:
            value = wl.wasserstein(h, y, metric, epsilon=1e-3, gamma=FREE, regularizer="product")
        torch.testing.assert_close(value, torch.tensor([-1e-3 * math.log(1e-40)]), rtol=0.1, atol=0)


def test_a_target_without_labels_has_no_potential() -> None:
    problem = a_problem()
    problem.log_y[2] = -INF
    for epsilon in (0.0, 0.1):
        f = compiled_potential(replace(problem, objective=Objective(epsilon, FREE)))
        assert f[2].isnan().all()
        assert f[[0, 1, 3]].isfinite().all()


def test_it_is_compiled_where_it_can_be_and_else_the_passes_of_torch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    problem, used = a_problem(), []
    for name in ("potential", "compiled_potential"):
        run = getattr(nearest, name)
        monkeypatch.setattr(nearest, name, lambda p, n=name, r=run: (used.append(n), r(p))[1])
    both_ways(problem)
    assert used == ["compiled_potential", "potential"]


def test_inside_the_transforms_of_torch_func() -> None:
    metric, y = random_metric(6), random_masses(3, 6, support=2, seed=2)
    logits = torch.randn(3, 6, dtype=F64)
    loss_fn = wl.NearestWassersteinLoss(
        metric, epsilon=0.1, kl_weight=0.2, reduction="sum", own_units=True
    )

    def of_all(x: torch.Tensor) -> torch.Tensor:
        return loss_fn(x, y)

    x = logits.clone().requires_grad_()
    (expected,) = torch.autograd.grad(of_all(x), x)
    torch.testing.assert_close(torch.func.grad(of_all)(logits), expected)
