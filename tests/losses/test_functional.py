"""Laws of the public distances and losses."""

import math
from typing import Any

import numpy as np
import ot
import pytest
import scipy.stats
import torch
from torch import Tensor

import wassloss as wl
from tests.losses.per_example import relaxed_wasserstein_loss, wasserstein_loss
from wassloss.ground import Discrete, Embedding, Grid, GroundMetric, Matrix, Ordinal, Tree

K = 6
F64 = torch.float64


def simplex(*shape: int) -> Tensor:
    x = torch.rand(*shape, dtype=F64)
    return x / x.sum(-1, keepdim=True)


def entropy(h: Tensor) -> Tensor:
    return torch.special.entr(h).sum(1)


def _vectors() -> Tensor:
    return torch.randn(K, 3, generator=torch.Generator().manual_seed(1), dtype=F64)


METRICS: dict[str, GroundMetric] = {
    "line": Ordinal([0.0, 1.0, 1.5, 4.0, 2.0, 7.0], scale="median"),
    "line, power 2": Ordinal([0.0, 1.0, 1.5, 4.0, 2.0, 7.0], power=2, scale="max"),
    "0-1": Discrete(K),
    "tree": Tree([-1, 0, 0, 1, 1, 1, 2, 2, 2], scale="median"),
    "grid": Grid((2, 3)),
    "embedding": Embedding(_vectors()),
}
metrics = pytest.mark.parametrize("metric", [pytest.param(v, id=k) for k, v in METRICS.items()])
regularizers = pytest.mark.parametrize("regularizer", ["plan", "product"])
EMBEDDING = METRICS["embedding"]


# Distances


@metrics
@pytest.mark.parametrize(
    "mode", [{}, {"epsilon": 0.1, "debiased": True, "tol": 1e-11}], ids=["exact", "debiased"]
)
def test_no_measure_is_nearer_than_the_target_itself(
    metric: GroundMetric, mode: dict[str, Any]
) -> None:
    h, y = simplex(4, K), simplex(4, K)
    h[0, 2:4] = 0
    h[0] /= h[0].sum()
    itself = wl.wasserstein(h, h, metric, **mode)
    torch.testing.assert_close(itself, torch.zeros(4, dtype=F64), rtol=0, atol=1e-12)
    assert (wl.wasserstein(h, y, metric, **mode) > 1e-3).all()


@metrics
@pytest.mark.parametrize(
    "mode",
    [
        {},
        {"epsilon": 0.1, "tol": 1e-11},
        {"epsilon": 0.1, "tol": 1e-11, "regularizer": "product"},
        {"epsilon": 0.1, "tol": 1e-11, "debiased": True},
    ],
    ids=["exact", "plan", "product", "debiased"],
)
def test_distances_are_symmetric(metric: GroundMetric, mode: dict[str, Any]) -> None:
    h, y = simplex(3, K), simplex(3, K)
    torch.testing.assert_close(
        wl.wasserstein(h, y, metric, **mode), wl.wasserstein(y, h, metric, **mode)
    )


@regularizers
def test_symmetric_if_the_penalties_are_exchanged_too(regularizer: str) -> None:
    h, y = 2 * simplex(3, K), simplex(3, K)
    keywords: dict[str, Any] = {"epsilon": 0.1, "tol": 1e-11, "regularizer": regularizer}
    torch.testing.assert_close(
        wl.wasserstein(h, y, EMBEDDING, gamma=(0.3, 2.0), **keywords),
        wl.wasserstein(y, h, EMBEDDING, gamma=(2.0, 0.3), **keywords),
    )


def test_triangle_inequality() -> None:
    h, via, y = simplex(50, K), simplex(50, K), simplex(50, K)
    direct = wl.wasserstein(h, y, EMBEDDING)
    detour = wl.wasserstein(h, via, EMBEDDING) + wl.wasserstein(via, y, EMBEDDING)
    assert (direct <= detour + 1e-12).all()


