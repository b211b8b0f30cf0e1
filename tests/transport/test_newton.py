"""Newton's method: its range, and its status when it stops."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from scipy.special import logsumexp

import wassloss as wl
from tests.evaluators import without_native
from tests.fuzz.reference import bounds
from tests.generators import (
    GAMMAS,
    OBJECTIVE_NAMES,
    OBJECTIVES,
    REGULARIZERS,
    is_finite,
    random_masses,
    random_metric,
)
from tests.oracles import INF
from tests.sampling import one_in
from wassloss import ConvergenceWarning, Solution, native
from wassloss.ground import Discrete, GroundMetric, Ordinal, Tree
from wassloss.transport import Newton, Sinkhorn, Status
from wassloss.transport.objective import Objective
from wassloss.transport.problem import Problem

F32, F64 = torch.float32, torch.float64
TIGHT = 1e-12

each_objective = pytest.mark.parametrize(("gamma", "regularizer"), OBJECTIVES, ids=OBJECTIVE_NAMES)


@pytest.fixture(autouse=True, params=["torch", "compiled"])
def implementation(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both implementations; otherwise the dispatcher chooses one."""
    if request.param == "torch":
        without_native(monkeypatch)
    elif not native.available():
        pytest.skip("needs the compiled core")


def marginal_errors(solution: Solution) -> tuple[float, float]:
    """Relative ℓ1 errors of both marginals, recomputed in double precision from `f` and `g`."""
    problem, objective = solution.problem, solution.problem.objective
    f, g, log_h, log_y = (
        x.double().numpy() for x in (solution.f, solution.g, problem.log_h, problem.log_y)
    )
    alpha, beta = (
        (0, -1) if objective.regularizer == "plan" else (log_h[:, None], log_y[:, :, None])
    )
    exponent = f[:, None] + g[:, :, None] - problem.cost().double().numpy()
    log_plan = exponent / objective.epsilon + alpha + beta
    errors = []
    for axis, log_mass, potential, gamma in zip(
        (1, 2), (log_h, log_y), (f, g), objective.gamma, strict=True
    ):
        actual, wanted = np.exp(logsumexp(log_plan, axis)), np.exp(log_mass - potential / gamma)
        errors.append(float((np.abs(actual - wanted).sum(1) / wanted.sum(1)).max()))
    return errors[0], errors[1]


# Laws and limits


@pytest.mark.one_in(3)
@pytest.mark.parametrize("dtype", [F32, F64])
@pytest.mark.parametrize("epsilon", [1e-4, 1e-3, 1e-2, 0.1, 1.0, 10.0, 100.0, 1000.0])
@each_objective
def test_converges_over_the_whole_range_of_epsilon(
    gamma: tuple[float, float], regularizer: str, epsilon: float, dtype: torch.dtype
) -> None:
    metric = random_metric(1000)  # its median cost is 1
    h = random_masses(3, 1000, support=850, seed=1).to(dtype)
    y = random_masses(3, 1000, support=5, seed=2).to(dtype)
    solution = wl.solve(h, y, metric, epsilon=epsilon, gamma=gamma, regularizer=regularizer)
    tol = 1e-5 if dtype == F32 else 1e-8
    assert solution.converged.all()
    assert solution.status is Status.CONVERGED
    assert (solution.error <= tol).all()
    assert is_finite(
        solution.value,
        solution.f,
        solution.g,
        solution.gradient(0),
        solution.gradient(1),
        solution.log_gradient(),
        solution.support_plan(),
    )
    # Potentials in single precision round M/ε, in whatever precision they were computed.
    rounding = 4 * torch.finfo(dtype).eps * metric.max_cost() / epsilon
    assert max(marginal_errors(solution)) <= 2 * tol + rounding
    assert solution.n_iterations.max() < 60


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    "metric",
    [Discrete(6), Ordinal(10), Tree([-1, 0, 0, 1, 1, 2, 2], nodes=range(7)), random_metric(100)],
    ids=repr,
)
@each_objective
def test_some_tens_of_iterations_are_enough_where_epsilon_is_far_below_the_gaps_between_costs(
    gamma: tuple[float, float], regularizer: str, metric: GroundMetric
) -> None:
    h, y = random_masses(8, metric.size, seed=1), random_masses(8, metric.size, support=5, seed=2)
    counts = []
    for epsilon in (1e-3, 1e-4, 1e-5):
        epsilon *= metric.median_cost()
        solution = wl.solve(h, y, metric, epsilon=epsilon, gamma=gamma, regularizer=regularizer)
        assert solution.converged.all()
        counts.append(int(solution.n_iterations.max()))
    # A few tens more per factor of ten, rather than ten times as many.
    assert counts[2] < counts[0] + 100


