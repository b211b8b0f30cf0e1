"""The paper's Algorithm 1, against a transcription of it."""

from typing import Any

import numpy as np
import pytest
import torch

import wassloss as wl
from tests.generators import OBJECTIVE_NAMES, OBJECTIVES, is_finite, random_masses, random_metric
from tests.oracles import INF, algorithm_one
from wassloss.ground import Embedding
from wassloss.transport import Status

F64 = torch.float64


def problem(labels: int = 12, support: int | None = 4) -> tuple[torch.Tensor, torch.Tensor, Any]:
    h, y = random_masses(2, labels, seed=1), random_masses(2, labels, support=support, seed=2)
    return h, y, random_metric(labels)


# Laws and limits


@pytest.mark.parametrize(("gamma", "regularizer"), OBJECTIVES, ids=OBJECTIVE_NAMES)
def test_many_iterations_reach_the_optimum(gamma: tuple[float, float], regularizer: str) -> None:
    h, y, metric = problem()
    given: dict[str, Any] = {"epsilon": 0.3, "gamma": gamma, "regularizer": regularizer}
    fixed = wl.solve(h, y, metric, **given, scaling_iterations=2000)
    best = wl.solve(h, y, metric, **given, tol=1e-12)
    for part in ("value", "f", "g"):
        torch.testing.assert_close(getattr(fixed, part), getattr(best, part), rtol=0, atol=1e-9)
    torch.testing.assert_close(fixed.gradient(), best.gradient(), rtol=0, atol=1e-9)
    torch.testing.assert_close(fixed.log_gradient(), best.log_gradient(), rtol=0, atol=1e-9)
    assert (fixed.error < 1e-9).all()


def test_a_fixed_number_of_iterations_makes_no_claim_to_have_converged() -> None:
    h, y, metric = problem()
    solution = wl.solve(h, y, metric, epsilon=0.1, scaling_iterations=7)
    assert solution.status is Status.FIXED_ITERATIONS
    assert solution.n_iterations.tolist() == [7, 7]
    assert not solution.converged.any()
    best = wl.solve(h, y, metric, epsilon=0.1)
    assert (solution.value < best.value).all()
    assert (solution.error > best.error).all()
    # The prediction's marginal is exact, the target's is off by `error`.
    torch.testing.assert_close(solution.plan().sum(2), h)
    torch.testing.assert_close((solution.plan().sum(1) - y).abs().sum(1), solution.error)


# Oracles


@pytest.mark.parametrize("support", [4, None], ids=["sparse", "dense"])
@pytest.mark.parametrize("iterations", [1, 2, 10])
def test_balanced_scalings_and_gradient_are_the_papers(
    iterations: int, support: int | None
) -> None:
    h, y, metric = problem(support=support)
    epsilon = 0.2
    solution = wl.solve(h, y, metric, epsilon=epsilon, scaling_iterations=iterations)
    for b in range(2):
        u, v, gradient = algorithm_one(
            h[b].numpy(), y[b].numpy(), metric.cost().numpy(), 1 / epsilon, iterations
        )
        np.testing.assert_allclose(solution.gradient()[b].numpy(), gradient, rtol=0, atol=1e-10)
        # Ours are centred, so u is multiplied by a constant and v divided by it.
        constant = np.exp(-np.log(u).mean())
        ours_u = np.exp(solution.f[b].numpy() / epsilon)
        ours_v = np.exp(solution.g[b].numpy() / epsilon)
        np.testing.assert_allclose(ours_u, u * constant, rtol=1e-10)
        np.testing.assert_allclose(ours_v, v[solution.support[b]] / constant, rtol=1e-10)