@metrics
def test_values_scale_with_mass(metric: GroundMetric) -> None:
    h, y = simplex(3, K), simplex(3, K)
    expected = wl.wasserstein(h, y, metric)
    for mass in (1e-6, 1e6):
        torch.testing.assert_close(wl.wasserstein(mass * h, mass * y, metric), mass * expected)


@metrics
def test_cost_and_epsilon_share_a_unit(metric: GroundMetric) -> None:
    h, y = simplex(3, K), simplex(3, K)
    matrix = metric.cost().to(F64)
    for epsilon in (0.0, 0.2):
        expected = 100 * wl.wasserstein(h, y, Matrix(matrix), epsilon=epsilon)
        hundredfold = wl.wasserstein(h, y, Matrix(100 * matrix), epsilon=100 * epsilon)
        torch.testing.assert_close(hundredfold, expected)


@pytest.mark.parametrize("epsilon", [0.0, 0.2])
def test_the_order_of_labels_does_not_matter(epsilon: float) -> None:
    h, y, order = simplex(3, K), simplex(3, K), torch.randperm(K)
    permuted = Embedding(_vectors()[order])
    torch.testing.assert_close(
        wl.wasserstein(h[:, order], y[:, order], permuted, epsilon=epsilon),
        wl.wasserstein(h, y, EMBEDDING, epsilon=epsilon),
    )


@pytest.mark.parametrize("power", [1.0, 2.0, 0.5])
def test_translation_costs_its_length(power: float) -> None:
    labels = 20
    shape = torch.zeros(labels, dtype=F64)
    shape[:4] = torch.tensor([0.1, 0.4, 0.3, 0.2], dtype=F64)
    for steps in (1, 5, 16):
        value = wl.wasserstein(shape, shape.roll(steps), Ordinal(labels, power=power))
        if power >= 1:
            assert value == pytest.approx(steps**power, rel=1e-12)
        else:  # a concave cost does not move common mass
            assert value <= steps**power + 1e-12


# Regularisers


@metrics
def test_the_regularizers_differ_by_the_entropies(metric: GroundMetric) -> None:
    h, y, epsilon = simplex(3, K), simplex(3, K), 0.15
    plan = wl.wasserstein(h, y, metric, epsilon=epsilon)
    product = wl.wasserstein(h, y, metric, epsilon=epsilon, regularizer="product")
    torch.testing.assert_close(product, plan + epsilon * (entropy(h) + entropy(y)))


@metrics
def test_the_product_regularizer_costs_no_more_than_an_entropy(metric: GroundMetric) -> None:
    h, y, epsilon = simplex(3, K), simplex(3, K), 0.15
    exact = wl.wasserstein(h, y, metric)
    product = wl.wasserstein(h, y, metric, epsilon=epsilon, regularizer="product")
    assert (product >= exact).all()
    assert (product <= exact + epsilon * torch.minimum(entropy(h), entropy(y))).all()


@metrics
def test_the_divergence_is_the_same_for_both_regularizers(metric: GroundMetric) -> None:
    h, y = simplex(3, K), simplex(3, K)
    plan, product = (
        wl.wasserstein(h, y, metric, epsilon=0.1, debiased=True, regularizer=r, tol=1e-11)
        for r in ("plan", "product")
    )
    torch.testing.assert_close(plan, product)
    assert (plan > 0).all()


@metrics
def test_all_three_parts_of_a_divergence_take_the_iterations_asked_for(
    metric: GroundMetric,
) -> None:
    h, y = simplex(3, K), simplex(3, K)
    keywords: dict[str, Any] = {"epsilon": 0.01, "scaling_iterations": 2}
    between, of_h, of_y = (
        wl.wasserstein(a, b, metric, **keywords) for a, b in ((h, y), (h, h), (y, y))
    )
    found = wl.wasserstein(h, y, metric, debiased=True, **keywords)
    torch.testing.assert_close(found, between - of_h / 2 - of_y / 2)


