"""The choice of solver, of chunks and of dtype."""

from dataclasses import dataclass
from typing import Any

import pytest
import torch

import wassloss as wl
from tests.generators import OBJECTIVE_NAMES, OBJECTIVES, random_masses, random_metric
from tests.oracles import INF
from wassloss import ConvergenceWarning, SparseTarget, _memory
from wassloss.ground import Discrete, Grid, GroundMetric, Ordinal, Tree
from wassloss.transport import Newton, Sinkhorn, Solution, Status
from wassloss.transport import dispatch as dispatcher
from wassloss.transport.algorithm_one import AlgorithmOne
from wassloss.transport.closed_forms import LineArea, LineQuantiles, OneHot, TreeFlow, ZeroOne
from wassloss.transport.dispatch import choose_solver, solve_problem
from wassloss.transport.network_simplex import NetworkSimplex
from wassloss.transport.objective import Objective
from wassloss.transport.problem import Problem
from wassloss.transport.solver import SolveOptions, Solver

F32, F64 = torch.float32, torch.float64
TREE = Tree([-1, 0, 0, 1, 1, 2, 2])
BALANCED = (INF, INF)


def problem_of(
    metric: GroundMetric,
    epsilon: float = 0.0,
    gamma: tuple[float, float] = BALANCED,
    support: int = 3,
    dtype: torch.dtype = F64,
) -> Problem:
    log_h = random_masses(4, metric.size, seed=1).log().to(dtype)
    y = random_masses(4, support, seed=2).to(dtype)
    labels = torch.arange(support).expand(4, support)
    return Problem.from_log(log_h, y, labels, metric, Objective(epsilon, gamma))


# Solvers


def shared_problem(labels: int) -> Problem:
    masses = random_masses(4, labels, seed=1)
    everything = torch.arange(labels).unsqueeze(0)
    return Problem.from_log(masses.log(), masses, everything, Ordinal(labels), Objective(0.1))


@pytest.mark.parametrize(
    ("problem", "solver"),
    [
        (problem_of(Discrete(4)), ZeroOne()),
        (problem_of(Discrete(4, power=0)), ZeroOne()),
        (problem_of(Ordinal(4)), LineArea()),
        (problem_of(Ordinal(4, power=2)), LineQuantiles()),
        (problem_of(Ordinal(4, power=0.5)), NetworkSimplex()),  # concave: crossing may pay
        (problem_of(TREE), TreeFlow()),
        (problem_of(TREE.with_cost(power=2)), NetworkSimplex()),
        (problem_of(Grid((2, 2))), NetworkSimplex()),
        (problem_of(random_metric(4)), NetworkSimplex()),
        (problem_of(Discrete(4), support=1), OneHot()),
        (problem_of(random_metric(4), support=1), OneHot()),
        (problem_of(random_metric(4), 0.1, support=1), OneHot()),
        (problem_of(random_metric(4), 0.1, (1.0, 1.0), support=1), Newton()),
        (problem_of(random_metric(4), 0.1, (INF, 1.0), support=1), Newton()),
        (problem_of(Discrete(4), 0.1), Newton()),
        (problem_of(Ordinal(4), 0.1), Newton()),
        (problem_of(TREE, 0.1, (1.0, INF)), Newton()),
        (problem_of(Ordinal(600), 0.1, support=512), Newton()),
        (problem_of(Ordinal(600), 0.1, support=513), Sinkhorn()),
        (shared_problem(128), Newton()),
        (shared_problem(129), Sinkhorn()),
    ],
    ids=lambda x: type(x).__name__ if not isinstance(x, Problem) else repr(x.metric),
)
def test_the_cheapest_exact_solver_is_chosen(problem: Problem, solver: Any) -> None:
    assert choose_solver(problem) == solver
    assert choose_solver(problem).applies(problem)


def test_budgets_reach_the_solver() -> None:
    entropic = problem_of(random_metric(4), 0.1)
    budget = SolveOptions(tol=1e-3, max_iterations=7)
    assert choose_solver(entropic, budget) == Newton(1e-3, 7)
    assert choose_solver(entropic, SolveOptions(scaling_iterations=9)) == AlgorithmOne(9)
    exact = SolveOptions(max_iterations=7)
    assert choose_solver(problem_of(random_metric(4)), exact) == NetworkSimplex(7)
    wide = problem_of(Ordinal(600), 0.1, support=513)
    assert choose_solver(wide, budget) == Sinkhorn(1e-3, 7)
    assert choose_solver(wide, SolveOptions(solver=Newton())) == Newton()


@dataclass(frozen=True)
class TwoLabels(Solver):
    """Exact transport between two labels: the surplus of one goes to the other."""

    @classmethod
    def applies(cls, problem: Problem) -> bool:
        return problem.objective.exact and problem.log_h.shape[1] == 2

    def solve(self, problem: Problem) -> Solution:
        surplus = (problem.log_h.exp() - problem.dense_target())[:, 0]
        cost = problem.metric.cost_columns(torch.tensor([0]))[0, 1]
        f = torch.stack([cost * surplus.sign(), torch.zeros_like(surplus)], 1)
        return Solution.exact(problem, cost * surplus.abs(), f, -problem.on_support(f))