@pytest.mark.parametrize("support", [4, None], ids=["sparse", "dense"])
@pytest.mark.parametrize("iterations", [1, 2, 10])
@pytest.mark.parametrize("gamma", [(0.5, 2.0), (3.0, 0.1)])
def test_relaxed_scalings_and_gradient_are_the_papers(
    iterations: int, support: int | None, gamma: tuple[float, float]
) -> None:
    h, y, metric = problem(support=support)
    y, epsilon = 1.7 * y, 0.2
    solution = wl.solve(h, y, metric, epsilon=epsilon, gamma=gamma, scaling_iterations=iterations)
    for b in range(2):
        u, v, gradient = algorithm_one(
            h[b].numpy(), y[b].numpy(), metric.cost().numpy(), 1 / epsilon, iterations, gamma
        )
        np.testing.assert_allclose(np.exp(solution.f[b].numpy() / epsilon), u, rtol=1e-10)
        ours_v = np.exp(solution.g[b].numpy() / epsilon)
        np.testing.assert_allclose(ours_v, v[solution.support[b]], rtol=1e-10)
        np.testing.assert_allclose(solution.gradient()[b].numpy(), gradient, rtol=0, atol=1e-10)
        in_log = solution.log_gradient()[b].numpy()
        np.testing.assert_allclose(in_log, h[b].numpy() * gradient, rtol=0, atol=1e-10)


def test_the_papers_setting_is_finite_where_plain_scaling_is_not() -> None:
    # The last label is at least 1.15 from the target's, so exp(−50 · 1.15¹³) underflows in float32.
    vectors = torch.tensor([[1.0, 0.0], [0.98, 0.2], [0.9, 0.44], [0.339, -0.941]])
    metric = Embedding(vectors, power=13.0)
    h, y = torch.tensor([[0.4, 0.3, 0.2, 0.1]]), torch.tensor([[0.6, 0.4, 0.0, 0.0]])
    lam, cost = 50.0, metric.cost().numpy()
    assert (np.exp(-np.float32(lam) * cost - np.float32(1))[3, :2] == 0).all()
    with np.errstate(all="ignore"):
        _, _, plain = algorithm_one(h[0].numpy(), y[0].numpy(), cost, np.float32(lam), 10)
    assert plain.dtype == np.float32
    assert not np.isfinite(plain).any()

    solution = wl.solve(h, y, metric, epsilon=1 / lam, scaling_iterations=10)
    assert is_finite(solution.value, solution.f, solution.g, solution.gradient())
    # In double precision that row of the kernel is small but not zero.
    wide = (x.astype(np.float64) for x in (h[0].numpy(), y[0].numpy(), cost))
    _, _, exact = algorithm_one(*wide, lam, 10)
    assert np.isfinite(exact).all()
    np.testing.assert_allclose(solution.gradient()[0].numpy(), exact, rtol=0, atol=3e-6)


@pytest.mark.parametrize("gamma", [(INF, INF), (1.0, 1.0)], ids=["balanced", "relaxed"])
def test_the_papers_setting_is_finite_for_every_label_of_a_large_vocabulary(
    gamma: tuple[float, float],
) -> None:
    h = random_masses(4, 500, seed=1).float()
    y = random_masses(4, 500, support=5, seed=2).float()
    metric = random_metric(500, dimension=20).with_cost(power=13.0)
    solution = wl.solve(h, y, metric, epsilon=0.02, gamma=gamma, scaling_iterations=10)
    assert is_finite(
        solution.value, solution.f, solution.g, solution.gradient(), solution.log_gradient()
    )


@pytest.mark.parametrize("unit", [1e-30, 1e30])
@pytest.mark.parametrize("regularizer", ["plan", "product"])
def test_relaxed_gradients_are_in_units_of_the_cost_however_large(
    regularizer: str, unit: float
) -> None:
    log_h, y = torch.randn(3, 4, dtype=torch.float32), torch.rand(3, 4, dtype=torch.float32)

    def gradient(unit: float) -> torch.Tensor:
        x = log_h.clone().requires_grad_()
        loss_fn = wl.RelaxedWassersteinLoss(
            wl.ground.Ordinal([0.0, unit, 2 * unit, 5 * unit]),
            epsilon=0.5 * unit,
            gamma=(0.3 * unit, 40 * unit),
            kl_weight=0,
            regularizer=regularizer,
            scaling_iterations=5,
            normalize_cost=False,
        )
        (found,) = torch.autograd.grad(loss_fn(x, y), x)
        return found / unit

    torch.testing.assert_close(gradient(unit), gradient(1.0), rtol=1e-4, atol=1e-5)
