"""Laws of every entropic solver, whatever its algorithm."""

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import wassloss as wl
from tests.generators import (
    OBJECTIVE_NAMES,
    OBJECTIVES,
    REGULARIZERS,
    Case,
    entropic_cases,
    is_finite,
    random_masses,
    random_metric,
)
from tests.oracles import INF, convex, objective
from wassloss import Solution, SparseTarget
from wassloss.transport import Newton, Sinkhorn
from wassloss.transport.sinkhorn.solver import STRIDE

TIGHT = 1e-12  # the value's error is of second order in it, all others of first order
SOLVERS = [Newton(TIGHT), Sinkhorn(TIGHT, max_iterations=200_000)]

each_objective = pytest.mark.parametrize(("gamma", "regularizer"), OBJECTIVES, ids=OBJECTIVE_NAMES)
each_solver = pytest.mark.parametrize("solver", SOLVERS, ids=["Newton", "Sinkhorn"])
each_regularizer = pytest.mark.parametrize("regularizer", REGULARIZERS)


def close(actual: Any, expected: Any, rtol: float = 1e-9, atol: float = 1e-10) -> None:
    actual, expected = (torch.as_tensor(np.asarray(x)) for x in (actual, expected))
    torch.testing.assert_close(actual, expected, rtol=rtol, atol=atol)


def small(gamma: tuple[float, float], regularizer: str, epsilon: float = 0.1) -> dict[str, Any]:
    """A fixed problem with two examples: 6 labels, 3 of them in the target; equal masses."""
    return {
        "h": random_masses(2, 6, seed=1),
        "y": random_masses(2, 6, support=3, seed=2),
        "metric": random_metric(6),
        "epsilon": epsilon,
        "gamma": gamma,
        "regularizer": regularizer,
    }


def unequal(gamma: tuple[float, float], regularizer: str, epsilon: float = 0.1) -> dict[str, Any]:
    """The same with different masses, if the objective allows it."""
    problem = small(gamma, regularizer, epsilon)
    if gamma != (INF, INF):
        problem["y"] = 2.5 * problem["y"]
    return problem


def solved(problem: dict[str, Any], **changes: Any) -> Solution:
    return wl.solve(**{"solver": Newton(TIGHT), **problem, **changes})


# Laws and limits


@pytest.mark.one_in(3)
@each_solver
@each_objective
@given(data=st.data())
def test_a_plan_that_meets_the_optimality_conditions_is_found(
    gamma: tuple[float, float], regularizer: str, solver: Any, data: st.DataObject
) -> None:
    case: Case = data.draw(entropic_cases(gamma, regularizer))
    solution = wl.solve(case.h, case.y, case.metric, solver=solver, **(case.keywords or {}))
    assert solution.converged.all()
    scale = 1 + case.plan.sum()
    close(solution.value, [case.value], atol=1e-10 * scale)
    close(solution.plan()[0], case.plan, rtol=1e-8, atol=1e-10 * scale)
    n = len(case.f)
    f, g = solution.f[0, :n].numpy(), solution.g[0].numpy()[-len(case.g) :]
    shift = f[0] - case.f[0] if gamma == (INF, INF) else 0.0
    close(f - shift, case.f, rtol=1e-8, atol=1e-8)
    close(g + shift, case.g, rtol=1e-8, atol=1e-8)


@each_regularizer
@pytest.mark.parametrize("gamma", [1e6, 1e8])
def test_strong_marginal_penalties_are_constraints(regularizer: str, gamma: float) -> None:
    balanced = solved(small((INF, INF), regularizer))
    relaxed = solved(small((gamma, gamma), regularizer))
    # The effect of the penalties is of order f²/γ; only then is f near a balanced potential.
    close(relaxed.value, balanced.value, rtol=0, atol=10 / gamma)
    close(relaxed.f - relaxed.f.mean(1, keepdim=True), balanced.f, rtol=0, atol=10 / gamma)
    close(relaxed.plan(), balanced.plan(), rtol=0, atol=10 / gamma)
    slope = relaxed.gradient()
    close(slope - slope.mean(1, keepdim=True), balanced.gradient(), rtol=0, atol=10 / gamma)