@metrics
@pytest.mark.parametrize("epsilon", [0.1, 0.01, 0.001])
def test_the_divergence_approaches_the_exact_distance(metric: GroundMetric, epsilon: float) -> None:
    h, y = simplex(3, K), simplex(3, K)
    difference = wl.wasserstein(h, y, metric, epsilon=epsilon, debiased=True) - wl.wasserstein(
        h, y, metric
    )
    assert (difference.abs() <= epsilon * math.log(K)).all()


@metrics
def test_the_divergence_pulls_to_the_target_itself(metric: GroundMetric) -> None:
    y = simplex(3, K)
    logits = y.log().requires_grad_()
    keywords: dict[str, Any] = {"epsilon": 0.1, "debiased": True, "tol": 1e-11}
    (gradient,) = torch.autograd.grad(wasserstein_loss(logits, y, metric, **keywords).sum(), logits)
    torch.testing.assert_close(gradient, torch.zeros_like(gradient), rtol=0, atol=1e-7)


@regularizers
def test_large_penalties_are_constraints(regularizer: str) -> None:
    h, y = simplex(3, K), simplex(3, K)
    keywords: dict[str, Any] = {"epsilon": 0.1, "regularizer": regularizer, "tol": 1e-11}
    balanced = wl.wasserstein(h, y, EMBEDDING, **keywords)
    for gamma in ((1e8, 1e8), (math.inf, 1e8), (1e8, math.inf)):
        relaxed = wl.wasserstein(h, y, EMBEDDING, gamma=gamma, **keywords)
        torch.testing.assert_close(relaxed, balanced, rtol=1e-6, atol=0)


@regularizers
def test_small_penalties_create_and_destroy_mass(regularizer: str) -> None:
    # Mass that is too far away is destroyed and created, at a price of γ per unit.
    h = torch.tensor([[2.0, 0, 0, 0, 0, 0]], dtype=F64)
    value = wl.wasserstein(
        h, torch.tensor([5]), METRICS["line"], epsilon=1e-5, gamma=0.01, regularizer=regularizer
    )
    assert float(value) == pytest.approx(0.01 * (2 + 1), rel=0.01)


@pytest.mark.parametrize(
    "mode",
    [{}, {"epsilon": 0.02}, {"epsilon": 0.02, "debiased": True}, {"epsilon": 0.02, "gamma": 0.5}],
    ids=["exact", "plan", "debiased", "relaxed"],
)
@pytest.mark.parametrize("dtype", [torch.float32, F64], ids=str)
def test_an_example_does_not_depend_on_its_batch(mode: dict[str, Any], dtype: torch.dtype) -> None:
    h, y = simplex(6, K).to(dtype), simplex(6, K).to(dtype)
    y[1:3, 1:] = 0  # one wide support, two narrow ones
    y /= y.sum(1, keepdim=True)
    together = wl.wasserstein(h, y, EMBEDDING, **mode)
    alone = torch.stack([wl.wasserstein(h[i], y[i], EMBEDDING, **mode) for i in range(6)])
    close = 1e-9 if dtype == F64 else 1e-5
    torch.testing.assert_close(together, alone, rtol=close, atol=close)


# Closed forms and other implementations


@metrics
def test_one_hot_targets_are_linear(metric: GroundMetric) -> None:
    h, ids, epsilon = simplex(3, K), torch.tensor([0, 5, 2]), 0.3
    linear = (h * metric.cost()[ids]).sum(1)
    torch.testing.assert_close(wl.wasserstein(h, ids, metric), linear)
    product = wl.wasserstein(h, ids, metric, epsilon=epsilon, regularizer="product")
    torch.testing.assert_close(product, linear)
    plan = wl.wasserstein(h, ids, metric, epsilon=epsilon)
    torch.testing.assert_close(plan, linear - epsilon * entropy(h))


