"""The table of conventions in docs/mathematics.md, row by row, against POT."""

from typing import Any

import numpy as np
import ot
import pytest
import torch

import wassloss as wl
from tests.generators import random_masses, random_metric
from wassloss.transport import Newton

K, EPSILON, GAMMA = 6, 0.5, 1.3
CLOSE = {"rel": 1e-10, "abs": 1e-12}
LONG = {"stopThr": 1e-14, "numItermax": 100_000}


@pytest.fixture
def masses() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    h, y = random_masses(1, K, seed=11)[0] + 0.02, random_masses(1, K, seed=12)[0] + 0.02
    return (h / h.sum()).numpy(), (y / y.sum()).numpy(), random_metric(K).cost().numpy()


def ours(h: Any, y: Any, M: Any, **keywords: Any) -> wl.Solution:
    rows = (torch.from_numpy(np.atleast_2d(x)) for x in (h, y))
    solver = Newton(1e-13)
    return wl.solve(*rows, torch.from_numpy(M), epsilon=EPSILON, solver=solver, **keywords)


def plan_of(solution: wl.Solution) -> np.ndarray:
    return solution.plan()[0].numpy()


def test_regularisers_share_the_plan_and_differ_by_entropies(masses: Any) -> None:
    h, y, M = masses
    plan, product = ours(h, y, M), ours(h, y, M, regularizer="product")
    np.testing.assert_allclose(plan_of(plan), plan_of(product), atol=1e-12)
    entropies = EPSILON * ((h * np.log(h)).sum() + (y * np.log(y)).sum())
    assert plan.value.item() == pytest.approx(product.value.item() + entropies, **CLOSE)
    difference = (plan.f - product.f)[0].numpy() - EPSILON * np.log(h)
    np.testing.assert_allclose(difference, difference[0], atol=1e-10)


@pytest.mark.parametrize("regularizer", ["plan", "product"])
def test_pot_sinkhorn_is_the_plan_and_its_scalings_the_potentials(
    masses: Any, regularizer: str
) -> None:
    h, y, M = masses
    T, log = ot.sinkhorn(h, y, M, EPSILON, log=True, **LONG)
    solution = ours(h, y, M, regularizer=regularizer)
    np.testing.assert_allclose(plan_of(solution), T, atol=1e-12)
    f = EPSILON * np.log(log["u"] if regularizer == "plan" else log["u"] / h)
    np.testing.assert_allclose(solution.f[0], f - f.mean(), atol=1e-10)


def test_pot_sinkhorn2_is_sharp(masses: Any) -> None:
    h, y, M = masses
    sharp = (plan_of(ours(h, y, M)) * M).sum()
    assert ot.sinkhorn2(h, y, M, EPSILON, **LONG) == pytest.approx(sharp, **CLOSE)


@pytest.mark.parametrize(("regularizer", "name"), [("plan", "entropy"), ("product", "KL")])
def test_pot_solve_has_both_values(masses: Any, regularizer: str, name: str) -> None:
    h, y, M = masses
    theirs = ot.solve(M, h, y, reg=EPSILON, reg_type=name, max_iter=100_000, tol=1e-14)
    value = ours(h, y, M, regularizer=regularizer).value.item()
    assert theirs.value == pytest.approx(value, **CLOSE)


def test_pot_unbalanced_kl_is_product(masses: Any) -> None:
    h, y, M = masses
    T = ot.unbalanced.sinkhorn_unbalanced(2 * h, 3 * y, M, EPSILON, GAMMA, reg_type="kl", **LONG)
    solution = ours(2 * h, 3 * y, M, gamma=GAMMA, regularizer="product")
    np.testing.assert_allclose(plan_of(solution), T, atol=1e-12)


@pytest.mark.filterwarnings("ignore:If reg_type = entropy")  # that it sets the reference to 1
def test_pot_unbalanced_entropy_is_plan_with_epsilon_added_to_the_cost(masses: Any) -> None:
    h, y, M = masses
    solution = ours(2 * h, 3 * y, M, gamma=GAMMA)

    def theirs(cost: Any) -> np.ndarray:
        return ot.unbalanced.sinkhorn_unbalanced(
            2 * h, 3 * y, cost, EPSILON, GAMMA, reg_type="entropy", **LONG
        )

    np.testing.assert_allclose(plan_of(solution), theirs(M + EPSILON), atol=1e-12)
    assert abs(plan_of(solution) - theirs(M)).max() > 1e-3  # not the same without


def test_debiased_is_three_solves_and_not_of_sharp_values(masses: Any) -> None:
    h, y, _ = masses
    x = np.arange(float(K))[:, None]

    def product(a: Any, b: Any) -> float:
        M = np.abs(x - x.T)
        found = ot.solve(M, a, b, reg=EPSILON, reg_type="KL", max_iter=100_000, tol=1e-14)
        return float(found.value)

    metric = wl.ground.Ordinal(K).to(dtype=torch.float64)
    rows = (torch.from_numpy(z)[None] for z in (h, y))
    value = wl.wasserstein(*rows, metric, epsilon=EPSILON, debiased=True, tol=1e-12).item()
    by_hand = product(h, y) - 0.5 * product(h, h) - 0.5 * product(y, y)
    assert value == pytest.approx(by_hand, rel=1e-9)
    sharp = ot.bregman.empirical_sinkhorn_divergence(
        x, x, EPSILON, a=h, b=y, metric="euclidean", stopThr=1e-14, numIterMax=100_000
    )
    assert abs(sharp - value) > 1e-2


def test_half_a_square_is_a_scale() -> None:
    # GeomLoss charges d²/2 for p=2.
    metric = wl.ground.Ordinal(4, power=2, scale=2**0.5)
    assert metric.cost()[0].tolist() == pytest.approx([0.0, 0.5, 2.0, 4.5])