@each_regularizer
@pytest.mark.parametrize("side", [0, 1])
def test_a_side_alone_at_infinity_has_its_marginal_exact(regularizer: str, side: int) -> None:
    gamma = (INF, 0.5) if side == 0 else (0.5, INF)
    problem = unequal(gamma, regularizer)
    solution = solved(problem)
    wanted, other = (problem["h"], problem["y"]) if side == 0 else (problem["y"], problem["h"])
    close(solution.plan().sum(2 - side), wanted)
    assert (solution.plan().sum(1 + side) - other).abs().sum() > 0.1
    nearly = solved(problem, gamma=tuple(min(g, 1e8) for g in gamma))
    close(solution.value, nearly.value, rtol=0, atol=1e-6)
    close(solution.f, nearly.f, rtol=0, atol=1e-6)


@each_objective
def test_marginals_are_what_the_potentials_ask_for(
    gamma: tuple[float, float], regularizer: str
) -> None:
    problem = unequal(gamma, regularizer)
    solution, plan = solved(problem), solved(problem).plan()
    close(plan.sum(2), problem["h"] * (-solution.f / gamma[0]).exp())
    on_support = plan.sum(1).gather(1, solution.support)
    y = problem["y"].gather(1, solution.support)
    close(on_support, y * (-solution.g / gamma[1]).exp())
    assert (solution.error <= TIGHT).all()


@pytest.mark.parametrize("gamma", [(0.5, 2.0), (3.0, 0.1)])
def test_propositions_4_1_and_4_2(gamma: tuple[float, float]) -> None:
    problem = unequal(gamma, "plan")
    solution = solved(problem)
    lam, y = 1 / problem["epsilon"], problem["y"].gather(1, solution.support).numpy()
    for b in range(2):
        u, v = np.exp(lam * solution.f[b].numpy()), np.exp(lam * solution.g[b].numpy())
        cost = problem["metric"].cost()[:, solution.support[b]].numpy()
        K, h = np.exp(-lam * cost - 1), problem["h"][b].numpy()
        T = u[:, None] * K * v
        close(T, solution.plan()[b][:, solution.support[b]])
        close(u, (h / T.sum(1)) ** (gamma[0] * lam), rtol=1e-8)
        close(v, (y[b] / T.sum(0)) ** (gamma[1] * lam), rtol=1e-8)
        a, c = (g * lam / (g * lam + 1) for g in gamma)
        close(u, h**a * (K @ v) ** -a, rtol=1e-8)
        close(v, y[b] ** c * (K.T @ u) ** -c, rtol=1e-8)
        close(solution.gradient()[b], gamma[0] * (1 - T.sum(1) / h))


@each_regularizer
def test_small_epsilon_is_exact(regularizer: str) -> None:
    problem = small((INF, INF), regularizer, epsilon=1e-4)
    exact = wl.solve(problem["h"], problem["y"], problem["metric"])
    solution = solved(problem)
    # The entropy of a plan on 6 × 3 pairs is at most log 18.
    close(solution.value, exact.value, rtol=0, atol=3e-4)
    close(solution.plan(), exact.plan(), rtol=0, atol=1e-3)


@each_regularizer
def test_large_epsilon_is_the_independent_coupling(regularizer: str) -> None:
    problem = small((INF, INF), regularizer, epsilon=1e6)
    product = problem["h"].unsqueeze(2) * problem["y"].unsqueeze(1)
    close(solved(problem).plan(), product, rtol=0, atol=1e-5)


@pytest.mark.parametrize("mass", [1.0, 3.0])
@pytest.mark.parametrize("epsilon", [0.01, 1.0])
def test_plan_and_product_share_the_plan_and_differ_by_the_entropies_of_the_marginals(
    epsilon: float, mass: float
) -> None:
    problem = small((INF, INF), "plan", epsilon)
    problem["h"], problem["y"] = mass * problem["h"], mass * problem["y"]
    plan, product = solved(problem), solved(problem, regularizer="product")
    close(plan.plan(), product.plan())
    h, y = problem["h"], problem["y"]
    entropies = torch.special.xlogy(h, h).sum(1) + torch.special.xlogy(y, y).sum(1)
    close(plan.value - product.value, epsilon * (entropies + mass - mass**2))


@each_objective
def test_exchanging_prediction_and_target_changes_nothing(
    gamma: tuple[float, float], regularizer: str
) -> None:
    problem = unequal(gamma, regularizer)
    there = solved(problem)
    back = solved(problem, h=problem["y"], y=problem["h"], gamma=gamma[::-1])
    close(back.value, there.value)
    close(back.plan(), there.plan().transpose(1, 2))


