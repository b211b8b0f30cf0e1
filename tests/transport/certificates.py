"""Proofs that an exact solution is optimal: feasible potentials, and a complementary plan."""

import torch

from wassloss import Solution


def assert_dual_certificate(solution: Solution, tolerance: float) -> None:
    """Potentials are feasible, and their value, a lower bound, is that of the solution."""
    problem = solution.problem
    slack = problem.cost() - solution.f.unsqueeze(1) - solution.g.unsqueeze(2)
    assert slack.min() >= -tolerance
    dual = (problem.log_h.exp() * solution.f).sum(1) + (problem.log_y.exp() * solution.g).sum(1)
    torch.testing.assert_close(dual, solution.value, rtol=tolerance, atol=tolerance)


def assert_primal_certificate(solution: Solution, tolerance: float) -> None:
    """The plan is feasible, has the value, and has mass only where potentials equal the cost."""
    problem, plan = solution.problem, solution.support_plan()
    assert plan.min() >= 0
    torch.testing.assert_close(plan.sum(1), problem.log_h.exp(), rtol=tolerance, atol=tolerance)
    torch.testing.assert_close(plan.sum(2), problem.log_y.exp(), rtol=tolerance, atol=tolerance)
    paid = (plan * problem.cost()).sum((1, 2))
    torch.testing.assert_close(paid, solution.value, rtol=tolerance, atol=tolerance)
    slack = problem.cost() - solution.f.unsqueeze(1) - solution.g.unsqueeze(2)
    assert (plan * slack).abs().sum() <= tolerance * plan.sum()
