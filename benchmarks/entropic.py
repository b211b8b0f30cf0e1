"""Entropic transport: how each library is called, as its documentation recommends.

All get the same cost in the same dtype, and the tolerance as their stopping threshold in their own
norm (POT uses ℓ2, which is easier). "Support only" stands for a user who, outside the timing, drops
the columns of the cost without target mass by hand.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from typing import Any
from unittest import mock

import numpy as np
import points
import torch
from contenders import GRAPH, OURS, Attempt, Contender, marginal_error
from problems import Case, Work
from torch import Tensor
from training import replayed

import wassloss as wl
from wassloss import native

CHECK_EVERY = 10  # iterations between checks of the error, the default of POT and OTT
# GeomLoss has no tolerance. It lowers ε over a given number of iterations, so more iterations
# always help, by a factor that shrinks like 1/n. Few users would use more than this number.
GEOMLOSS_ITERATIONS = 1000


def wassloss(work: Work, iterations: int, *, compiled: bool = True) -> Attempt:
    """`wl.solve`; with `compiled=False`, as if the core were not compiled."""
    target = work.dense_target if work.case.dense else work.target

    def run() -> wl.Solution:
        return wl.solve(work.h, target, work.metric, epsilon=work.case.epsilon, tol=work.case.tol)

    def run_without_core() -> wl.Solution:
        with mock.patch.object(native, "available", return_value=False):
            return run()

    def error(solution: wl.Solution) -> float:
        reference = solution.problem.objective.log_reference(
            solution.problem.log_h, solution.problem.log_y
        )
        alpha, beta = (work.case.epsilon * x for x in reference)
        return marginal_error(work, solution.f + alpha, solution.g + beta)

    timed = run if compiled else run_without_core
    return Attempt(timed, error, lambda solution: int(solution.n_iterations.max()))


def wassloss_loss(work: Work, iterations: int, *, graph: bool = False) -> Attempt:
    """The loss and its gradient with respect to the logits, as in training."""
    case = work.case
    loss_fn = wl.WassersteinLoss(
        work.metric,
        epsilon=case.epsilon,
        tol=case.tol,
        reduction="sum",
        kl_weight=0.0,
        normalize_cost=False,
    )
    target = work.dense_target if case.dense else work.target
    logits = work.h.log().requires_grad_()
    logits.grad = torch.zeros_like(logits)

    def run() -> Tensor:
        logits.grad.zero_()
        loss_fn(logits, target).backward()
        return logits.grad

    def error(_: object) -> float:
        # The gradient with respect to the logits is h (f − Σ h f), and the optimal g follows from
        # f.
        f = logits.grad.double() / work.h.double()
        g = []
        for example, potential in enumerate(f):
            cost = work.metric.cost_columns(work.target.indices[example]).double()
            log_sum = ((potential - cost) / case.epsilon).logsumexp(1)
            g.append(case.epsilon * (work.target.weights[example].double().log() - log_sum))
        return marginal_error(work, f, torch.stack(g))

    return Attempt(replayed(run) if graph else run, error)


def gemm_sinkhorn(work: Work, iterations: int) -> Attempt:
    """Textbook scaling of the whole batch with one kernel: two matrix products per iteration.

    Always in double precision, because the kernel underflows in single.
    """
    h, y, cost = work.h.double(), work.dense_target.double(), work.cost.double()

    def run() -> tuple[Tensor, Tensor, int]:
        kernel = (-cost / work.case.epsilon).exp()
        u = torch.ones_like(h)
        marginal = u @ kernel  # of v = 1
        for i in range(iterations):
            v = y / marginal
            u = h / (v @ kernel.T)
            marginal = u @ kernel
            if i % CHECK_EVERY == 0:
                worst = (v * marginal - y).abs().sum(1).max()
                if not worst > work.case.tol:  # NaN ends it too
                    break
        return u, v, i + 1

    return Attempt(run, lambda answer: _scaling_error(work, answer[:2]), lambda answer: answer[2])


def pot_loop(work: Work, iterations: int, *, restricted: bool) -> Attempt:
    import ot

    h, y, cost = work.peer_arrays(restricted)
    array: Callable[[Tensor], Any] = _numpy if work.h.device.type == "cpu" else lambda x: x
    # The documented alternative if exp(−M/ε) underflows.
    largest = {torch.float32: 85.0, torch.float64: 700.0}[work.case.torch_dtype]
    underflows = float(cost.max()) > largest * work.case.epsilon
    method = "sinkhorn_log" if underflows else "sinkhorn"
    costs = [array(x) for x in cost] if restricted else [array(cost)] * work.case.batch
    examples = [(array(a), array(b), M) for a, b, M in zip(h, y, costs, strict=True)]

    def solve_one(a: Any, b: Any, M: Any) -> tuple[Any, Any, int]:
        # Drop the plan: keeping those of the batch would take the memory of `solve_batch`.
        _, log = ot.sinkhorn(
            a,
            b,
            M,
            work.case.epsilon,
            method=method,
            numItermax=iterations,
            stopThr=work.case.tol,
            log=True,
            warn=False,
        )
        names = ("log_u", "log_v") if underflows else ("u", "v")
        count = log["niter"] if "niter" in log else log["n_iter"]
        return log[names[0]], log[names[1]], int(count) + 1

    def run() -> list[tuple[Any, Any, int]]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the error is computed afterwards
            return [solve_one(*example) for example in examples]

    def error(answers: list[tuple[Any, Any, int]]) -> float:
        sides = list(zip(*answers, strict=True))[:2]
        u, v = (torch.stack([torch.as_tensor(x) for x in side]) for side in sides)
        return (_log_scaling_error if underflows else _scaling_error)(work, (u, v))

    return Attempt(run, error, lambda answers: max(count for *_, count in answers))


def pot_batch(work: Work, iterations: int, *, restricted: bool) -> Attempt:
    from ot.batch import solve_batch

    h, y, cost = work.peer_arrays(restricted)
    cost = cost.expand(work.case.batch, -1, -1)

    def run() -> Any:
        return solve_batch(
            cost,
            reg=work.case.epsilon,
            a=h,
            b=y,
            max_iter=iterations,
            tol=work.case.tol,
            method="log_sinkhorn",
            grad="detach",
        )

    return Attempt(
        run,
        lambda result: _log_scaling_error(work, result.potentials),
        lambda result: int(result.log["n_iter"]) + 1,
    )


def geomloss_batch(work: Work, iterations: int, *, restricted: bool) -> Attempt:
    from geomloss import ot

    h, y, cost = work.peer_arrays(restricted)
    cost = cost.expand(work.case.batch, -1, -1).contiguous()

    def run() -> Any:
        result = ot.solve_batch(cost, reg=work.case.epsilon, a=h, b=y, max_iter=iterations)
        return result.potential_a, result.potential_b, result.value

    def error(answer: Any) -> float:
        f, g, _ = answer
        # Its plan is exp((f + g − C)/ε) times the product of the marginals.
        epsilon = work.case.epsilon
        return marginal_error(work, f + epsilon * h.log(), g + epsilon * y.log())

    return Attempt(run, error, lambda _: iterations)


def ott_vmap(work: Work, iterations: int, *, restricted: bool, lse_mode: bool) -> Attempt:
    jax = points.jax_on(work.h.device.type)
    from ott.geometry import geometry
    from ott.solvers import linear

    def solve_one(a: Any, b: Any, M: Any) -> tuple[Any, Any, Any]:
        geom = geometry.Geometry(cost_matrix=M, epsilon=work.case.epsilon)
        out = linear.solve(
            geom,
            a,
            b,
            lse_mode=lse_mode,
            threshold=work.case.tol,
            inner_iterations=CHECK_EVERY,
            max_iterations=iterations,
        )
        return out.f, out.g, out.n_iters

    arrays = [jax.numpy.asarray(_numpy(x)) for x in work.peer_arrays(restricted)]
    batched = jax.vmap(solve_one, in_axes=(0, 0, 0 if restricted else None))
    compiled = jax.jit(batched).lower(*arrays).compile()  # compile here, outside the timing

    def error(answer: tuple[Any, Any, Any]) -> float:
        f, g = (torch.tensor(np.asarray(x)) for x in answer[:2])
        return marginal_error(work, f, g)

    return Attempt(
        lambda: jax.block_until_ready(compiled(*arrays)),
        error,
        lambda answer: int(np.asarray(answer[2]).max()),
    )


def _numpy(x: Tensor) -> Any:
    return x.cpu().numpy()


def _scaling_error(work: Work, answer: tuple[Tensor, Tensor]) -> float:
    u, v = answer
    return _log_scaling_error(work, (u.double().log(), v.double().log()))


def _log_scaling_error(work: Work, answer: tuple[Tensor, Tensor]) -> float:
    log_u, log_v = answer
    epsilon = work.case.epsilon
    return marginal_error(work, epsilon * log_u.double(), epsilon * log_v.double())


def _matrices(count: int, case: Case) -> float:
    return count * case.labels**2 * _bytes(case) / 1e9


def _blocks(count: int, case: Case) -> float:
    return _matrices(count, case) * case.batch


def _support_blocks(count: int, case: Case) -> float:
    return count * case.batch * case.labels * case.support * _bytes(case) / 1e9


def _bytes(case: Case) -> int:
    return case.torch_dtype.itemsize


def _peer(
    name: str,
    prepare: Callable[..., Attempt],
    gigabytes: Callable[[Case], float],
    takes_zeros: bool = True,
    **keywords: Any,
) -> tuple[Contender, Contender]:
    """A library on the full problem, if it applies, and restricted to the support by hand."""
    helped_gigabytes = partial(_support_blocks, 4)
    return (
        Contender(
            name,
            partial(prepare, restricted=False),
            gigabytes=gigabytes,
            suits=lambda case: takes_zeros or case.dense,
            **keywords,
        ),
        Contender(
            f"{name}, support only",
            partial(prepare, restricted=True),
            gigabytes=helped_gigabytes,
            suits=lambda case: not case.dense,
            **keywords,
        ),
    )


def _dense(name: str, prepare: Callable[..., Attempt], matrices: int, **keywords: Any) -> Contender:
    """A library for one pair of dense measures at a time."""
    return Contender(
        name,
        prepare,
        one_by_one=True,
        gigabytes=partial(_matrices, matrices),
        **({"suits": lambda case: case.dense} | keywords),
    )


def _of_points(case: Case) -> bool:
    """Whether solvers of point clouds, which compute squared distances themselves, apply."""
    return case.dense and case.power == 2


def _dense_gigabytes(case: Case) -> float:
    """Size of our dense solver's costs and, on a CPU, of its kernel's exponents in double."""
    return case.labels**2 * (case.torch_dtype.itemsize + 2 * 8 + 1) / 1e9 if case.dense else 0.0


CONTENDERS = (
    Contender(
        OURS,
        wassloss,
        gigabytes=_dense_gigabytes,
        most_iterations=1,  # it has its own limit
        compiles=lambda case: not case.dense,
    ),
    Contender(
        f"{OURS}, loss and gradient",
        wassloss_loss,
        gigabytes=_dense_gigabytes,
        most_iterations=1,
        compiles=lambda case: not case.dense,
    ),
    Contender(
        f"{OURS}, loss and gradient, {GRAPH}",
        partial(wassloss_loss, graph=True),
        gigabytes=_dense_gigabytes,
        most_iterations=1,
        device="cuda",
    ),
    *_peer("POT sinkhorn, loop", pot_loop, partial(_matrices, 4), one_by_one=True),
    *_peer("POT solve_batch", pot_batch, partial(_blocks, 4)),
    *_peer(
        "POT solve_batch, proximal", points.pot_proximal, partial(_blocks, 6), takes_zeros=False
    ),
    *_peer("mdot-tnt, batched", points.mdot, partial(_blocks, 6), most_iterations=1),
    _dense(
        "FlashSinkhorn",
        points.flash,
        0,
        suits=_of_points,
        device="cuda",
        searched=True,
        compiles=lambda case: case.labels <= 10_000,
    ),
    _dense(
        "FlashSinkhorn, TF32",  # its default
        partial(points.flash, allow_tf32=True),
        0,
        suits=lambda case: _of_points(case) and case.batch == 1 and case.labels == 10_000,
        device="cuda",
        searched=True,
        compiles=lambda case: True,
    ),
    _dense(
        "cuRegOT sinkhorn_bcd", partial(points.curegot, method="sinkhorn_bcd"), 4, device="cuda"
    ),
    _dense(
        "cuRegOT sinkhorn_splr", partial(points.curegot, method="sinkhorn_splr"), 4, device="cuda"
    ),
    *_peer(
        "GeomLoss solve_batch",
        geomloss_batch,
        partial(_blocks, 5),
        most_iterations=GEOMLOSS_ITERATIONS,
        searched=True,
    ),
    _dense(
        "OTT PointCloud, online",
        points.ott_points,
        0,
        suits=lambda case: _of_points(case) and case.batch == 1,
        iterations_at_once=CHECK_EVERY,
        trials=False,
    ),
    *_peer(
        "OTT vmap, log domain",
        partial(ott_vmap, lse_mode=True),
        partial(_blocks, 2),
        iterations_at_once=CHECK_EVERY,
        trials=False,
    ),
    *_peer(
        "OTT vmap, kernel",
        partial(ott_vmap, lse_mode=False),
        partial(_matrices, 4),
        iterations_at_once=CHECK_EVERY,
        trials=False,
    ),
    Contender("GEMM Sinkhorn (float64)", gemm_sinkhorn, gigabytes=partial(_matrices, 8)),
)