def test_a_solver_is_added_by_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    h, y = random_masses(5, 2, seed=1), random_masses(5, 2, seed=2)
    metric = Ordinal(torch.tensor([0.0, 0.7], dtype=F64), power=2)
    expected = wl.solve(h, y, metric)
    monkeypatch.setattr(dispatcher, "SOLVERS", [TwoLabels, *dispatcher.SOLVERS])
    labels = torch.arange(2).unsqueeze(0)
    problem = Problem.from_log(h.log(), y, labels, metric, Objective(0.0))
    assert choose_solver(problem) == TwoLabels()
    assert choose_solver(problem_of(metric, epsilon=0.1, support=2)) == Newton()
    for found in (wl.solve(h, y, metric), wl.solve(h, y, metric, solver=TwoLabels())):
        assert found.status is Status.EXACT
        torch.testing.assert_close(found.value, expected.value)
        torch.testing.assert_close(found.f, expected.f)
    leaf = h.clone().requires_grad_()
    torch.testing.assert_close(
        torch.autograd.grad(wl.wasserstein(leaf, y, metric).sum(), leaf)[0], expected.gradient()
    )


def test_a_wide_support_is_solved_by_sinkhorn_to_the_same_answer() -> None:
    h, y = random_masses(1, 600, seed=1), random_masses(1, 600, seed=2)
    metric = Ordinal(torch.linspace(0, 1, 600, dtype=F64))
    wide = wl.solve(h, y, metric, epsilon=0.3)
    torch.testing.assert_close(
        wide.value, wl.solve(h, y, metric, epsilon=0.3, solver=Newton()).value
    )


# Chunks