def test_ordered_labels_against_scipy() -> None:
    positions = torch.tensor([0.3, -1.0, 2.5, 2.5, 7.0, 0.9], dtype=F64)
    h, y = simplex(10, K), simplex(10, K)
    expected = [
        scipy.stats.wasserstein_distance(positions, positions, a, b)
        for a, b in zip(h, y, strict=True)
    ]
    torch.testing.assert_close(
        wl.wasserstein(h, y, Ordinal(positions)), torch.tensor(expected, dtype=F64)
    )


@metrics
def test_any_metric_against_pot(metric: GroundMetric) -> None:
    h, y = simplex(5, K), simplex(5, K)
    cost = metric.cost().to(F64).numpy()
    expected = [ot.emd2(a, b, cost) for a, b in zip(h.numpy(), y.numpy(), strict=True)]
    torch.testing.assert_close(wl.wasserstein(h, y, metric), torch.tensor(expected, dtype=F64))


@regularizers
def test_zero_costs_leave_the_marginals_alone(regularizer: str) -> None:
    h, y = simplex(3, K), simplex(3, K)
    nowhere = Matrix(torch.zeros(K, K))
    value = wl.wasserstein(h, y, nowhere, epsilon=0.3, regularizer=regularizer)
    independent = (
        -0.3 * (entropy(h) + entropy(y)) if regularizer == "plan" else torch.zeros_like(value)
    )
    torch.testing.assert_close(value, independent, rtol=1e-7, atol=1e-12)


def test_balanced_losses_are_distances_of_the_softmax() -> None:
    logits, y = torch.randn(3, K, dtype=F64), simplex(3, K)
    keywords: dict[str, Any] = {"epsilon": 0.1, "regularizer": "product"}
    torch.testing.assert_close(
        wasserstein_loss(logits, y, EMBEDDING, **keywords),
        wl.wasserstein(logits.softmax(1), y, EMBEDDING, **keywords),
    )


def test_relaxed_losses_are_distances_of_the_exponential() -> None:
    log_h, y = torch.randn(3, K, dtype=F64), 2 * simplex(3, K)
    keywords: dict[str, Any] = {"epsilon": 0.1, "gamma": (0.5, 2.0), "regularizer": "product"}
    torch.testing.assert_close(
        relaxed_wasserstein_loss(log_h, y, EMBEDDING, **keywords),
        wl.wasserstein(log_h.exp(), y, EMBEDDING, **keywords),
    )


# solve


@metrics
@pytest.mark.parametrize("epsilon", [0.0, 0.1])
def test_a_solution_has_the_value_and_a_plan_with_the_marginals(
    metric: GroundMetric, epsilon: float
) -> None:
    h, y = simplex(3, K), simplex(3, K)
    y[:, 2] = 0
    y /= y.sum(1, keepdim=True)
    solution = wl.solve(h, y, metric, epsilon=epsilon)
    assert solution.converged.all()
    torch.testing.assert_close(solution.value, wl.wasserstein(h, y, metric, epsilon=epsilon))
    plan = solution.plan()
    torch.testing.assert_close(plan.sum(2), h, rtol=0, atol=1e-7)
    torch.testing.assert_close(plan.sum(1), y, rtol=0, atol=1e-7)
    paid = (plan * metric.cost()).sum((1, 2)) - epsilon * torch.special.entr(plan).sum((1, 2))
    torch.testing.assert_close(solution.value, paid, rtol=1e-6, atol=1e-7)


def test_a_solve_that_gives_up_says_so_and_what_to_do() -> None:
    h, y = simplex(3, K), simplex(3, K)
    with pytest.warns(wl.ConvergenceWarning, match="0 of 3 converged.*Raise `max_iterations`"):
        wl.wasserstein(h, y, EMBEDDING, epsilon=0.01, max_iterations=1)
    with pytest.warns(wl.ConvergenceWarning, match="Use float64, raise `epsilon`, or loosen `tol`"):
        wl.wasserstein(h, y, EMBEDDING, epsilon=1e-6, tol=1e-14)


