"""Solvers of one dense problem, or of point clouds, called as in `entropic.py`.

Each gets the settings that make it stop at the tolerance; its error is computed from its
potentials, as for all contenders. Some need a GPU.
"""

from __future__ import annotations

import math
import os
import tempfile
import warnings
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from contenders import Attempt, marginal_error
from problems import Work
from torch import Tensor

PROXIMAL = 1e-3  # the default of POT
CHECK_EVERY = 10  # iterations between checks of the error, the default of POT and OTT
# FlashSinkhorn tunes 44 tile shapes for each size, which takes minutes to compile. This is a subset
# of its rows, columns and warps that has a neighbour of each shape left out.
FLASH_BLOCKS = (
    (128, 128, 8), (128, 64, 8), (128, 64, 4), (64, 128, 8), (64, 128, 4), (64, 64, 4),
    (32, 128, 4), (32, 64, 4), (32, 32, 4),
)  # fmt: skip
OTT_BLOCK = 1024  # points per block


def pot_proximal(work: Work, iterations: int, *, restricted: bool) -> Attempt:
    """POT's proximal point method.

    In POT 0.9.7 the last plan enters the step with the wrong sign, so the fixed point is entropic
    transport of strength `reg + 2 inner_reg`; `reg` is chosen so that this is the case's strength.
    """
    from ot.batch import solve_batch

    h, y, cost = work.peer_arrays(restricted)
    cost, epsilon = cost.expand(work.case.batch, -1, -1), work.case.epsilon

    def run() -> Any:
        return solve_batch(
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

    return Attempt(
        run,
        lambda result: _error_of_plan(work, result.plan, cost, y),
        lambda result: int(result.log["n_iter"]) + 1,
    )


def _error_of_plan(work: Work, plan: Tensor, cost: Tensor, y: Tensor) -> float:
    """The error of the plan's potentials or, if entries were rounded to 0, of its own marginals."""
    if (plan > 0).all():
        return marginal_error(work, *_potentials(work, plan, cost, y))
    rows, columns = (plan.sum(dim, dtype=torch.float64) for dim in (2, 1))
    wrong = (rows - work.h.double()).abs().sum(1) + (columns - y.double()).abs().sum(1)
    return float(wrong.max())  # NaN if any is, so that a failed solve is visible


def _potentials(work: Work, plan: Tensor, cost: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """Recover the potentials of a plan `exp((f + g − M)/ε)` from its heaviest row and column."""
    both = work.case.epsilon * plan.double().log() + cost.double()  # f + g, (batch, labels, n)
    best = y.argmax(1)
    f = both[torch.arange(len(both)), :, best]
    row = f.isfinite().double().mul(work.h.double()).argmax(1)
    g = both[torch.arange(len(both)), row] - f[torch.arange(len(both)), row].unsqueeze(1)
    return f, torch.where(y > 0, g, -math.inf)


def mdot(work: Work, iterations: int, *, restricted: bool) -> Attempt:
    """The truncated Newton method of mdot-tnt, on costs in [0, 1] as it recommends.

    Its error decreases as `H / γ^p` with the temperature. `p` is chosen so that the schedule ends
    at the tolerance; the public call ends at `p = 1.5` and rounds the plan.
    """
    from mdot_tnt.batched import _batched_mdot

    h, y, cost = work.peer_arrays(restricted)
    largest = float(cost.max())
    gamma, cost = largest / work.case.epsilon, cost / largest
    entropy = torch.minimum(*(torch.special.entr(x).sum(1) for x in (h, y))).max()
    p = math.log(float(entropy) / work.case.tol) / math.log(gamma)

    def run() -> tuple[Tensor, Tensor, int]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the error is computed afterwards
            u, v, _, passes, _ = _batched_mdot(h, y, cost, gamma, p=p)
        return u, v, passes

    def error(scalings: tuple[Tensor, Tensor, int]) -> float:
        f, g = (work.case.epsilon * x.double() for x in scalings[:2])
        return marginal_error(work, f, g)

    return Attempt(run, error, lambda scalings: int(scalings[2]))


def flash(work: Work, iterations: int, *, allow_tf32: bool = False) -> Attempt:
    """FlashSinkhorn, whose kernels compute costs from the points.

    Its threshold is on the change of the potentials, so it gets a number of iterations instead
    (`Contender.searched`), which also saves it the checks.
    """
    from flash_sinkhorn.kernels import sinkhorn_flashstyle_alternating

    _tune_fewer_shapes(work.case.dimensions)
    vectors, epsilon = work.metric.vectors.float(), work.case.epsilon
    examples = list(zip(work.h.float(), work.dense_target.float(), strict=True))

    def run() -> list[tuple[Tensor, Tensor]]:
        return [
            sinkhorn_flashstyle_alternating(
                vectors,
                vectors,
                a,
                b,
                eps=epsilon,
                n_iters=iterations,
                cost_scale=work.metric.scale**-2,
                allow_tf32=allow_tf32,
            )
            for a, b in examples
        ]

    def error(answers: list[tuple[Tensor, Tensor]]) -> float:
        f, g = (torch.stack(side).double() for side in zip(*answers, strict=True))
        logs = (epsilon * x.double().log() for x in (work.h, work.dense_target))
        return marginal_error(work, f + next(logs), g + next(logs))

    return Attempt(run, error, lambda _: iterations)


def _tune_fewer_shapes(dimensions: int) -> None:
    import triton
    from flash_sinkhorn.kernels import sinkhorn_flashstyle_sqeuclid as kernels

    tuned = kernels._flashsinkhorn_lse_fused_kernel_autotune
    tuned.configs = [
        triton.Config({"BLOCK_M": m, "BLOCK_N": n, "BLOCK_K": k}, num_warps=warps, num_stages=3)
        for m, n, warps in FLASH_BLOCKS
        for k in ((16,) if dimensions <= 16 else (16, 32))
    ]
    # Milliseconds. In versions of Triton where this function is a property, it has another name.
    tuned._do_bench = partial(triton.testing.do_bench, warmup=5, rep=20)
    with suppress(AttributeError):
        tuned.do_bench = tuned._do_bench


def jax_on(device: str) -> Any:
    """JAX with double precision, on the GPU if the problem is there."""
    # By default JAX reserves most of the GPU's memory, which other contenders need.
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    import jax

    jax.config.update("jax_enable_x64", True)
    # Each number of iterations is compiled, most of them twice: for a trial and for the timing.
    jax.config.update("jax_compilation_cache_dir", str(Path(tempfile.gettempdir()) / "jax-cache"))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    if device == "cuda" and jax.default_backend() != "gpu":
        raise ImportError("JAX without GPU support")
    return jax


def ott_points(work: Work, iterations: int) -> Attempt:
    """OTT on a point cloud, with costs computed one block of points at a time."""
    jax = jax_on(work.h.device.type)
    from jax.interpreters import batching
    from ott.geometry import pointcloud
    from ott.solvers import linear

    if not hasattr(batching, "is_vmappable"):
        # OTT 0.6.0 calls this function, which newer JAX hides; it is true only for registered
        # types.
        batching.is_vmappable = lambda x: False

    def solve(x: Any, a: Any, b: Any) -> tuple[Any, Any, Any]:
        geom = pointcloud.PointCloud(x, x, batch_size=OTT_BLOCK, epsilon=work.case.epsilon)
        out = linear.solve(
            geom,
            a,
            b,
            threshold=work.case.tol,
            inner_iterations=CHECK_EVERY,
            max_iterations=iterations,
        )
        return out.f, out.g, out.n_iters

    given = work.metric.vectors / work.metric.scale, work.h[0], work.dense_target[0]
    arrays = [jax.numpy.asarray(x.cpu().numpy()) for x in given]
    compiled = jax.jit(solve).lower(*arrays).compile()

    def error(answer: tuple[Any, Any, Any]) -> float:
        f, g = (torch.from_numpy(np.array(x)).unsqueeze(0) for x in answer[:2])
        return marginal_error(work, f, g)

    return Attempt(
        lambda: jax.block_until_ready(compiled(*arrays)), error, lambda answer: int(answer[2])
    )


def curegot(work: Work, iterations: int, *, method: str) -> Attempt:
    """cuRegOT: Sinkhorn, or a quasi-Newton method with a sparse plus low-rank Hessian."""
    import curegot

    if not hasattr(curegot, "torch"):
        raise ImportError("curegot has no interface to this version of torch")
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
        return _error_of_plan(work, plan, work.cost.expand_as(plan), work.dense_target)

    return Attempt(run, error)