@each_objective
@pytest.mark.parametrize("factor", [1e-3, 7.0])
def test_value_scales_with_all_costs(
    gamma: tuple[float, float], regularizer: str, factor: float
) -> None:
    problem = unequal(gamma, regularizer)
    scaled = solved(
        problem,
        metric=problem["metric"].with_cost(scale=problem["metric"].scale / factor),
        epsilon=factor * problem["epsilon"],
        gamma=tuple(factor * g for g in gamma),
    )
    plain = solved(problem)
    close(scaled.value, factor * plain.value, atol=0)
    close(scaled.f, factor * plain.f, rtol=1e-8, atol=1e-9 * factor)
    close(scaled.plan(), plain.plan(), rtol=1e-8)


@each_objective
def test_dual_value_is_the_primal_objective_of_the_plan(
    gamma: tuple[float, float], regularizer: str
) -> None:
    problem = unequal(gamma, regularizer)
    solution = solved(problem)
    for b in range(2):
        h, y, M = (x.numpy() for x in (problem["h"][b], problem["y"][b], problem["metric"].cost()))
        at = y > 0
        T = solution.plan()[b].numpy()[:, at]
        primal = objective(T, h, y[at], M[:, at], problem["epsilon"], gamma, regularizer)
        close(solution.value[b], primal)


@each_objective
def test_value_is_a_lower_bound_before_convergence(
    gamma: tuple[float, float], regularizer: str
) -> None:
    problem = unequal(gamma, regularizer, epsilon=0.02)
    best = solved(problem).value
    with pytest.warns(wl.ConvergenceWarning):
        early = solved(problem, solver=Sinkhorn(TIGHT, max_iterations=3))
    assert (early.value < best).all()
    assert (early.error > TIGHT).all()


@each_objective
def test_padding_of_the_support_changes_nothing(
    gamma: tuple[float, float], regularizer: str
) -> None:
    problem = unequal(gamma, regularizer)
    plain = solved(problem)
    weights = problem["y"].gather(1, plain.support)
    padded = SparseTarget(
        torch.cat([torch.full((2, 2), 5), plain.support, torch.zeros(2, 1, dtype=torch.long)], 1),
        torch.cat([torch.zeros(2, 2), weights, torch.zeros(2, 1)], 1),
    )
    wide = solved(problem, y=padded)
    close(wide.value, plain.value, rtol=1e-12)
    close(wide.f, plain.f)
    close(wide.g[:, 2:5], plain.g)
    close(wide.plan(), plain.plan())
    assert is_finite(wide.g, wide.gradient(1), wide.support_plan())


@each_objective
def test_explicit_zeros_of_a_dense_target_change_nothing(
    gamma: tuple[float, float], regularizer: str
) -> None:
    problem = unequal(gamma, regularizer)
    sparse = solved(problem)
    everything = SparseTarget(torch.arange(6).expand(2, 6), problem["y"])
    dense = solved(problem, y=everything)
    assert sparse.g.shape == (2, 3)
    assert dense.g.shape == (2, 6)
    close(dense.value, sparse.value, rtol=1e-12)
    close(dense.f, sparse.f)
    close(dense.plan(), sparse.plan())


@each_objective
def test_permuting_labels_permutes_the_answer(gamma: tuple[float, float], regularizer: str) -> None:
    problem = unequal(gamma, regularizer)
    order = torch.tensor([3, 0, 5, 1, 4, 2])
    cost = problem["metric"].cost()[order][:, order]
    shuffled = solved(problem, h=problem["h"][:, order], y=problem["y"][:, order], metric=cost)
    plain = solved(problem)
    close(shuffled.value, plain.value)
    close(shuffled.f, plain.f[:, order])
    close(shuffled.plan(), plain.plan()[:, order][:, :, order])


@each_solver
@each_objective
def test_a_batch_is_its_examples_one_by_one(
    gamma: tuple[float, float], regularizer: str, solver: Any
) -> None:
    problem = unequal(gamma, regularizer)
    together = solved(problem, solver=solver)
    for b in range(2):
        alone = solved(problem, h=problem["h"][b : b + 1], y=problem["y"][b : b + 1], solver=solver)
        # Rounding may change a decision: a step of Newton's, or a check of Sinkhorn's.
        assert abs(alone.n_iterations[0] - together.n_iterations[b]) <= STRIDE
        close(alone.value[0], together.value[b])
        close(alone.f[0], together.f[b])


