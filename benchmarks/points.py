"""Newer solvers of dense entropic transport, called as in `entropic.py`.

Each is given what makes it stop at the tolerance, and its error is computed from its potentials as
for all. Some need a GPU.
"""

from __future__ import annotations

import math
import warnings
from typing import Any

import torch
from contenders import Attempt, marginal_error
from problems import Work
from torch import Tensor

PROXIMAL = 1e-3  # the default of POT


def pot_proximal(work: Work, iterations: int, *, restricted: bool) -> Attempt:
    """POT's proximal point method.

    Its fixed point is entropic transport of strength `reg + 2 inner_reg` in POT 0.9.7, whose step
    has the last plan with the wrong sign; `reg` is chosen so that this is the strength asked for.
    """
    from ot.batch import solve_batch

    h, y, cost = work.peer_arrays(restricted)
    cost, epsilon = cost.expand(work.case.batch, -1, -1), work.case.epsilon

    def run() -> Tensor:
        result = solve_batch(
            cost,
            reg=epsilon - 2 * PROXIMAL,
            a=h,
            b=y,
            max_iter=iterations,
            tol=work.case.tol,
            method="proximal",
            inner_reg=PROXIMAL,
            grad="detach",
        )
        plan: Tensor = result.plan
        return plan

    return Attempt(run, lambda plan: marginal_error(work, *_potentials(work, plan, cost, y)))


def _potentials(work: Work, plan: Tensor, cost: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """The potentials of a plan `exp((f + g − M)/ε)`, from its row and column of most mass."""
    both = work.case.epsilon * plan.double().log() + cost.double()  # f + g, (batch, labels, n)
    best = y.argmax(1)
    f = both[torch.arange(len(both)), :, best]
    row = f.isfinite().double().mul(work.h.double()).argmax(1)
    g = both[torch.arange(len(both)), row] - f[torch.arange(len(both)), row].unsqueeze(1)
    return f, torch.where(y > 0, g, -math.inf)


def mdot(work: Work, iterations: int, *, restricted: bool) -> Attempt:
    """The truncated Newton method of mdot-tnt, on costs in [0, 1] as it recommends.

    Its error goes down as `H / γ^p` with the temperature: `p` is the one that ends at the
    tolerance, where its public call ends at `p = 1.5` and rounds the plan.
    """
    from mdot_tnt.batched import _batched_mdot

    h, y, cost = work.peer_arrays(restricted)
    largest = float(cost.max())
    gamma, cost = largest / work.case.epsilon, cost / largest
    entropy = torch.minimum(*(torch.special.entr(x).sum(1) for x in (h, y))).max()
    p = math.log(float(entropy) / work.case.tol) / math.log(gamma)

    def run() -> tuple[Tensor, Tensor]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the error is computed afterwards, for all
            u, v, *_ = _batched_mdot(h, y, cost, gamma, p=p)
        return u, v

    def error(scalings: tuple[Tensor, Tensor]) -> float:
        f, g = (work.case.epsilon * x.double() for x in scalings)
        return marginal_error(work, f, g)

    return Attempt(run, error)


def flash(work: Work, iterations: int) -> Attempt:
    """FlashSinkhorn, whose kernels compute costs from the points; in full single precision."""
    from flash_sinkhorn.kernels import sinkhorn_flashstyle_alternating

    points, epsilon = work.metric.vectors.float(), work.case.epsilon
    examples = list(zip(work.h.float(), work.dense_target.float(), strict=True))

    def run() -> list[tuple[Tensor, Tensor]]:
        return [
            sinkhorn_flashstyle_alternating(
                points,
                points,
                a,
                b,
                eps=epsilon,
                n_iters=iterations,
                cost_scale=work.metric.scale**-2,
                allow_tf32=False,
                # Of the potentials; the ℓ1 error is at most their change over ε.
                threshold=work.case.tol * epsilon,
                check_every=10,
            )
            for a, b in examples
        ]

    def error(answers: list[tuple[Tensor, Tensor]]) -> float:
        f, g = (torch.stack(side).double() for side in zip(*answers, strict=True))
        logs = (epsilon * x.double().log() for x in (work.h, work.dense_target))
        return marginal_error(work, f + next(logs), g + next(logs))

    return Attempt(run, error)


def curegot(work: Work, iterations: int, *, method: str) -> Attempt:
    """cuRegOT: Sinkhorn, or a quasi-Newton method with a sparse plus low-rank Hessian."""
    import curegot

    solve: Any = getattr(curegot.torch, method)
    cost = work.cost
    examples = list(zip(work.h, work.dense_target, strict=True))

    def run() -> list[Tensor]:
        answers = [
            solve(cost, a, b, work.case.epsilon, tol=work.case.tol, max_iter=iterations, verbose=0)
            for a, b in examples
        ]
        return [answer["plan"] for answer in answers]

    def error(plans: list[Tensor]) -> float:
        plan = torch.stack(plans)
        every = work.cost.expand_as(plan)
        return marginal_error(work, *_potentials(work, plan, every, work.dense_target))

    return Attempt(run, error)