def test_a_fixed_number_of_iterations_does_not_warn() -> None:
    h, y = simplex(3, K), simplex(3, K)
    solution = wl.solve(h, y, EMBEDDING, epsilon=0.01, scaling_iterations=2)
    assert solution.status.name == "FIXED_ITERATIONS"
    assert (solution.error > 1e-3).all()


def test_custom_solver() -> None:
    h, y = simplex(3, K), simplex(3, K)
    sinkhorn = wl.transport.Sinkhorn(tol=1e-10)
    solution = wl.solve(h, y, EMBEDDING, epsilon=0.1, solver=sinkhorn)
    assert (solution.n_iterations > wl.solve(h, y, EMBEDDING, epsilon=0.1).n_iterations).all()
    torch.testing.assert_close(
        wl.wasserstein(h, y, EMBEDDING, epsilon=0.1, solver=sinkhorn),
        wl.wasserstein(h, y, EMBEDDING, epsilon=0.1, tol=1e-10),
    )


@pytest.mark.parametrize("dtype", [torch.half, torch.bfloat16, torch.float32, F64], ids=str)
def test_masses_of_any_precision(dtype: torch.dtype) -> None:
    h, y = simplex(3, K).to(dtype), simplex(3, K).to(dtype)
    value = wl.wasserstein(h, y, EMBEDDING, epsilon=0.1)
    assert value.dtype == (F64 if dtype == F64 else torch.float32)
    wide = [x.to(F64) / x.to(F64).sum(1, keepdim=True) for x in (h, y)]
    expected = wl.wasserstein(*wide, EMBEDDING, epsilon=0.1)
    torch.testing.assert_close(
        value.to(F64), expected, rtol=0, atol=8 * torch.finfo(dtype).eps + 1e-8
    )


# Learning: gradient descent finds a minimum that is known in closed form


def descend(loss: Any, labels: int) -> Tensor:
    x = torch.zeros(1, labels, dtype=F64, requires_grad=True)
    optimizer = torch.optim.LBFGS(
        [x],
        max_iter=300,
        tolerance_grad=1e-12,
        tolerance_change=1e-15,
        line_search_fn="strong_wolfe",
    )

    def closure() -> Tensor:
        optimizer.zero_grad()
        value: Tensor = loss(x)
        value.backward()
        return value

    optimizer.step(closure)
    return x.detach()


@metrics
@pytest.mark.parametrize("weights", [[1.0], [0.5, 0.3, 0.2]], ids=["one label", "three labels"])
def test_a_classifier_learns_the_target_blurred_by_the_kernel(
    metric: GroundMetric, weights: list[float]
) -> None:
    epsilon = 0.5
    target = wl.SparseTarget(
        torch.tensor([[4, 1, 2]])[:, : len(weights)], torch.tensor([weights], dtype=F64)
    )
    kernel = (-metric.cost().to(F64) / epsilon).softmax(0)  # column j: costs of moving to j
    blurred = (kernel[:, target.indices[0]] * target.weights).sum(1, keepdim=True).T

    balanced = wl.WassersteinLoss(
        metric, epsilon=epsilon, tol=1e-11, kl_weight=0.0, normalize_cost=False
    )
    logits = descend(lambda x: balanced(x, target), K)
    torch.testing.assert_close(logits.softmax(1), blurred, rtol=0, atol=1e-6)

    # So does an unnormalised head with a hard constraint on the target only.
    relaxed = wl.RelaxedWassersteinLoss(
        metric, epsilon=epsilon, gamma=(0.5, math.inf), kl_weight=0, tol=1e-11, normalize_cost=False
    )
    log_h = descend(lambda x: relaxed(x, target), K)
    torch.testing.assert_close(log_h.exp(), blurred, rtol=0, atol=1e-6)


