"""The table of conventions in docs/mathematics.md, row by row, against the libraries themselves.

POT is always there. OTT and GeomLoss come with the group `bench`; their rows are skipped elsewhere.
"""

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import ot
import pytest
import torch

import wassloss as wl
from tests.transport import one_problem
from tests.transport.one_problem import K, Masses

EPSILON, GAMMA = 0.5, 1.3
CLOSE = {"rel": 1e-10, "abs": 1e-12}
LONG = {"stopThr": 1e-14, "numItermax": 100_000}

ours = partial(one_problem.ours, epsilon=EPSILON)


@pytest.fixture
def masses() -> Masses:
    return one_problem.one_problem()


def plan_of(solution: wl.Solution) -> np.ndarray:
    return solution.plan()[0].numpy()


def value_of(h: Any, y: Any, M: Any, **keywords: Any) -> float:
    return ours(h, y, M, **keywords).value.item()


def assert_equal_up_to_a_constant(a: Any, b: Any) -> None:
    difference = np.asarray(a) - np.asarray(b)
    np.testing.assert_allclose(difference, difference[0], atol=1e-10)


def test_regularisers_share_the_plan_and_differ_by_entropies(masses: Masses) -> None:
    h, y, M = masses
    plan, product = ours(h, y, M), ours(h, y, M, regularizer="product")
    np.testing.assert_allclose(plan_of(plan), plan_of(product), atol=1e-12)
    entropies = EPSILON * ((h * np.log(h)).sum() + (y * np.log(y)).sum())
    assert plan.value.item() == pytest.approx(product.value.item() + entropies, **CLOSE)
    assert_equal_up_to_a_constant(plan.f[0], product.f[0].numpy() + EPSILON * np.log(h))


# POT


@pytest.mark.parametrize("regularizer", ["plan", "product"])
def test_pot_sinkhorn_is_the_plan_and_its_scalings_the_potentials(
    masses: Masses, regularizer: str
) -> None:
    h, y, M = masses
    T, log = ot.sinkhorn(h, y, M, EPSILON, log=True, **LONG)
    solution = ours(h, y, M, regularizer=regularizer)
    np.testing.assert_allclose(plan_of(solution), T, atol=1e-12)
    f = EPSILON * np.log(log["u"] if regularizer == "plan" else log["u"] / h)
    np.testing.assert_allclose(solution.f[0], f - f.mean(), atol=1e-10)


def test_pot_sinkhorn2_is_sharp(masses: Masses) -> None:
    h, y, M = masses
    sharp = (plan_of(ours(h, y, M)) * M).sum()
    assert ot.sinkhorn2(h, y, M, EPSILON, **LONG) == pytest.approx(sharp, **CLOSE)


@pytest.mark.parametrize(("regularizer", "name"), [("plan", "entropy"), ("product", "KL")])
def test_pot_solve_has_both_values(masses: Masses, regularizer: str, name: str) -> None:
    h, y, M = masses
    theirs = ot.solve(M, h, y, reg=EPSILON, reg_type=name, max_iter=100_000, tol=1e-14)
    assert theirs.value == pytest.approx(value_of(h, y, M, regularizer=regularizer), **CLOSE)


def test_pot_unbalanced_kl_is_product(masses: Masses) -> None:
    h, y, M = masses
    T = ot.unbalanced.sinkhorn_unbalanced(2 * h, 3 * y, M, EPSILON, GAMMA, reg_type="kl", **LONG)
    solution = ours(2 * h, 3 * y, M, gamma=GAMMA, regularizer="product")
    np.testing.assert_allclose(plan_of(solution), T, atol=1e-12)


@pytest.mark.filterwarnings("ignore:If reg_type = entropy")  # about its reference of 1
def test_pot_unbalanced_entropy_is_plan_with_epsilon_added_to_the_cost(masses: Masses) -> None:
    h, y, M = masses
    solution = ours(2 * h, 3 * y, M, gamma=GAMMA)

    def theirs(cost: Any) -> np.ndarray:
        return ot.unbalanced.sinkhorn_unbalanced(
            2 * h, 3 * y, cost, EPSILON, GAMMA, reg_type="entropy", **LONG
        )

    np.testing.assert_allclose(plan_of(solution), theirs(M + EPSILON), atol=1e-12)
    assert abs(plan_of(solution) - theirs(M)).max() > 1e-3  # without it, plans differ


def test_debiased_is_three_solves_and_not_of_sharp_values(masses: Masses) -> None:
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


# OTT


@pytest.fixture
def ott_solve() -> Iterator[Any]:
    """`linear.solve` of arrays, in double precision, at our `epsilon`."""
    jax = pytest.importorskip("jax", reason="needs ott: pip install --group bench")
    pytest.importorskip("ott", reason="needs ott: pip install --group bench")
    from ott.geometry.geometry import Geometry
    from ott.solvers import linear

    def solve(h: Any, y: Any, M: Any, **keywords: Any) -> Any:
        geometry = Geometry(cost_matrix=jax.numpy.asarray(M), epsilon=EPSILON)
        h, y = jax.numpy.asarray(h), jax.numpy.asarray(y)
        return linear.solve(geometry, h, y, threshold=1e-13, max_iterations=20_000, **keywords)

    before = jax.config.jax_enable_x64
    jax.config.update("jax_enable_x64", True)
    yield solve
    jax.config.update("jax_enable_x64", before)


