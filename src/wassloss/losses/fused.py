"""`W(softmax(logits), target) + α KL` with its gradient, where one compiled pass can do it all.

The functions of :mod:`wassloss.losses` are composed of many small steps: softmax, checks,
a problem, its solution, the KL term. Each is a call that passes over the batch, and together they
take longer than the transport. The usual cases have kernels that go from the logits to the loss
and its gradient in one go. They are told from the others here; and where a kernel finds anything
unusual about an example (a NaN, a mass that is not 1, a solve that did not converge) the composed
functions are asked again, for they know what to say about it.
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType

import torch
from torch import Tensor

from wassloss.ground import GroundMetric
from wassloss.kernels import launch
from wassloss.losses import fused_cpu as cpu
from wassloss.losses import fused_gpu as gpu
from wassloss.losses.rule import Costs, Fused, LossRule
from wassloss.losses.spec import LossSpec
from wassloss.targets import SparseTarget, Target, dtype_of, is_class_ids
from wassloss.transport.dispatch import largest_block
from wassloss.transport.precision import rounding_error


def fused_loss(
    logits: Tensor, target: Target, batch_shape: torch.Size, spec: LossSpec
) -> Fused | None:
    """Losses and gradients of `logits (batch, labels)`; None where no kernel applies."""
    kernels = _kernels(logits, spec)
    if kernels is None:
        return None
    if isinstance(target, SparseTarget):
        few = _few(target, logits, batch_shape) if kernels.solves(spec.recipe) else None
        if few is None or few.indices.shape[1] > kernels.LARGEST_SUPPORT:
            return None
        rule = LossRule.of(spec, logits.dtype, dtype_of(target))
        return _loss_of_few(kernels, logits.detach().contiguous(), few, spec.metric, rule)
    ids = _class_ids(target, logits, batch_shape)
    if ids is None or spec.recipe.scaling_iterations is not None:
        return None
    rule = LossRule.of(spec, logits.dtype, ids.dtype)
    return _loss_of_class_ids(kernels, logits.detach().contiguous(), ids, spec.metric, rule)


def _kernels(logits: Tensor, spec: LossSpec) -> ModuleType | None:
    """The kernels of the logits' device, if what is asked for is what they do."""
    recipe, device = spec.recipe, logits.device
    usual = recipe.solver is None and not recipe.debiased
    plain = not torch.compiler.is_compiling() and not spec.metric.requires_grad
    if not (usual and plain and logits.shape[0] and launch.has_memory(logits)):
        return None
    if device.type == "cpu" and launch.numba_available():
        return cpu
    return gpu if launch.triton_available(device) else None


def _class_ids(target: Target, logits: Tensor, batch_shape: torch.Size) -> Tensor | None:
    """The target as `(batch,)` if it is class ids of any integer type; None where it is odd."""
    if not is_class_ids(target) or target.dtype == torch.bool or target.is_complex():
        return None
    if target.shape != batch_shape or target.device != logits.device:
        return None
    return target.flatten().long().contiguous()


def _few(target: SparseTarget, logits: Tensor, batch_shape: torch.Size) -> SparseTarget | None:
    """The target as `(batch, support)`, in the types that kernels read; None where it is odd."""
    indices, weights = target.indices, target.weights
    if not (isinstance(indices, Tensor) and isinstance(weights, Tensor)):
        return None
    if not (indices.layout == weights.layout == torch.strided):
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
        part: Fused = kernels.loss_of_class_ids(logits[rows], ids[rows], costs, rule)
        return part

    table = metric.known_costs_in(logits.dtype)
    if table is None:
        return _in_pieces(run, ids.unsqueeze(1), metric, logits.dtype)
    whole: Fused = kernels.loss_of_class_ids(logits, ids, Costs(table, tabulated=True), rule)
    return whole


def _loss_of_few(
    kernels: ModuleType,
    logits: Tensor,
    target: SparseTarget,
    metric: GroundMetric,
    rule: LossRule,
) -> Fused:
    epsilon, dtype = rule.objective.epsilon, logits.dtype
    largest = metric.largest_known_cost
    to_tolerance = not rule.objective.free_target and rule.scaling_iterations is None
    if to_tolerance and largest is not None and rounding_error(largest, epsilon, dtype) > rule.tol:
        logits = logits.double()  # whose rounding leaves enough digits
    indices, weights = target.indices, target.weights.to(logits.dtype)

    def run(rows: slice, costs: Costs) -> Fused:
        part: Fused = kernels.loss_of_few(logits[rows], indices[rows], weights[rows], costs, rule)
        return part

    table = metric.known_costs_in(logits.dtype)
    if table is None:
        found = _in_pieces(run, indices, metric, logits.dtype)
    else:
        found = kernels.loss_of_few(logits, indices, weights, Costs(table, tabulated=True), rule)
    if logits.dtype == dtype:
        return found
    return found._replace(value=found.value.to(dtype), gradient=found.gradient.to(dtype))


def _in_pieces(
    run: Callable[[slice, Costs], Fused], indices: Tensor, metric: GroundMetric, dtype: torch.dtype
) -> Fused:
    """Run a kernel piece by piece on the columns of costs that it needs."""
    labels, (batch, support) = metric.size, indices.shape
    named = indices.clamp(0, labels - 1)  # what is out of range is for the kernel to tell
    size = max(1, largest_block(indices.device) // (support * labels))
    parts: list[Fused] = []
    for first in range(0, batch, size):
        rows = slice(first, first + size)
        columns = metric.unchecked_cost_columns(named[rows]).detach().to(dtype)
        parts.append(run(rows, Costs(columns.reshape(-1, labels), tabulated=False)))
    return Fused.joined(parts)