@pytest.mark.parametrize("name", ["line", "embedding"])
def test_with_the_divergence_a_classifier_learns_the_target_itself(name: str) -> None:
    y = torch.tensor([[0.1, 0.3, 0.05, 0.25, 0.1, 0.2]], dtype=F64)
    loss_fn = wl.WassersteinLoss(
        METRICS[name], epsilon=0.2, debiased=True, tol=1e-11, kl_weight=0.0, normalize_cost=False
    )
    logits = descend(lambda x: loss_fn(x, y), K)
    torch.testing.assert_close(logits.softmax(1), y, rtol=0, atol=1e-5)


def test_mistakes_get_milder() -> None:
    # Label 0 is mistaken for its neighbour 1 as often as for the far 5; the loss differs.
    near, far = torch.zeros(1, K), torch.zeros(1, K)
    near[0, 1] = far[0, 5] = 3.0
    loss_fn = wl.WassersteinLoss(Ordinal(K), epsilon=0.1, kl_weight=0.0, normalize_cost=False)
    assert loss_fn(near, torch.tensor([0])) < loss_fn(far, torch.tensor([0]))


@pytest.mark.parametrize("number", [np.float32, np.float64, torch.tensor, np.array])
def test_settings_may_be_numbers_of_any_library(number: Any) -> None:
    h, y = torch.tensor([[0.5, 0.2, 0.3]]), torch.tensor([[0.1, 0.6, 0.3]])
    keywords = {"epsilon": 0.125, "tol": 0.0009765625, "gamma": 2.0}
    expected = wl.wasserstein(h, y, wl.ground.Ordinal(3), **keywords)
    held = {name: number(value) for name, value in keywords.items()}
    count = torch.tensor(50) if number is torch.tensor else np.int64(50)
    found = wl.wasserstein(h, y, wl.ground.Ordinal(3), **held, max_iterations=count)
    torch.testing.assert_close(found, expected)
    count = torch.tensor(3) if number is torch.tensor else np.int64(3)
    loss_fn = wl.WassersteinLoss(
        wl.ground.Ordinal(3),
        epsilon=held["epsilon"],
        scaling_iterations=count,
        kl_weight=0.0,
        normalize_cost=False,
    )
    same = wl.WassersteinLoss(
        wl.ground.Ordinal(3),
        epsilon=0.125,
        scaling_iterations=3,
        kl_weight=0.0,
        normalize_cost=False,
    )
    torch.testing.assert_close(loss_fn(h.log(), y), same(h.log(), y))


@pytest.mark.parametrize("epsilon", [1e3, 1e6, 1e9])
@pytest.mark.parametrize("dtype", [torch.float32, F64])
@pytest.mark.parametrize("solver", [None, wl.transport.Newton(), wl.transport.Sinkhorn()])
def test_the_value_is_the_expected_cost_where_the_product_outweighs_costs(
    solver: Any, dtype: torch.dtype, epsilon: float
) -> None:
    # Up to cost² / ε. Potentials within the tolerance times ε would be off by thousands.
    logits = torch.randn(8, K, dtype=dtype, requires_grad=True)
    y, metric = simplex(8, K).to(dtype), Ordinal(K, power=2)
    loss = wl.WassersteinLoss(
        metric,
        epsilon=epsilon,
        kl_weight=0,
        regularizer="product",
        normalize_cost=False,
        solver=solver,
    )
    value = loss(logits, y)
    cost = metric.cost().to(dtype)
    expected = (logits.softmax(1) @ cost * y).sum(1).mean()
    accuracy = float(cost.max()) ** 2 / epsilon + (1e-3 if dtype == torch.float32 else 1e-4)
    torch.testing.assert_close(value, expected, rtol=0, atol=accuracy)
    for found, wanted in zip(slope(value, logits), slope(expected, logits), strict=True):
        torch.testing.assert_close(found, wanted, rtol=0, atol=accuracy)


def slope(value: Tensor, x: Tensor) -> Tensor:
    return torch.autograd.grad(value, x)[0]
