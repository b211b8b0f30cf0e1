"""`W(softmax(logits), target) + α KL` with its gradient, where one compiled pass can do it all.

The functions of :mod:`wassloss.functional` are composed of many small steps: softmax, checks,
a problem, its solution, the KL term. Each is a call that passes over the batch, and together they
take longer than the transport. The usual cases have kernels that go from the logits to the loss
and its gradient in one go. They are told from the others here; and where a kernel finds anything
unusual about an example (a NaN, a mass that is not 1, a solve that did not converge) the composed
functions are asked again, for they know what to say about it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import NamedTuple

import torch
from torch import Tensor

from wassloss import _checks
from wassloss.ground import GroundMetric
from wassloss.recipe import Recipe
from wassloss.targets import SparseTarget, Target, dtype_of
from wassloss.transport import newton_cpu, newton_gpu
from wassloss.transport.entropic import default_tolerance, rounding_of
from wassloss.transport.newton import Newton
from wassloss.transport.objective import Objective, Regularizer
from wassloss.transport.problem import smallest_mass
from wassloss.transport.solve import largest_block


class Fused(NamedTuple):
    """What a kernel makes of a batch."""

    value: Tensor  # (batch,)
    gradient: Tensor  # (batch, labels), in the logits
    status: Tensor  # (batch,), see wassloss.fused.status


@dataclass(frozen=True)
class LossRule:
    """What the examples of a batch have in common.

    Attributes:
        objective: of the transport; balanced.
        tol, max_iterations: how hard to solve.
        kl_weight: the paper's α.
        normalize_target: divide each target by its sum.
        mass_tolerance: else, how far that sum may be from 1.
        ignore_index: the class id of examples that do not count.
        unsolved: a count that kernels add to, if any.
    """

    objective: Objective
    tol: float
    max_iterations: int
    kl_weight: float
    normalize_target: bool
    mass_tolerance: float
    ignore_index: int
    unsolved: Tensor | None

    @property
    def entropy_of_one_label(self) -> float:
        """What the only plan to one label is charged for its entropy `Σ h log h`; see `OneHot`."""
        plan = self.objective.regularizer is Regularizer.PLAN
        return self.objective.epsilon if plan else 0.0


class Costs(NamedTuple):
    """Rows of costs, each to all labels, and which row belongs to target `j` of example `b`."""

    rows: Tensor  # (any number, labels)
    tabulated: bool  # row `index[b, j]`, for the table has all labels; else row `b * support + j`


def fused_loss(
    logits: Tensor,
    target: Target,
    batch_shape: torch.Size,
    metric: GroundMetric,
    recipe: Recipe,
    kl_weight: float,
    normalize_target: bool,
    ignore_index: int,
    unsolved: Tensor | None = None,
) -> Fused | None:
    """Losses and gradients of `logits (batch, labels)`; None where no kernel applies.

    `unsolved` is a count to which, while a CUDA graph is captured, the examples with a status above
    `IGNORED` are added: a graph has no other way to tell.
    """
    kernels = _kernels(logits, metric, recipe)
    if kernels is None:
        return None
    read: SparseTarget | Tensor | None
    if isinstance(target, SparseTarget):
        few = None if recipe.objective.exact else _few(target, logits, batch_shape)
        read = few if few is None or few.indices.shape[1] <= kernels.LARGEST_SUPPORT else None
    else:
        read = _class_ids(target, logits, batch_shape)
    if read is None:
        return None
    logits = logits.detach().contiguous()
    rule = LossRule(
        recipe.objective,
        default_tolerance(logits.dtype) if recipe.tol is None else recipe.tol,
        Newton.max_iterations if recipe.max_iterations is None else recipe.max_iterations,
        kl_weight,
        normalize_target,
        _checks.mass_tolerance(logits.dtype, dtype_of(target)),
        ignore_index,
        None if _checks.checking() else unsolved,
    )
    if isinstance(read, SparseTarget):
        return _loss_of_few(kernels, logits, read, metric, rule)
    return _loss_of_class_ids(kernels, logits, read, metric, rule)


def _kernels(logits: Tensor, metric: GroundMetric, recipe: Recipe) -> ModuleType | None:
    """The kernels of the logits' device, if what is asked for is what they do."""
    usual = recipe.solver is None and recipe.iterations is None and not recipe.debiased
    plain = not metric.requires_grad and not torch.compiler.is_compiling()
    if not (usual and plain and len(logits) and newton_cpu.has_memory(logits)):
        return None
    if logits.device.type == "cpu" and newton_cpu.available():
        from wassloss.fused import cpu

        return cpu
    if newton_gpu.available(logits.device):
        from wassloss.fused import gpu

        return gpu
    return None