@each_solver
@each_objective
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_labels_without_mass_leave_everything_finite_and_the_rest_alone(
    gamma: tuple[float, float], regularizer: str, solver: Any, dtype: torch.dtype
) -> None:
    problem = unequal(gamma, regularizer)
    keep = torch.tensor([0, 2, 3, 5])
    h = torch.zeros_like(problem["h"])
    h[:, keep] = problem["h"][:, keep] / problem["h"][:, keep].sum(1, keepdim=True)
    cost = problem["metric"].cost()
    y = torch.zeros_like(problem["y"])
    y[:, keep] = problem["y"].sum(1, keepdim=True) * random_masses(2, 4, support=2, seed=4)
    args = {"h": h.to(dtype), "y": y.to(dtype), "metric": cost.to(dtype)}
    solver = type(solver)(tol=TIGHT if dtype == torch.float64 else 1e-6)
    solution = solved(problem, **args, solver=solver)
    reduced = solved(problem, h=h[:, keep], y=y[:, keep], metric=cost[keep][:, keep])
    assert is_finite(
        solution.f, solution.g, solution.gradient(0), solution.gradient(1), solution.log_gradient()
    )
    tolerance = 1e-9 if dtype == torch.float64 else 2e-5
    close(solution.value.double(), reduced.value, rtol=tolerance)
    close(solution.plan()[:, keep][:, :, keep].double(), reduced.plan(), rtol=0, atol=tolerance)
    gone = torch.tensor([1, 4])
    assert (solution.log_gradient()[:, gone].abs() < 1e-8).all()
    assert (solution.plan()[:, gone] < 1e-8).all()


@each_solver
@each_objective
@pytest.mark.parametrize("crumb", [1e-300, 1e-200, 1e-30])
def test_a_target_of_vanishing_mass_has_the_potential_that_f_gives_it(
    gamma: tuple[float, float], regularizer: str, solver: Any, crumb: float
) -> None:
    # The marginal error is insensitive to it, but the gradient of the target's weights needs it.
    problem = unequal(gamma, regularizer)
    weights = problem["y"].clamp(min=crumb)
    solution = solved(problem, y=SparseTarget(torch.arange(6).expand(2, 6), weights), solver=solver)
    M, epsilon = problem["metric"].cost(), problem["epsilon"]
    log_y = solution.problem.log_y
    reference = -1.0 if regularizer == "plan" else log_y
    rows = solution.f if regularizer == "plan" else solution.f + epsilon * problem["h"].log()
    log_sum = ((rows.unsqueeze(1) - M) / epsilon).logsumexp(2)  # M is symmetric
    damping = 1 if gamma[1] == INF else gamma[1] / (gamma[1] + epsilon)
    close(solution.g, damping * epsilon * (log_y - reference - log_sum), rtol=1e-7, atol=1e-7)
    close(solution.value, solved(problem).value)


@each_regularizer
def test_balanced_potentials_have_mean_zero(regularizer: str) -> None:
    close(solved(small((INF, INF), regularizer)).f.mean(1), [0.0, 0.0])


# Oracles


@each_solver
@each_objective
@pytest.mark.parametrize("epsilon", [0.05, 1.0, 20.0])
def test_against_a_convex_solver(
    gamma: tuple[float, float], regularizer: str, solver: Any, epsilon: float
) -> None:
    problem = unequal(gamma, regularizer, epsilon)
    solution = solved(problem, solver=solver)
    for b in range(2):
        y = problem["y"][b].numpy()
        at = y > 0
        M = problem["metric"].cost().numpy()[:, at]
        value, T = convex(problem["h"][b].numpy(), y[at], M, epsilon, gamma, regularizer)
        close(solution.value[b], value, rtol=1e-6)
        close(solution.plan()[b][:, at], T, rtol=0, atol=2e-4)


@each_objective
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 50.0])
def test_newton_and_sinkhorn_agree(
    gamma: tuple[float, float], regularizer: str, epsilon: float
) -> None:
    problem = {
        "h": random_masses(2, 40, seed=5),
        "y": random_masses(2, 40, support=7, seed=6),
        "metric": random_metric(40),
        "epsilon": epsilon,
        "gamma": gamma,
        "regularizer": regularizer,
    }
    if gamma != (INF, INF):
        problem["h"] = 0.3 * problem["h"]
    newton = wl.solve(**problem, solver=Newton(TIGHT))
    sinkhorn = wl.solve(**problem, solver=Sinkhorn(TIGHT, max_iterations=200_000))
    assert newton.converged.all()
    assert sinkhorn.converged.all()
    close(newton.value, sinkhorn.value, rtol=1e-12)
    close(newton.f, sinkhorn.f, atol=1e-10 * (1 + epsilon))
    close(newton.plan(), sinkhorn.plan(), rtol=1e-8)
