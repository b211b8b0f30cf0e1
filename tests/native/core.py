"""Shared by tests of the compiled core: inputs, and the losses that it is compared with."""

from typing import Any

import pytest
import torch
from torch import Tensor

from tests.generators import random_masses
from tests.newtons import LockstepNewton
from wassloss.kernels.status import IGNORED
from wassloss.losses.inputs import mass_tolerance
from wassloss.losses.softened import softened
from wassloss.losses.spec import LossSpec
from wassloss.losses.transport_cost import transport_cost
from wassloss.native import calls, library
from wassloss.native.calls import Losses
from wassloss.native.library import Settings
from wassloss.targets import SparseTarget
from wassloss.transport.objective import Regularizer
from wassloss.transport.precision import tolerance

F32, F64 = torch.float32, torch.float64

each_dtype = pytest.mark.parametrize("dtype", [F32, F64], ids=["single", "double"])
each_regularizer = pytest.mark.parametrize("regularizer", ["plan", "product"])
tables = pytest.mark.parametrize("tabulated", [True, False], ids=["table", "columns"])


def skip_module_without_core() -> None:
    """Skip the calling test module if there is no core; call it at import."""
    if not library.available():
        pytest.skip("needs the compiled core", allow_module_level=True)


BATCH = 4
# More labels than a block of the core, and not a multiple of it; and few labels.
SIZES = [2, 3, 10, 37, 600, 1500]


def logits_of(labels: int, dtype: torch.dtype = F64, scale: float = 3.0) -> Tensor:
    generator = torch.Generator().manual_seed(labels)
    return (scale * torch.randn(BATCH, labels, dtype=F64, generator=generator)).to(dtype)


def few(labels: int, support: int, dtype: torch.dtype = F64) -> SparseTarget:
    """Weights that sum to one; the first example has padding with an invalid label."""
    support = min(support, labels)
    weights, indices = random_masses(BATCH, labels, support, seed=5).topk(support)
    if support > 1:
        weights[0, -1], indices[0, -1] = 0, -1
    return SparseTarget(indices, (weights / weights.sum(1, keepdim=True)).to(dtype))


def settings_of(spec: LossSpec, dtype: torch.dtype, threads: int = 1) -> Settings:
    """The settings of a loss, in units of its metric."""
    objective, options = spec.objective, spec.options
    tol = tolerance(options.tol, dtype)
    return calls.settings(
        epsilon=objective.epsilon,
        gamma=objective.gamma,
        product=objective.regularizer is Regularizer.PRODUCT,
        unequal_price=objective.price_of_unequal_masses,
        transport_weight=spec.transport_weight,
        kl_weight=spec.kl_weight,
        per_softening=spec.per_softening,
        tol=tol,
        mass_tolerance=mass_tolerance(dtype, dtype),
        max_iterations=options.scaling_iterations or options.max_iterations or 200,
        fixed=options.scaling_iterations is not None,
        normalize=spec.normalize_target,
        ignore_index=spec.ignore_index,
        threads=threads,
    )


def losses(
    logits: Tensor,
    target: Tensor | SparseTarget,
    spec: LossSpec,
    *,
    tabulated: bool = True,
    threads: int = 1,
) -> Losses:
    """Losses by the compiled core, with costs from a table or as rows."""
    record, cost = settings_of(spec, logits.dtype, threads), spec.metric.cost().to(logits.dtype)
    table = cost.T.contiguous()  # one row per target, as the kernels read them
    labels = target.indices if isinstance(target, SparseTarget) else target
    if not tabulated:
        table = table[labels.clamp(0, len(table) - 1).reshape(-1)]
    if isinstance(target, SparseTarget):
        weights = target.weights.to(logits.dtype)
        found = calls.sparse(record, logits, target.indices, weights, table, tabulated)
    else:
        found = calls.class_ids(record, logits, target, table, tabulated)
    assert found.worst == int(found.status.max())
    return found


def composed(
    logits: Tensor, target: Tensor | SparseTarget, spec: LossSpec
) -> tuple[Tensor, Tensor]:
    """Losses and gradients from tensor operations in double precision."""
    x = logits.detach().double().requires_grad_()
    counts = torch.ones(len(x), dtype=torch.bool)
    if not isinstance(target, SparseTarget):
        counts = target != spec.ignore_index
        labels = target.where(counts, 0).unsqueeze(1)
        target = SparseTarget(labels, torch.ones(labels.shape, dtype=F64))
    weights = target.weights.double()
    if spec.normalize_target or spec.objective.free_target:
        weights = weights / weights.sum(1, keepdim=True)
    target = SparseTarget(target.indices.where(weights > 0, 0), weights)
    log_h = x.log_softmax(1)
    value = log_h.new_zeros(len(x))
    if spec.transport_weight:
        value = value + spec.transport_weight * transport_cost(log_h, target, spec)
    if spec.kl_weight:
        if spec.softening:
            shares = softened(target, spec.metric, spec.softening, spec.objective.free_target)
        else:
            shares = torch.zeros_like(log_h).scatter_add(1, target.indices, weights)
        kl = torch.special.xlogy(shares, shares) - shares * log_h.where(shares > 0, 0)
        value = value + spec.kl_weight * kl.sum(1)
    value = value.where(counts, 0)
    (gradient,) = torch.autograd.grad(value.sum(), x)
    return value.detach(), gradient


def compare(
    logits: Tensor,
    target: Tensor | SparseTarget,
    metric: Any,
    *,
    tabulated: bool = True,
    close: float | None = None,
    **keywords: Any,
) -> Losses:
    """Compare losses of the core with the composed ones; all must have converged."""
    dtype = logits.dtype
    found = losses(logits, target, LossSpec.checked(metric, **keywords), tabulated=tabulated)
    assert found.worst <= IGNORED
    exact = keywords | {"tol": 1e-10}
    objective = LossSpec.checked(metric, **keywords).objective
    if not (objective.free_target or "scaling_iterations" in keywords):
        exact["solver"] = LockstepNewton(1e-10)
        exact.pop("max_iterations", None), exact.pop("tol")
    else:
        exact.pop("tol")
    value, gradient = composed(logits, target, LossSpec.checked(metric, **exact))
    close = close or (1e-4 if dtype == F32 else 1e-7)
    torch.testing.assert_close(found.value.double(), value, rtol=close, atol=close)
    torch.testing.assert_close(found.gradient.double(), gradient, rtol=close, atol=close)
    return found
