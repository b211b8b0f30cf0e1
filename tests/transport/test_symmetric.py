"""A measure to itself: averaged updates agree with the general solvers."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import wassloss as wl
from tests.generators import REGULARIZERS, is_finite, random_masses, random_metric
from tests.losses.per_example import wasserstein_loss
from tests.oracles import convex
from wassloss import ConvergenceWarning, SparseTarget
from wassloss.ground import Embedding, Grid, GroundMetric, Matrix, Ordinal
from wassloss.transport import Newton
from wassloss.transport.dispatch import solve_problem
from wassloss.transport.objective import Objective, Regularizer
from wassloss.transport.problem import Problem
from wassloss.transport.sinkhorn import Symmetric

F32, F64 = torch.float32, torch.float64
each_regularizer = pytest.mark.parametrize("regularizer", REGULARIZERS)


def uneven_costs() -> Matrix:
    """Symmetric costs without triangle inequality or positive kernel."""
    cost = torch.rand(30, 30, generator=torch.Generator().manual_seed(1), dtype=F64)
    return Matrix((cost + cost.T).fill_diagonal_(0))


METRICS: dict[str, GroundMetric] = {
    "vectors": random_metric(30),
    "table": random_metric(30).tabulated(),
    "grid": Grid((5, 6), power=2, scale="median").to(dtype=F64),
    "line": Ordinal(30, scale="median").to(dtype=F64),
    "any costs": uneven_costs(),
}
each_metric = pytest.mark.parametrize("metric", METRICS.values(), ids=list(METRICS))


def itself(
    metric: GroundMetric, regularizer: str, epsilon: float, dtype: torch.dtype = F64
) -> Problem:
    h = random_masses(3, 30, support=20, seed=1)
    h[1] = random_masses(1, 30, seed=2)
    everything = torch.arange(30).unsqueeze(0)
    objective = Objective(epsilon, regularizer=Regularizer(regularizer))
    return Problem.from_log(h.log().to(dtype), h.to(dtype), everything, metric, objective)


@each_metric
@each_regularizer
@pytest.mark.parametrize("epsilon", [0.0005, 0.02, 0.3, 20.0])
def test_it_ends_where_newton_does(metric, regularizer, epsilon):
    problem = itself(metric, regularizer, epsilon)
    expected = Newton(1e-12).solve(problem)
    found = Symmetric(1e-11).solve(problem)
    assert found.converged.all()
    torch.testing.assert_close(found.value, expected.value, rtol=1e-9, atol=1e-10)
    # At tiny ε labels decouple: each potential is almost free, but their sum is not.
    heavy = problem.log_h > -20
    difference = (found.f + found.g - expected.f - expected.g)[heavy]
    torch.testing.assert_close(difference, torch.zeros_like(difference), rtol=0, atol=1e-8)


@pytest.mark.parametrize("epsilon", [0.0005, 0.005, 0.1, 10.0])
def test_some_tens_of_iterations_at_any_epsilon(epsilon):
    for name in ("vectors", "grid", "line"):
        solution = Symmetric(1e-10).solve(itself(METRICS[name], "plan", epsilon))
        assert solution.n_iterations.max() <= 50


@each_regularizer
def test_against_a_convex_solver(regularizer):
    metric, h = random_metric(6), random_masses(2, 6, seed=1)
    everything = torch.arange(6).unsqueeze(0)
    objective = Objective(0.1, regularizer=Regularizer(regularizer))
    problem = Problem.from_log(h.log(), h, everything, metric, objective)
    solution = Symmetric(1e-11).solve(problem)
    for b in range(2):
        mass = h[b].numpy()
        value, T = convex(mass, mass, metric.cost().numpy(), 0.1, regularizer=regularizer)
        assert float(solution.value[b]) == pytest.approx(value, rel=1e-6)
        np.testing.assert_allclose(solution.plan()[b].numpy(), T, atol=2e-4)


@pytest.mark.parametrize("epsilon", [0.001, 0.1, 1.0])
def test_single_precision_ends_where_double_does(epsilon):
    expected = Symmetric(1e-11).solve(itself(METRICS["vectors"], "plan", epsilon))
    found = Symmetric(1e-5).solve(itself(METRICS["vectors"], "plan", epsilon, F32))
    assert found.converged.all()
    assert found.f.dtype == F32
    torch.testing.assert_close(found.value.double(), expected.value, rtol=1e-5, atol=1e-5)


def test_running_out_of_iterations_is_told():
    problem = itself(METRICS["vectors"], "plan", 0.1)
    with pytest.warns(ConvergenceWarning, match="`max_iterations` was reached"):
        solution = solve_problem(problem, Symmetric(1e-10, max_iterations=3))
    assert solution.n_iterations.max() == 3
    assert (solution.error[~solution.converged] > 1e-10).all()
    h, y = random_masses(2, 30, seed=1), random_masses(2, 30, support=4, seed=2)
    with pytest.warns(ConvergenceWarning):
        wl.wasserstein(h, y, METRICS["vectors"], epsilon=0.1, debiased=True, max_iterations=2)


def test_only_measures_against_themselves_are_taken():
    problem = itself(METRICS["vectors"], "plan", 0.1)
    assert Symmetric.applies(problem)
    relaxed = Objective(0.1, (1.0, 1.0))
    wide = Problem.from_log(
        problem.log_h, problem.log_h.exp(), problem.support, problem.metric, relaxed
    )
    with pytest.raises(ValueError, match="solver must fit the problem"):
        solve_problem(wide, Symmetric())


# The divergence that uses it


def divergence(h: Tensor, y: Any, metric: GroundMetric, **keywords: Any) -> Tensor:
    """All three terms by one general solver, over all labels."""
    return wl.wasserstein(h, y, metric, debiased=True, solver=Newton(1e-12), **keywords)


@each_metric
@each_regularizer
@pytest.mark.parametrize("dense", [False, True], ids=["sparse", "dense"])
def test_the_divergence_and_its_gradients_are_those_of_general_solvers(metric, regularizer, dense):
    h = random_masses(4, 30, seed=1).requires_grad_()
    if dense:
        y = random_masses(4, 30, seed=2).requires_grad_()
        weights, target = y, y
    else:
        weights = random_masses(4, 5, support=4, seed=2).requires_grad_()  # one is padding
        labels = torch.stack([torch.randperm(30)[:5] for _ in range(4)])
        target = SparseTarget(labels, weights)
    keywords: dict[str, Any] = {"epsilon": 0.05, "regularizer": regularizer}
    expected = divergence(h, target, metric, **keywords)
    found = wl.wasserstein(h, target, metric, debiased=True, tol=1e-11, **keywords)
    torch.testing.assert_close(found, expected, rtol=1e-8, atol=1e-9)
    scale = torch.tensor([1.0, 2.0, -1.0, 0.5], dtype=F64)
    ours, theirs = (
        torch.autograd.grad((value * scale).sum(), (h, weights)) for value in (found, expected)
    )
    for a, b, masses in zip(ours, theirs, (h, weights), strict=True):
        assert is_finite(a)
        # Balanced gradients are meaningful along the simplex, where there is mass.
        at = masses.detach() > 0
        difference = (a - b).where(at, torch.nan)
        difference = (difference - difference.nanmean(1, keepdim=True))[at]
        torch.testing.assert_close(difference, torch.zeros_like(difference), rtol=0, atol=1e-7)


@each_regularizer
def test_a_metric_learns_as_with_general_solvers(regularizer):
    points = torch.randn(12, 3, dtype=F64)
    h, y = random_masses(3, 12, seed=1), random_masses(3, 12, support=4, seed=2)
    gradients = []
    for keywords in ({"solver": Newton(1e-12)}, {"tol": 1e-11}):
        given = points.clone().requires_grad_()
        metric = Embedding(given, normalize=False, power=2)
        value = wl.wasserstein(
            h, y, metric, epsilon=0.3, debiased=True, regularizer=regularizer, **keywords
        )
        gradients += torch.autograd.grad(value.sum(), given)
    torch.testing.assert_close(gradients[1], gradients[0], rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("batch", [0, 1, 3])
@pytest.mark.parametrize("dtype", [F32, F64], ids=str)
def test_batches_of_any_size(batch, dtype):
    logits = torch.randn(batch, 30, dtype=dtype, requires_grad=True)
    for target in (torch.arange(batch), torch.full((batch, 30), 1 / 30, dtype=dtype)):
        loss = wasserstein_loss(logits, target, METRICS["table"], epsilon=0.1, debiased=True)
        assert loss.shape == (batch,)
        (gradient,) = torch.autograd.grad(loss.sum(), logits)
        assert is_finite(gradient)


def test_a_target_is_compared_with_itself_among_its_own_labels(monkeypatch):
    metric = METRICS["table"]
    h = random_masses(4, 30, seed=1)
    target = SparseTarget(torch.arange(20).reshape(4, 5), random_masses(4, 5, seed=2))
    seen: list[tuple[int, ...]] = []
    solve = Symmetric.solve

    def recording(self: Symmetric, problem: Problem) -> Any:
        seen.append(tuple(problem.cost().shape))
        return solve(self, problem)

    monkeypatch.setattr(Symmetric, "solve", recording)
    wl.wasserstein(h, target, metric, epsilon=0.1, debiased=True)
    assert seen == [(4, 30, 30), (4, 5, 5)]


@each_metric
@pytest.mark.parametrize("support", [3, 10, 30])
def test_the_order_of_a_targets_labels_does_not_matter(metric, support):
    h, weights = random_masses(1, 30, seed=1), random_masses(1, support, seed=2)
    labels = torch.randperm(30)[:support].unsqueeze(0)
    y = torch.zeros(1, 30, dtype=F64).scatter(1, labels, weights)
    expected = divergence(h, y, metric, epsilon=0.1)
    for target in (y, SparseTarget(labels, weights)):
        found = wl.wasserstein(h, target, metric, epsilon=0.1, debiased=True, tol=1e-11)
        torch.testing.assert_close(found, expected, rtol=1e-8, atol=1e-9)


@each_metric
def test_costs_among_a_few_labels(metric, monkeypatch):
    labels = torch.randint(30, (2, 4, 3))
    pairs = labels.unsqueeze(3), labels.unsqueeze(2)
    expected = metric.cost()[pairs]
    torch.testing.assert_close(metric.cost_between(*pairs), expected)
    monkeypatch.setattr("wassloss._memory.LARGEST_COLUMNS", 100)
    torch.testing.assert_close(metric.cost_between(*pairs), expected)
    assert metric.cost_between(*(part[:0] for part in pairs)).shape == (0, 4, 3, 3)