@pytest.mark.parametrize(("gamma", "regularizer"), OBJECTIVES, ids=OBJECTIVE_NAMES)
def test_pieces_make_the_same_whole(
    gamma: tuple[float, float], regularizer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    h, y = random_masses(7, 9, seed=1), random_masses(7, 9, support=3, seed=2)
    given: dict[str, Any] = {"epsilon": 0.02, "gamma": gamma, "regularizer": regularizer}
    whole = wl.solve(h, y, random_metric(9), **given)
    for block in (1, 2 * 27, 3 * 27 + 5):  # one, two and three examples of 3 × 9 per chunk
        monkeypatch.setattr(_memory, "LARGEST_BLOCK", block)
        pieces = wl.solve(h, y, random_metric(9), **given)
        assert pieces.status is Status.CONVERGED
        assert (pieces.n_iterations - whole.n_iterations).abs().max() <= 1
        for part in ("value", "f", "g", "error"):
            torch.testing.assert_close(
                getattr(pieces, part), getattr(whole, part), rtol=1e-7, atol=1e-8
            )
        torch.testing.assert_close(pieces.plan(), whole.plan(), rtol=1e-6, atol=1e-9)
        torch.testing.assert_close(pieces.gradient(1), whole.gradient(1), rtol=1e-6, atol=1e-8)


def test_exact_pieces_make_the_same_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    h, y = random_masses(7, 9, seed=1), random_masses(7, 9, support=3, seed=2)
    shared = SparseTarget(torch.arange(9).expand(7, 9), y)  # the support of a dense target
    for target in (y, shared):
        whole = wl.solve(h, target, random_metric(9))
        monkeypatch.setattr(_memory, "LARGEST_BLOCK", 60)
        pieces = wl.solve(h, target, random_metric(9))
        monkeypatch.undo()
        for part in ("value", "f", "g"):
            torch.testing.assert_close(
                getattr(pieces, part), getattr(whole, part), rtol=1e-12, atol=1e-12
            )
        torch.testing.assert_close(pieces.plan(), whole.plan(), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    "solver", [Newton(), Sinkhorn(), AlgorithmOne(3)], ids=lambda s: type(s).__name__
)
def test_costs_are_asked_for_once_and_not_kept_by_the_solution(
    solver: Solver, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []
    columns = GroundMetric.cost_columns

    def counted(metric: GroundMetric, indices: Any) -> Any:
        asked.append(1)
        return columns(metric, indices)

    monkeypatch.setattr(GroundMetric, "cost_columns", counted)
    problem = problem_of(random_metric(6), 0.1)
    solution = solve_problem(problem, solver)
    assert len(asked) == 1
    assert "_block" not in vars(solution.problem.costs)
    assert "_block" not in vars(problem.costs)


def test_the_worst_piece_speaks_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    h, y = random_masses(2, 40, seed=1), random_masses(2, 40, support=6, seed=2)
    y[0] = y[0].where(y[0] == y[0].max(), 0) / y[0].max()
    monkeypatch.setattr(_memory, "LARGEST_BLOCK", 1)
    with pytest.warns(ConvergenceWarning, match="1 of 2 converged"):
        solution = wl.solve(h, y, random_metric(40), epsilon=0.2, max_iterations=2)
    assert solution.converged.tolist() == [True, False]
    assert solution.status is Status.ITERATIONS_EXHAUSTED


@pytest.mark.parametrize("epsilon", [0.0, 0.1])
@pytest.mark.parametrize("support", [1, 3])
def test_no_examples_have_no_answers(epsilon: float, support: int) -> None:
    labels = torch.zeros(0, support, dtype=torch.long)
    target = SparseTarget(labels, torch.zeros(0, support, dtype=F64))
    h = torch.zeros(0, 5, dtype=F64)
    solution = wl.solve(h, target, random_metric(5), epsilon=epsilon)
    assert solution.value.shape == (0,)
    assert solution.gradient().shape == (0, 5)
    assert solution.plan().shape == (0, 5, 5)


# Dtypes


def test_single_precision_stays_single_where_that_is_enough() -> None:
    class Recording(Newton):
        seen: list[torch.dtype]

        def solve(self, problem: Problem) -> Solution:
            Recording.seen.append(problem.log_h.dtype)
            return super().solve(problem)

    for epsilon, tol, dtype in (
        (0.5, None, F32),
        (0.5, 1e-8, F64),
        (0.001, None, F64),
        (0.001, 1e-2, F32),
    ):
        Recording.seen = []
        problem = problem_of(random_metric(4), epsilon, dtype=F32)
        solution = solve_problem(problem, Recording(tol))
        assert Recording.seen == [dtype]
        assert solution.converged.all()
        assert solution.f.dtype == F32
        assert solution.problem.log_h.dtype == F32


# Bad input


def test_a_solver_that_does_not_fit_is_refused() -> None:
    for solver, problem in (
        (Newton(), problem_of(random_metric(4))),
        (Sinkhorn(), problem_of(random_metric(4))),
        (AlgorithmOne(3), problem_of(random_metric(4))),
        (NetworkSimplex(), problem_of(random_metric(4), 0.1)),
        (ZeroOne(), problem_of(Ordinal(4))),
        (LineArea(), problem_of(Ordinal(4, power=2))),
        (LineQuantiles(), problem_of(Ordinal(4, power=0.5))),
        (TreeFlow(), problem_of(Discrete(4))),
        (OneHot(), problem_of(random_metric(4), 0.1)),
    ):
        name = type(solver).__name__
        with pytest.raises(ValueError, match=f"solver must fit the problem, got {name}"):
            solve_problem(problem, solver)


@pytest.mark.parametrize("metric", [Ordinal([0.0, 1.0, 1e5], power=13), random_metric(3)])
@pytest.mark.parametrize("epsilon", [0.0, 0.1])
@pytest.mark.parametrize("target", [torch.tensor([2]), torch.tensor([[0.5, 0.0, 0.5]])])
def test_costs_beyond_the_dtype_are_refused_with_advice(
    metric: GroundMetric, epsilon: float, target: torch.Tensor
) -> None:
    metric = metric.with_cost(power=13, scale=1e-4)
    with pytest.raises(ValueError, match=r"finite costs in torch\.float32, but"):
        wl.solve(torch.full((1, 3), 1 / 3), target, metric, epsilon=epsilon)


# Intermediate results that overflow single precision


@pytest.mark.parametrize("solver", [None, Newton()], ids=["default", "torch"])
def test_masses_too_large_on_the_way_do_not_matter(solver: Newton | None) -> None:
    """The first guess needs `h e^{100}`; the answer has the size of the target's mass."""
    cost = torch.tensor([[0.0, 1.0, 0.3], [1.0, 0.0, 0.7], [0.3, 0.7, 0.0]], dtype=F64)
    values = []
    for dtype in (F32, F64):
        h = torch.tensor([[0.35, 2.6, 0.0]], dtype=dtype)
        y = torch.tensor([[0.0, 1e12, 0.0]], dtype=dtype)
        solution = wl.solve(
            h, y, cost.to(dtype), epsilon=0.0135, gamma=(0.001, 30.0), solver=solver
        )
        assert solution.converged.all()
        values.append(solution.value.double())
    torch.testing.assert_close(values[0], values[1], rtol=1e-5, atol=0)


@pytest.mark.parametrize("name", ["epsilon", "gamma"])
def test_strengths_that_single_precision_cannot_divide_by_are_refused(name: str) -> None:
    h = torch.tensor([[0.2, 0.3, 0.5], [0.1, 0.5, 0.4]])
    strengths = {"epsilon": 0.1, "gamma": 1.0, name: 1e-40}
    with pytest.raises(ValueError, match=f"{name} must be a number that torch.float32 can divide"):
        wl.solve(h, h.flip(0), Discrete(3), **strengths)
    wl.solve(h.double(), h.flip(0), Discrete(3, scale=1e36), epsilon=2e-40, gamma=1e-40)