@pytest.mark.parametrize("regularizer", REGULARIZERS)
@pytest.mark.parametrize("gamma", list(GAMMAS.values())[1:], ids=list(GAMMAS)[1:])
@pytest.mark.parametrize("mass_y", [1e-6, 1.0, 1e6])
@pytest.mark.parametrize("mass_h", [1e-6, 1.0, 1e6])
def test_masses_may_differ_by_any_factor(
    gamma: tuple[float, float], regularizer: str, mass_h: float, mass_y: float
) -> None:
    h, y = mass_h * random_masses(2, 20, seed=1), mass_y * random_masses(2, 20, support=4, seed=2)
    given: dict[str, Any] = {"epsilon": 0.5, "gamma": gamma, "regularizer": regularizer}
    solution = wl.solve(h, y, random_metric(20), **given)
    assert solution.converged.all()
    assert is_finite(solution.f, solution.g, solution.gradient(0), solution.gradient(1))
    best = wl.solve(h, y, random_metric(20), **given, solver=Sinkhorn(1e-13))
    torch.testing.assert_close(solution.value, best.value, rtol=1e-9, atol=0)
    # A converged solution has accurate gradients on both sides.
    torch.testing.assert_close(solution.gradient(0), best.gradient(0), rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(solution.gradient(1), best.gradient(1), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("dtype", one_in(2, [F32, F64]))
@pytest.mark.parametrize("gamma", [(100.0, 100.0), (100.0, INF), (INF, 100.0)])
def test_unequal_masses_that_are_dear_to_miss_are_no_reason_not_to_converge(
    gamma: tuple[float, float], dtype: torch.dtype
) -> None:
    # The difference in mass is paid for by potentials of γ log(40), many thousand times ε: a long
    # way in steps of ε, with too few digits left in single precision.
    h, y = 40 * random_masses(2, 6, seed=1), random_masses(2, 6, seed=2)
    cost = random_metric(6).cost()
    for epsilon in (0.1, 1e-3):
        solution = wl.solve(h.to(dtype), y.to(dtype), cost.to(dtype), epsilon=epsilon, gamma=gamma)
        assert solution.converged.all()
        for b in range(2):
            known = bounds(h[b].numpy(), y[b].numpy(), cost.numpy(), epsilon, gamma)
            assert known.tight
            slack = (1e-5 if dtype == F32 else 1e-8) * known.size
            assert known.low - slack <= solution.value[b].item() <= known.high + slack


def test_one_iteration_is_enough_for_a_single_target() -> None:
    h, y = torch.tensor([[0.5, 0.5]], dtype=F64), torch.tensor([[1.0]], dtype=F64)
    target = torch.tensor([[0]])
    problem = Problem.from_log(h.log(), y, target, Ordinal(2), Objective(epsilon=1.0))
    solution = Newton(max_iterations=1).solve(problem)
    assert solution.converged.all()
    assert solution.n_iterations.tolist() == [1]


@pytest.mark.parametrize("dtype", [F32, F64])
def test_one_label_of_two_masses_is_soon_solved(dtype: torch.dtype) -> None:
    h, y = torch.tensor([[2.0]], dtype=dtype), torch.tensor([[3.0]], dtype=dtype)
    solution = wl.solve(h, y, Ordinal(1), epsilon=1e-6, gamma=(INF, 1.0))
    assert solution.n_iterations.item() < 100
    # T = h, with objective ε h log h + γ (h log(h / y) − h + y).
    value = 1e-6 * 2 * math.log(2) + 2 * math.log(2 / 3) + 1
    assert solution.value.item() == pytest.approx(value, rel=1e-6)


@pytest.mark.parametrize("gamma", [INF, 1.0])
def test_costs_at_the_lower_end_of_single_precision_need_double(gamma: float) -> None:
    metric = Discrete(2, power=13, scale=1000)
    unit = metric.max_cost()  # its reciprocal overflows in single precision
    h, y = torch.tensor([[0.75, 0.25]]), torch.tensor([[0.375, 0.625]])
    given = {"epsilon": 0.25 * unit, "gamma": gamma * unit}
    with pytest.raises(ValueError, match=r"epsilon must be a number .* can divide"):
        wl.solve(h, y, metric, **given)
    tiny = wl.solve(h.double(), y.double(), metric, **given)
    usual = wl.solve(h, y, Discrete(2), epsilon=0.25, gamma=gamma)
    torch.testing.assert_close(tiny.value.double() / unit, usual.value.double(), rtol=1e-3, atol=0)


@each_objective
def test_an_easy_example_leaves_early_with_the_answer_it_has_alone(
    gamma: tuple[float, float], regularizer: str
) -> None:
    metric = random_metric(200)
    h = random_masses(2, 200, seed=1)
    y = random_masses(2, 200, support=8, seed=2)
    y[0] = y[0].where(y[0] == y[0].max(), 0) / y[0].max()  # one label: closed form
    given: dict[str, Any] = {"epsilon": 0.003, "gamma": gamma, "regularizer": regularizer}
    together = wl.solve(h, y, metric, **given)
    assert together.n_iterations[0] < together.n_iterations[1]
    for b in range(2):
        alone = wl.solve(h[b : b + 1], y[b : b + 1], metric, **given, solver=Newton())
        torch.testing.assert_close(alone.value[0], together.value[b], rtol=1e-9, atol=0)
        torch.testing.assert_close(alone.f[0], together.f[b], rtol=0, atol=1e-7)
    hard = wl.solve(h[1:], y[1:], metric, **given)
    assert abs(hard.n_iterations[0] - together.n_iterations[1]) <= 1
    torch.testing.assert_close(hard.f[0], together.f[1], rtol=0, atol=1e-7)


@pytest.mark.parametrize(("gamma", "regularizer"), OBJECTIVES[2:], ids=OBJECTIVE_NAMES[2:])
@pytest.mark.parametrize("mass", [0.2, 5.0])
def test_one_label_has_a_closed_form(
    gamma: tuple[float, float], regularizer: str, mass: float
) -> None:
    h = torch.tensor([[1.0]], dtype=F64)
    y = torch.tensor([[mass]], dtype=F64)
    given: dict[str, Any] = {"epsilon": 0.1, "gamma": gamma, "regularizer": regularizer}
    solution = wl.solve(h, y, torch.zeros(1, 1, dtype=F64), **given, tol=TIGHT)
    # The optimality condition for a single number t, with reference 1/e or h y.
    reference = -1.0 if regularizer == "plan" else math.log(mass)
    pairs = [(0.1, reference), *[(g, math.log(m)) for g, m in zip(gamma, (1.0, mass), strict=True)]]
    finite = [(w, r) for w, r in pairs if w < INF]
    log_t = sum(w * r for w, r in finite) / sum(w for w, _ in finite)
    if INF in gamma:
        log_t = math.log((1.0, mass)[gamma.index(INF)])
    assert solution.plan().item() == pytest.approx(math.exp(log_t), rel=1e-10)


@each_objective
def test_a_metric_of_zeros_leaves_only_the_regulariser(
    gamma: tuple[float, float], regularizer: str
) -> None:
    h, y = random_masses(2, 4, seed=1), random_masses(2, 4, seed=2)
    given: dict[str, Any] = {"epsilon": 0.1, "gamma": gamma, "regularizer": regularizer}
    solution = wl.solve(h, y, torch.zeros(4, 4, dtype=F64), **given, tol=TIGHT)
    if gamma == (INF, INF) or regularizer == "product":  # the product of marginals, at no cost
        product = h.unsqueeze(2) * y.unsqueeze(1)
        torch.testing.assert_close(solution.plan(), product, rtol=1e-9, atol=1e-12)
    if regularizer == "product":
        torch.testing.assert_close(solution.value, torch.zeros(2, dtype=F64), rtol=0, atol=1e-12)
    # All labels are equivalent, so rows of the plan are proportional.
    rows = solution.plan() / solution.plan().sum(2, keepdim=True)
    torch.testing.assert_close(rows, rows[:, :1].expand(-1, 4, -1), rtol=1e-9, atol=1e-12)


@each_objective
def test_labels_at_distance_zero_share_a_potential_and_their_mass(
    gamma: tuple[float, float], regularizer: str
) -> None:
    cost = random_metric(4).cost()
    twice = torch.tensor([0, 1, 2, 3, 1])  # the fifth label is the second again
    h, y = random_masses(2, 5, seed=1), random_masses(2, 5, support=3, seed=2)
    given: dict[str, Any] = {"epsilon": 0.1, "gamma": gamma, "regularizer": regularizer}
    given["tol"] = TIGHT
    solution = wl.solve(h, y, cost[twice][:, twice], **given)
    assert solution.converged.all()
    if regularizer == "product":  # then splitting a label has no effect
        torch.testing.assert_close(solution.f[:, 4], solution.f[:, 1])
        merged = [torch.zeros(2, 4, dtype=F64).index_add(1, twice, x) for x in (h, y)]
        joined = wl.solve(*merged, cost, **given)
        torch.testing.assert_close(solution.value, joined.value)
        if gamma != (INF, INF):  # balanced potentials are centred over different labels
            torch.testing.assert_close(solution.f[:, :4], joined.f)


def test_two_labels_have_a_closed_form() -> None:
    # T = [[t, h0 − t], [y0 − t, h1 − y0 + t]] with t (h1 − y0 + t) = κ (h0 − t) (y0 − t).
    h0, y0, d, epsilon = 0.7, 0.4, 1.3, 0.5
    kappa = math.exp(2 * d / epsilon)
    a, b, c = 1 - kappa, 1 - h0 - y0 + kappa * (h0 + y0), -kappa * h0 * y0
    t = (-b + math.sqrt(b * b - 4 * a * c)) / (2 * a)
    h, y = torch.tensor([[h0, 1 - h0]], dtype=F64), torch.tensor([[y0, 1 - y0]], dtype=F64)
    cost = torch.tensor([[0.0, d], [d, 0.0]], dtype=F64)
    solution = wl.solve(h, y, cost, epsilon=epsilon, tol=TIGHT)
    assert solution.plan()[0, 0, 0].item() == pytest.approx(t, rel=1e-11)


# Status of a solution


def test_running_out_of_iterations_is_a_warning_with_advice_and_names_the_examples() -> None:
    h, y = random_masses(2, 50, seed=1), random_masses(2, 50, support=6, seed=2)
    y[0] = y[0].where(y[0] == y[0].max(), 0) / y[0].max()
    metric = random_metric(50)
    with pytest.warns(ConvergenceWarning, match="Raise `max_iterations` or `epsilon`, or loosen"):
        solution = wl.solve(h, y, metric, epsilon=0.2, max_iterations=2)
    assert solution.converged.tolist() == [True, False]
    assert solution.status is Status.ITERATIONS_EXHAUSTED
    assert solution.error[0] <= 1e-8 < solution.error[1]
    assert solution.n_iterations.tolist()[1] == 2
    assert "1 of 2 converged" in str(solution)
    # The unfinished solution is still a lower bound, with the right marginal of the prediction.
    best = wl.solve(h, y, metric, epsilon=0.2)
    assert solution.value[1] < best.value[1]
    torch.testing.assert_close(solution.plan().sum(2), h)


def test_stopping_in_an_early_stage_leaves_everything_finite() -> None:
    h, y = random_masses(2, 50, seed=1), random_masses(2, 50, support=6, seed=2)
    with pytest.warns(ConvergenceWarning):
        solution = wl.solve(h, y, random_metric(50), epsilon=1e-3, max_iterations=2)
    assert not solution.converged.any()
    assert is_finite(solution.value, solution.f, solution.g, solution.error)


@pytest.mark.parametrize("tol", [1e-7, 1e-10])
def test_single_precision_is_solved_in_double_where_it_must_be(tol: float) -> None:
    h, y = random_masses(2, 50, seed=1).float(), random_masses(2, 50, support=6, seed=2).float()
    for epsilon in (1.0, 0.01):
        solution = wl.solve(h, y, random_metric(50), epsilon=epsilon, tol=tol)
        assert solution.converged.all()
        assert solution.n_iterations.max() < 40
        for part in (solution.value, solution.f, solution.g, solution.error, solution.gradient()):
            assert part.dtype == F32
        double = wl.solve(
            h.double() / h.double().sum(1, keepdim=True),
            y.double() / y.double().sum(1, keepdim=True),
            random_metric(50),
            epsilon=epsilon,
        )
        torch.testing.assert_close(solution.value.double(), double.value, rtol=3e-7, atol=3e-7)
        torch.testing.assert_close(solution.f.double(), double.f, rtol=1e-6, atol=3e-7)


def test_single_precision_converges_up_to_where_double_takes_over() -> None:
    metric = random_metric(300)
    h, y = random_masses(8, 300, seed=1).float(), random_masses(8, 300, support=5, seed=2).float()
    for ratio in (40.0, 80.0, 120.0, 160.0, 170.0):  # of the largest cost to epsilon
        for regularizer in REGULARIZERS:
            solution = wl.solve(
                h, y, metric, epsilon=metric.max_cost() / ratio, regularizer=regularizer
            )
            assert solution.converged.all()
            assert solution.n_iterations.max() < 40


def test_a_tolerance_below_rounding_is_said_to_be_that() -> None:
    h, y = random_masses(2, 50, seed=1), random_masses(2, 50, support=6, seed=2)
    with pytest.warns(ConvergenceWarning, match="Rounding keeps the error above `tol`"):
        solution = wl.solve(h, y, random_metric(50), epsilon=0.1, tol=1e-18, max_iterations=50)
    assert solution.status is Status.PRECISION_EXHAUSTED
    assert (solution.error < 1e-13).all()
