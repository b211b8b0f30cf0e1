"""Gradients against finite differences, for every kind of input, in double precision."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import wassloss as wl
from tests.losses.per_example import relaxed_wasserstein_loss, wasserstein_loss
from wassloss.ground import Discrete, Embedding, Matrix, Ordinal, Tree

K = 5
F64 = torch.float64
INF = math.inf

# Solved to much higher accuracy than finite differences resolve.
BALANCED: dict[str, dict[str, Any]] = {
    "exact": {"epsilon": 0.0},
    "plan": {"epsilon": 0.2, "tol": 1e-12},
    "product": {"epsilon": 0.2, "regularizer": "product", "tol": 1e-12},
    "debiased plan": {"epsilon": 0.2, "debiased": True, "tol": 1e-12},
    "debiased product": {
        "epsilon": 0.2,
        "regularizer": "product",
        "debiased": True,
        "tol": 1e-12,
    },
}
FREE = ((INF, 0.0), (0.7, 0.0))  # a target whose masses need not be met: a closed form
RELAXED: dict[str, dict[str, Any]] = {
    f"{regularizer} {gamma}": {
        "epsilon": 0.2,
        "gamma": gamma,
        "regularizer": regularizer,
        "tol": 1e-12,
    }
    for regularizer in ("plan", "product")
    for gamma in ((0.7, 1.3), (INF, 0.7), (0.7, INF), *FREE)
}
ANY = BALANCED | RELAXED


def modes(which: dict[str, dict[str, Any]]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("mode", [pytest.param(v, id=k) for k, v in which.items()])


STEP = 1e-5  # its square, and rounding divided by it, are below the tolerance


def check_gradient(
    loss: Callable[[Tensor], Tensor],
    x: Tensor,
    constrain: Callable[[Tensor], Tensor] = lambda direction: direction,
) -> None:
    """Compare the gradient of `loss` (per example) with differences along random directions."""
    x = x.detach().requires_grad_()
    values = loss(x)
    weights = torch.rand_like(values) + 0.5  # different weights, to detect mixed-up examples
    (gradient,) = torch.autograd.grad((weights * values).sum(), x)
    for _ in range(3):
        direction = constrain(torch.randn_like(x))
        with torch.no_grad():
            ahead, behind = loss(x + STEP * direction), loss(x - STEP * direction)
            expected = (weights * (ahead - behind)).sum() / (2 * STEP)
        along = gradient * direction
        torch.testing.assert_close(
            along.sum(), expected, rtol=0, atol=1e-6 * float(along.abs().sum())
        )


def tangent(direction: Tensor) -> Tensor:
    """Project onto directions of zero total mass, as balanced transport requires."""
    return direction - direction.mean(-1, keepdim=True)


def within_mass(mode: dict[str, Any]) -> Callable[[Tensor], Tensor]:
    return (lambda direction: direction) if "gamma" in mode else tangent


def simplex(*shape: int) -> Tensor:
    # Bounded away from 0, where finite differences of log h are inaccurate.
    x = torch.rand(*shape, dtype=F64) + 0.3
    return x / x.sum(-1, keepdim=True)


def measures(mode: dict[str, Any], *shape: int) -> tuple[Tensor, Tensor]:
    """Equal masses if the transport is balanced, otherwise unequal ones."""
    h, y = simplex(*shape), simplex(*shape)
    return (1.7 * h, 0.8 * y) if "gamma" in mode else (h, y)


def metric() -> Embedding:
    return Embedding(torch.randn(K, 3, dtype=F64), normalize=False, scale="median")


# wl.wasserstein in each of its arguments


@modes(ANY)
def test_in_the_prediction(mode: dict[str, Any]) -> None:
    h, y = measures(mode, 3, K)
    ground = metric()
    check_gradient(lambda h: wl.wasserstein(h, y, ground, **mode), h, within_mass(mode))


@modes(ANY)
def test_in_the_prediction_with_class_ids(mode: dict[str, Any]) -> None:
    ground, ids = metric(), torch.tensor([0, 3, 4])
    check_gradient(
        lambda h: wl.wasserstein(h, ids, ground, **mode), simplex(3, K), within_mass(mode)
    )


@modes(ANY)
def test_in_a_dense_target(mode: dict[str, Any]) -> None:
    h, y = measures(mode, 3, K)
    ground = metric()
    check_gradient(lambda y: wl.wasserstein(h, y, ground, **mode), y, within_mass(mode))


@modes(ANY)
def test_in_the_weights_of_a_sparse_target(mode: dict[str, Any]) -> None:
    h, _ = measures(mode, 2, K)
    ground, weights = metric(), simplex(2, 3)
    indices = torch.tensor([[3, 0, 1], [2, 4, 3]])
    check_gradient(
        lambda w: wl.wasserstein(h, wl.SparseTarget(indices, w), ground, **mode),
        weights,
        within_mass(mode),
    )


@modes(ANY)
@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
def test_in_the_cost_matrix(mode: dict[str, Any], sparse: bool) -> None:
    h, y = measures(mode, 2, K)
    target = wl.SparseTarget(torch.tensor([[3, 0], [2, 4]]), simplex(2, 2)) if sparse else y
    check_gradient(
        lambda M: wl.wasserstein(h, target, Matrix(M), **mode),
        metric().cost(),
        constrain=lambda d: (d + d.T) * (1 - torch.eye(K, dtype=F64)),
    )


@modes(ANY)
@pytest.mark.parametrize("power", [1.0, 2.0])
def test_in_the_vectors_of_an_embedding(mode: dict[str, Any], power: float) -> None:
    h, y = measures(mode, 2, K)
    check_gradient(
        lambda v: wl.wasserstein(h, y, Embedding(v, power=power), **mode),
        torch.randn(K, 3, dtype=F64),
    )


@modes(ANY)
@pytest.mark.parametrize("power", [1.0, 2.0])
def test_in_the_positions_of_ordered_labels(mode: dict[str, Any], power: float) -> None:
    h, y = measures(mode, 2, K)
    positions = torch.tensor([0.3, 1.5, -0.8, 2.1, 0.9], dtype=F64)  # further apart than a step
    check_gradient(lambda p: wl.wasserstein(h, y, Ordinal(p, power=power), **mode), positions)


# Exact transport has a solver, and its own potentials, for each structure

STRUCTURES = {
    "line": Ordinal([0.3, 1.5, -0.8, 2.1, 0.9]),
    "line, power 2": Ordinal([0.3, 1.5, -0.8, 2.1, 0.9], power=2),
    "line, power 0.5": Ordinal([0.3, 1.5, -0.8, 2.1, 0.9], power=0.5),
    "tree": Tree([-1, 0, 0, 1, 1, 1, 2, 2], lengths=[0, 1, 0.5, 0.3, 1.2, 0.7, 2, 0.4]),
    "0-1": Discrete(K),
}
structures = pytest.mark.parametrize(
    "ground", [pytest.param(v, id=k) for k, v in STRUCTURES.items()]
)


@structures
def test_exact_in_prediction_and_target(ground: wl.ground.GroundMetric) -> None:
    h, y = simplex(4, K), simplex(4, K)
    check_gradient(lambda h: wl.wasserstein(h, y, ground), h, tangent)
    check_gradient(lambda y: wl.wasserstein(h, y, ground), y, tangent)


# Jointly: prediction, target and cost change together, and so does the mass


JOINT_MASSES = [1.0, 2.5, 0.3]


def check_joint_gradient(
    loss: Callable[..., Tensor], point: list[Tensor], directions: list[Tensor]
) -> None:
    """Compare differences along one direction in all arguments with the sum of their gradients."""
    point = [x.detach().requires_grad_() for x in point]
    values = loss(*point)
    weights = torch.rand_like(values) + 0.5
    gradients = torch.autograd.grad((weights * values).sum(), point)
    along = [(g * d).sum() for g, d in zip(gradients, directions, strict=True)]
    with torch.no_grad():
        ahead, behind = (
            loss(*(x + step * d for x, d in zip(point, directions, strict=True)))
            for step in (STEP, -STEP)
        )
        expected = (weights * (ahead - behind)).sum() / (2 * STEP)
    size = sum(float((g * d).abs().sum()) for g, d in zip(gradients, directions, strict=True))
    torch.testing.assert_close(sum(along), expected, rtol=0, atol=1e-6 * (size + 1))


def joint_directions(h: Tensor, y: Tensor, cost: Tensor, balanced: bool) -> list[Tensor]:
    """Random directions; in balanced transport, with the same mass added on both sides."""
    along_h, along_y = torch.randn_like(h), torch.randn_like(y)
    if balanced:
        made = along_h.sum(-1, keepdim=True) - along_y.sum(-1, keepdim=True)
        along_y = along_y + made / y.shape[-1]
    along_cost = torch.randn_like(cost)
    along_cost = (along_cost + along_cost.T) * (1 - torch.eye(len(cost), dtype=F64))
    return [along_h, along_y, along_cost]


@modes(ANY)
@pytest.mark.parametrize("mass", JOINT_MASSES)
@pytest.mark.parametrize("kind", ["dense", "sparse", "one label"])
def test_in_prediction_target_and_cost_together(
    mode: dict[str, Any], mass: float, kind: str
) -> None:
    support = {"dense": K, "sparse": 3, "one label": 1}[kind]
    indices = torch.stack([torch.randperm(K)[:support] for _ in range(3)])
    h, y, cost = mass * simplex(3, K), mass * simplex(3, support), metric().cost()
    if "gamma" in mode:
        y = 0.6 * y

    def loss(h: Tensor, y: Tensor, cost: Tensor) -> Tensor:
        target = y if kind == "dense" else wl.SparseTarget(indices, y)
        return wl.wasserstein(h, target, Matrix(cost), **mode)

    for _ in range(3):
        directions = joint_directions(h, y, cost, "gamma" not in mode)
        check_joint_gradient(loss, [h, y, cost], directions)


@modes(BALANCED)
@pytest.mark.parametrize("mass", JOINT_MASSES)
@structures
def test_on_structures_in_prediction_and_target_together(
    mode: dict[str, Any], mass: float, ground: wl.ground.GroundMetric
) -> None:
    h, y = mass * simplex(3, K), mass * simplex(3, K)
    zero = torch.zeros(K, K, dtype=F64)
    for _ in range(3):
        along_h, along_y, _ = joint_directions(h, y, zero, balanced=True)
        check_joint_gradient(
            lambda h, y: wl.wasserstein(h, y, ground, **mode), [h, y], [along_h, along_y]
        )


@modes(RELAXED)
def test_of_a_relaxed_loss_in_logs_target_and_cost_together(mode: dict[str, Any]) -> None:
    log_h, y, cost = torch.randn(3, K, dtype=F64), 2.5 * simplex(3, K), metric().cost()
    directions = joint_directions(log_h, y, cost, balanced=False)
    check_joint_gradient(
        lambda log_h, y, cost: relaxed_wasserstein_loss(
            log_h, y, Matrix(cost), kl_weight=0.3, **mode
        ),
        [log_h, y, cost],
        directions,
    )


# The edge of the simplex: one-sided differences


def check_one_sided(loss: Callable[[Tensor], Tensor], x: Tensor, onto: int) -> None:
    """Move a little mass onto a label without mass, from one that has some."""
    direction = torch.zeros_like(x)
    direction[..., onto], direction[..., 0] = 1.0, -1.0
    x = x.detach().requires_grad_()
    (gradient,) = torch.autograd.grad(loss(x).sum(), x)
    with torch.no_grad():
        points = [loss(x + n * STEP * direction).sum() for n in range(4)]
    coefficients = (-11 / 6, 3, -3 / 2, 1 / 3)  # third order, from one side
    expected = sum(c * p for c, p in zip(coefficients, points, strict=True)) / STEP
    torch.testing.assert_close((gradient * direction).sum(), expected, rtol=1e-6, atol=1e-8)


WITH_ZEROS = torch.tensor([[0.5, 0.0, 0.3, 0.2, 0.0], [0.4, 0.0, 0.1, 0.1, 0.4]], dtype=F64)
# The plan's own entropy has an infinite slope at zero, which cancels in the divergence. With a
# small epsilon the slope changes within e^{−M/ε} of zero, too close for finite differences.
SMOOTH_AT_ZERO = {
    name: mode | {"epsilon": 1.0}
    for name, mode in ANY.items()
    if "product" in name or name == "debiased plan"
}


@modes(SMOOTH_AT_ZERO)
def test_in_the_target_at_labels_without_weight(mode: dict[str, Any]) -> None:
    ground, h = metric(), simplex(2, K)
    check_one_sided(lambda y: wl.wasserstein(h, y, ground, **mode), WITH_ZEROS, onto=1)


@modes(SMOOTH_AT_ZERO)
def test_in_the_prediction_at_labels_without_mass(mode: dict[str, Any]) -> None:
    ground, y = metric(), simplex(2, K)
    check_one_sided(lambda h: wl.wasserstein(h, y, ground, **mode), WITH_ZEROS, onto=1)


@structures
def test_exact_at_labels_without_weight(ground: wl.ground.GroundMetric) -> None:
    other = simplex(2, K)
    check_one_sided(lambda y: wl.wasserstein(other, y, ground), WITH_ZEROS, onto=1)
    check_one_sided(lambda h: wl.wasserstein(h, other, ground), WITH_ZEROS, onto=1)


@modes(ANY)
def test_finite_where_both_sides_have_zeros(mode: dict[str, Any]) -> None:
    h = WITH_ZEROS.clone().requires_grad_()
    y = WITH_ZEROS.flip(1).clone().requires_grad_()
    wl.wasserstein(h, y, metric(), **mode).sum().backward()
    assert h.grad is not None
    assert y.grad is not None
    assert h.grad.isfinite().all()
    assert y.grad.isfinite().all()


# Losses of network outputs


def targets(mass: float) -> dict[str, Any]:
    dense = mass * WITH_ZEROS
    return {
        "ids": torch.tensor([4, 1]),
        "dense": dense,
        "SparseTarget": wl.SparseTarget(
            torch.tensor([[2, 0], [1, 1]]),
            mass * torch.tensor([[0.25, 0.75], [1.0, 0.0]], dtype=F64),
        ),
        "COO": dense.to_sparse(),
    }


kinds = pytest.mark.parametrize("kind", targets(1.0))
kl_weights = pytest.mark.parametrize("kl_weight", [0.0, 0.3])


@modes(BALANCED)
@kinds
@kl_weights
def test_in_the_logits(mode: dict[str, Any], kind: str, kl_weight: float) -> None:
    ground, target = metric(), targets(1.0)[kind]
    check_gradient(
        lambda x: wasserstein_loss(x, target, ground, kl_weight=kl_weight, **mode),
        torch.randn(2, K, dtype=F64),
    )


@modes(RELAXED)
@kinds
@kl_weights
def test_in_the_log_masses(mode: dict[str, Any], kind: str, kl_weight: float) -> None:
    ground, target = metric(), targets(1.7)[kind]
    check_gradient(
        lambda x: relaxed_wasserstein_loss(x, target, ground, kl_weight=kl_weight, **mode),
        torch.randn(2, K, dtype=F64),
    )


@modes(BALANCED)
def test_in_a_target_that_the_loss_normalizes(mode: dict[str, Any]) -> None:
    ground, logits = metric(), torch.randn(2, K, dtype=F64)
    check_gradient(
        lambda y: wasserstein_loss(logits, y, ground, kl_weight=0.3, normalize_target=True, **mode),
        3 * simplex(2, K),
    )


@modes(RELAXED)
def test_in_a_target_of_any_mass(mode: dict[str, Any]) -> None:
    ground, log_h = metric(), torch.randn(2, K, dtype=F64)
    check_gradient(
        lambda y: relaxed_wasserstein_loss(log_h, y, ground, kl_weight=0.3, **mode),
        3 * simplex(2, K),
    )


@kl_weights
def test_finite_in_a_target_with_zeros(kl_weight: float) -> None:
    y = WITH_ZEROS.clone().requires_grad_()
    logits = torch.randn(2, K, dtype=F64)
    loss = wasserstein_loss(logits, y, metric(), epsilon=0.2, kl_weight=kl_weight)
    (gradient,) = torch.autograd.grad(loss.sum(), y)
    assert gradient.isfinite().all()


def test_of_the_module_is_that_of_its_mean() -> None:
    ground, target = metric(), WITH_ZEROS
    loss_fn = wl.WassersteinLoss(
        ground, epsilon=0.2, kl_weight=0.3, tol=1e-12, normalize_cost=False
    )
    check_gradient(lambda x: loss_fn(x, target), torch.randn(2, K, dtype=F64))
    relaxed = wl.RelaxedWassersteinLoss(ground, kl_weight=0.3, tol=1e-12, normalize_cost=False)
    check_gradient(lambda x: relaxed(x, target), torch.randn(2, K, dtype=F64))


# Extremes

EXTREME = {
    "exact": {"epsilon": 0.0},
    "plan": {},
    "product": {"regularizer": "product"},
    "debiased": {"debiased": True},
    "iterations": {"scaling_iterations": 10},
    "kl": {"kl_weight": 1.0},
}


def extreme_logits() -> dict[str, Tensor]:
    ruled_out = torch.randn(3, K)
    ruled_out[:, 2] = -INF
    ramp = torch.tensor([-1e4, 0.0, 1e4, 5e3, -5e3])
    return {
        "one class certain": torch.tensor([1e4, 0.0, 0.0, 0.0, 0.0]).repeat(3, 1),
        "one class hopeless": torch.tensor([-1e4, 0.0, 0.0, 0.0, 0.0]).repeat(3, 1),
        "±1e4": torch.stack([ramp, ramp.roll(1), -ramp]),
        "one class ruled out": ruled_out,
        "all equal": torch.zeros(3, K),
    }


@modes(EXTREME)
@pytest.mark.parametrize("which", extreme_logits())
@pytest.mark.parametrize("kind", ["ids", "dense", "SparseTarget"])
def test_finite_and_the_same_in_both_precisions_at_extreme_logits(
    mode: dict[str, Any], which: str, kind: str
) -> None:
    target = {
        "ids": torch.tensor([0, 1, 4]),
        "dense": torch.tensor([[0.55, 0, 0, 0.45, 0], [0, 1, 0, 0, 0], [0.15, 0.3, 0, 0.28, 0.27]]),
        "SparseTarget": wl.SparseTarget(
            torch.tensor([[0, 1], [3, 0], [4, 0]]),
            torch.tensor([[0.5, 0.5], [1.0, 0.0], [0.3, 0.7]]),
        ),
    }[kind]
    given, gradients = extreme_logits()[which], []
    for dtype in (torch.float32, F64):
        logits = given.to(dtype).clone().requires_grad_()
        loss = wl.WassersteinLoss(Ordinal(K), **{"kl_weight": 0.0, **mode}, normalize_cost=False)(
            logits, target
        )
        loss.backward()
        assert loss.isfinite()
        assert logits.grad is not None
        assert logits.grad.isfinite().all()
        gradients.append(logits.grad)
    torch.testing.assert_close(gradients[0].to(F64), gradients[1], rtol=0, atol=3e-5)


@modes(
    {"plan": {}, "product": {"regularizer": "product"}, "iterations": {"scaling_iterations": 10}}
)
@pytest.mark.parametrize("low", [-1e4, -INF], ids=["-1e4", "-inf"])
def test_finite_where_predicted_mass_vanished(mode: dict[str, Any], low: float) -> None:
    log_h = torch.tensor([[low, 0.0, 1.0, low, -1.0]]).requires_grad_()
    loss = wl.RelaxedWassersteinLoss(Ordinal(K), kl_weight=0.1, **mode, normalize_cost=False)
    value = loss(log_h, torch.tensor([[0.0, 0.5, 0.0, 0.0, 2.0]]))
    value.backward()
    assert value.isfinite()
    assert log_h.grad is not None
    assert log_h.grad.isfinite().all()


@modes(EXTREME)
def test_zero_with_one_label(mode: dict[str, Any]) -> None:
    logits = torch.randn(3, 1, requires_grad=True)
    loss = wl.WassersteinLoss(
        Ordinal(1), reduction="sum", **{"kl_weight": 0.0, **mode}, normalize_cost=False
    )(logits, torch.zeros(3).long())
    loss.backward()
    torch.testing.assert_close(loss.detach(), torch.zeros(()), rtol=0, atol=1e-6)
    torch.testing.assert_close(logits.grad, torch.zeros(3, 1))


def test_the_same_for_each_of_many_identical_examples() -> None:
    logits = torch.randn(1, K).expand(5000, K).clone().requires_grad_()
    y = torch.tensor([[0.5, 0.0, 0.25, 0.25, 0.0]]).expand(5000, K)
    wl.WassersteinLoss(Ordinal(K), kl_weight=0.1, reduction="sum", normalize_cost=False)(
        logits, y
    ).backward()
    assert logits.grad is not None
    assert logits.grad.isfinite().all()
    torch.testing.assert_close(logits.grad, logits.grad[:1].expand_as(logits.grad))


@modes(BALANCED)
@kinds
def test_single_precision_agrees_with_double(mode: dict[str, Any], kind: str) -> None:
    mode = {k: v for k, v in mode.items() if k != "tol"}
    ground, target, logits = metric(), targets(1.0)[kind], torch.randn(2, K, dtype=F64)
    gradients = []
    for dtype in (torch.float32, F64):
        x = logits.to(dtype).requires_grad_()
        wasserstein_loss(x, target, ground, kl_weight=0.1, **mode).sum().backward()
        assert x.grad is not None
        assert x.grad.dtype == dtype
        gradients.append(x.grad)
    # Potentials may be off by the default tolerance in single precision, 1e-5.
    torch.testing.assert_close(gradients[0].to(F64), gradients[1], rtol=0, atol=3e-5)


# The paper's Algorithm 1, transcribed


def algorithm_one(h: Any, y: Any, M: Any, lam: float, iterations: int) -> Any:
    K_ = np.exp(-lam * M - 1)
    u = np.ones_like(h)
    for _ in range(iterations):
        u = h / (K_ @ (y / (K_.T @ u)))
    return np.log(u) / lam - np.log(u).sum() / (lam * len(u))


def algorithm_one_relaxed(
    h: Any, y: Any, M: Any, lam: float, gamma: tuple[float, float], iterations: int
) -> Any:
    K_ = np.exp(-lam * M - 1)
    power_a, power_b = (1.0 if g == INF else g * lam / (g * lam + 1) for g in gamma)
    u = np.ones_like(h)
    for _ in range(iterations):
        v = (y / (K_.T @ u)) ** power_b
        u = (h / (K_ @ v)) ** power_a
    v = (y / (K_.T @ u)) ** power_b
    T = u[:, None] * K_ * v
    return np.log(u) / lam if gamma[0] == INF else gamma[0] * (1 - T.sum(1) / h)


@pytest.mark.parametrize("iterations", [1, 2, 10])
@pytest.mark.parametrize("kind", ["ids", "dense", "SparseTarget"])
def test_fixed_iterations_return_the_papers_gradient(iterations: int, kind: str) -> None:
    ground, epsilon = metric(), 0.3
    target = targets(1.0)[kind]
    logits = torch.randn(2, K, dtype=F64, requires_grad=True)
    loss = wasserstein_loss(logits, target, ground, epsilon=epsilon, scaling_iterations=iterations)
    (gradient,) = torch.autograd.grad(loss.sum(), logits)

    masses = logits.detach().softmax(1).requires_grad_()
    distance = wl.wasserstein(
        masses, target, ground, epsilon=epsilon, scaling_iterations=iterations
    )
    (gradient_in_h,) = torch.autograd.grad(distance.sum(), masses)

    h, M = masses.detach().numpy(), ground.cost().numpy()
    for i, y in enumerate(dense(target)):
        in_h = algorithm_one(h[i], y.numpy(), M, 1 / epsilon, iterations)
        np.testing.assert_allclose(gradient_in_h[i].numpy(), in_h, rtol=1e-10, atol=1e-13)
        in_logits = h[i] * (in_h - h[i] @ in_h)  # through the softmax
        np.testing.assert_allclose(gradient[i].numpy(), in_logits, rtol=1e-10, atol=1e-13)


@pytest.mark.parametrize("iterations", [1, 2, 10])
@pytest.mark.parametrize("kind", ["ids", "dense", "SparseTarget"])
@pytest.mark.parametrize("gamma", [(0.7, 1.3), (INF, 0.7), (0.7, INF)], ids=str)
def test_fixed_relaxed_iterations_return_the_papers_gradient(
    iterations: int, kind: str, gamma: tuple[float, float]
) -> None:
    ground, epsilon = metric(), 0.3
    target = targets(1.7)[kind]
    log_h = torch.randn(2, K, dtype=F64, requires_grad=True)
    loss = relaxed_wasserstein_loss(
        log_h, target, ground, epsilon=epsilon, gamma=gamma, scaling_iterations=iterations
    )
    (gradient,) = torch.autograd.grad(loss.sum(), log_h)

    h, M = log_h.detach().exp().numpy(), ground.cost().numpy()
    for i, y in enumerate(dense(target)):
        in_h = algorithm_one_relaxed(h[i], y.numpy(), M, 1 / epsilon, gamma, iterations)
        np.testing.assert_allclose(gradient[i].numpy(), h[i] * in_h, rtol=1e-10, atol=1e-13)


ITERATED = {k: v for k, v in ANY.items() if k != "exact" and v.get("gamma", INF) not in FREE}


@modes(ITERATED)
def test_many_fixed_iterations_approach_the_gradient_of_the_optimum(mode: dict[str, Any]) -> None:
    ground, (h, y) = metric(), measures(mode, 2, K)
    fixed = {k: v for k, v in mode.items() if k != "tol"} | {"scaling_iterations": 2000}
    h.requires_grad_()
    results = [wl.wasserstein(h, y, ground, **keywords) for keywords in (mode, fixed)]
    torch.testing.assert_close(results[0], results[1], rtol=1e-9, atol=1e-11)
    gradients = [torch.autograd.grad(value.sum(), h)[0] for value in results]
    torch.testing.assert_close(gradients[0], gradients[1], rtol=1e-9, atol=1e-11)


def dense(target: Any) -> Tensor:
    if isinstance(target, wl.SparseTarget):
        return torch.zeros(2, K, dtype=F64).scatter_add(1, target.indices, target.weights)
    if target.is_floating_point():
        return target.to_dense() if target.is_sparse else target
    return torch.nn.functional.one_hot(target, K).to(F64)