def test_ott_has_both_values_and_one_plan(masses: Masses, ott_solve: Any) -> None:
    h, y, M = masses
    theirs = ott_solve(h, y, M)
    plan, product = ours(h, y, M), ours(h, y, M, regularizer="product")
    np.testing.assert_allclose(theirs.matrix, plan_of(product), atol=1e-12)
    assert theirs.reg_ot_cost == pytest.approx(product.value.item(), **CLOSE)
    assert theirs.ent_reg_cost == pytest.approx(plan.value.item(), **CLOSE)
    assert theirs.primal_cost == pytest.approx((plan_of(plan) * M).sum(), **CLOSE)  # sharp


def test_ott_potentials_are_those_of_plan(masses: Masses, ott_solve: Any) -> None:
    h, y, M = masses
    theirs = ott_solve(h, y, M)
    assert_equal_up_to_a_constant(theirs.f, ours(h, y, M).f[0])
    product = ours(h, y, M, regularizer="product")
    assert_equal_up_to_a_constant(theirs.f, product.f[0].numpy() + EPSILON * np.log(h))


def test_ott_with_tau_is_plan_with_epsilon_added_to_the_cost(
    masses: Masses, ott_solve: Any
) -> None:
    h, y, M = masses
    tau = {"tau_a": GAMMA / (GAMMA + EPSILON), "tau_b": 2 * GAMMA / (2 * GAMMA + EPSILON)}
    plan = plan_of(ours(2 * h, 3 * y, M, gamma=(GAMMA, 2 * GAMMA)))
    np.testing.assert_allclose(ott_solve(2 * h, 3 * y, M + EPSILON, **tau).matrix, plan, atol=1e-12)
    without = np.asarray(ott_solve(2 * h, 3 * y, M, **tau).matrix)
    product = ours(2 * h, 3 * y, M, gamma=(GAMMA, 2 * GAMMA), regularizer="product")
    assert abs(without - plan).max() > 1e-2
    assert abs(without - plan_of(product)).max() > 1e-2


# GeomLoss lowers its temperature along a schedule and takes two steps at the last one, so even with
# a slow schedule its values are only accurate to about 1e-5.


@pytest.fixture
def geomloss() -> Any:
    """`SamplesLoss` of weights on the same points, and the distances between these."""
    module = pytest.importorskip("geomloss", reason="needs geomloss: pip install --group bench")
    points = torch.linspace(0, 3, K, dtype=torch.float64)[:, None]

    def loss(h: Any, y: Any, p: int, **keywords: Any) -> float:
        fine = {"scaling": 0.999, "diameter": 5.0, "backend": "tensorized"}
        loss_fn = module.SamplesLoss("sinkhorn", p=p, blur=EPSILON ** (1 / p), **fine, **keywords)
        return loss_fn(torch.from_numpy(h), points, torch.from_numpy(y), points).item()

    return loss, (points - points.T).abs().numpy()


@pytest.mark.parametrize("p", [1, 2])
def test_geomloss_charges_half_a_square(masses: Masses, geomloss: Any, p: int) -> None:
    (h, y, _), (loss, d) = masses, geomloss
    product = partial(value_of, M=d**p / p, regularizer="product")
    assert loss(h, y, p, debias=False) == pytest.approx(product(h, y), rel=1e-4)
    debiased = product(h, y) - 0.5 * product(h, h) - 0.5 * product(y, y)
    assert loss(h, y, p) == pytest.approx(debiased, rel=1e-3)


@pytest.mark.parametrize("p", [1, 2])
def test_geomloss_reach_is_product_but_for_terms_in_the_total_masses(
    masses: Masses, geomloss: Any, p: int
) -> None:
    (h, y, _), (loss, d) = masses, geomloss
    product = partial(value_of, M=d**p / p, regularizer="product", gamma=1.2**p)
    for a, b in ((1, 1), (2, 3)):
        theirs = loss(a * h, b * y, p, reach=1.2, debias=False)
        constant = EPSILON * (a * b - (a + b) / 2)  # 0 for unit masses
        assert theirs == pytest.approx(product(a * h, b * y) - constant, rel=1e-3)
        debiased = product(a * h, b * y) - 0.5 * product(a * h, a * h) - 0.5 * product(b * y, b * y)
        theirs = loss(a * h, b * y, p, reach=1.2)
        assert theirs == pytest.approx(debiased + EPSILON / 2 * (a - b) ** 2, rel=1e-3)


def test_half_a_square_is_a_scale() -> None:
    metric = wl.ground.Ordinal(4, power=2, scale=2**0.5)
    assert metric.cost()[0].tolist() == pytest.approx([0.0, 0.5, 2.0, 4.5])