def _class_ids(target: Target, logits: Tensor, batch_shape: torch.Size) -> Tensor | None:
    """The target as `(batch,)` if it is class ids where and as they should be, by its type."""
    if not isinstance(target, Tensor) or target.layout != torch.strided:
        return None
    if target.dtype != torch.long or target.shape != batch_shape or target.device != logits.device:
        return None
    return target.reshape(-1).contiguous()


def _few(target: SparseTarget, logits: Tensor, batch_shape: torch.Size) -> SparseTarget | None:
    """The target as `(batch, support)`, in the types that kernels read; None where it is odd."""
    indices, weights = target.indices, target.weights
    if not (isinstance(indices, Tensor) and isinstance(weights, Tensor)):
        return None
    shapes = (batch_shape, logits.shape[:1])  # as the user has it, or as read from another form
    shaped = indices.dim() and indices.shape == weights.shape and indices.shape[:-1] in shapes
    typed = weights.is_floating_point() and not weights.requires_grad
    whole = not (indices.is_floating_point() or indices.is_complex() or indices.dtype == torch.bool)
    here = indices.device == weights.device == logits.device
    if not (shaped and typed and whole and here and indices.shape[-1]):
        return None
    flat = (len(logits), indices.shape[-1])
    weights = weights.to(logits.dtype).reshape(flat).contiguous()
    return SparseTarget(indices.long().reshape(flat).contiguous(), weights)


def _loss_of_class_ids(
    kernels: ModuleType, logits: Tensor, ids: Tensor, metric: GroundMetric, rule: LossRule
) -> Fused:
    def run(rows: slice, costs: Costs) -> Fused:
        result: Fused = kernels.loss_of_class_ids(logits[rows], ids[rows], costs, rule)
        return result

    return _on_costs(run, ids.unsqueeze(1), metric, logits.dtype)


def _loss_of_few(
    kernels: ModuleType,
    logits: Tensor,
    target: SparseTarget,
    metric: GroundMetric,
    rule: LossRule,
) -> Fused:
    epsilon, dtype = rule.objective.epsilon, logits.dtype
    largest = metric.largest_known_cost
    if largest is not None and rounding_of(largest, epsilon, dtype) > rule.tol:
        logits = logits.double()  # whose rounding leaves enough digits
    weights = target.weights.to(logits.dtype)

    def run(rows: slice, costs: Costs) -> Fused:
        part = SparseTarget(target.indices[rows], weights[rows])
        result: Fused = kernels.loss_of_few(logits[rows], part, costs, rule)
        return result

    value, gradient, status = _on_costs(run, target.indices, metric, logits.dtype)
    return Fused(value.to(dtype), gradient.to(dtype), status)


def _on_costs(
    run: Callable[[slice, Costs], Fused], indices: Tensor, metric: GroundMetric, dtype: torch.dtype
) -> Fused:
    """Run a kernel on the table of all costs or, piece by piece, on the columns it needs."""
    table = metric.known_costs_in(dtype)
    if table is not None:
        return run(slice(None), Costs(table, tabulated=True))
    labels, (batch, support) = metric.size, indices.shape
    named = indices.clamp(0, labels - 1)  # what is out of range is for the kernel to tell
    size = max(1, largest_block(indices.device) // (support * labels))
    parts: list[Fused] = []
    for first in range(0, batch, size):
        rows = slice(first, first + size)
        columns = metric.unchecked_cost_columns(named[rows]).detach().to(dtype)
        parts.append(run(rows, Costs(columns.reshape(-1, labels), tabulated=False)))
    return parts[0] if len(parts) == 1 else Fused(*map(torch.cat, zip(*parts, strict=True)))


def lowest_log_mass(dtype: torch.dtype) -> float:
    """What the log of a label's mass is raised to; see `smallest_mass`."""
    return math.log(smallest_mass(dtype))
