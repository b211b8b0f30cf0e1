"""Fused losses on an NVIDIA GPU: one Triton kernel a batch, and nobody waits for it."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from wassloss.kernels.launch import LARGEST_SUPPORT, padded_support, shape_of_program
from wassloss.losses.rule import Costs, Fused, LossRule, lowest_log_mass
from wassloss.losses.spec import Recipe
from wassloss.transport.objective import Regularizer
from wassloss.transport.precision import smallest_mass

__all__ = ["LARGEST_SUPPORT", "loss_of_class_ids", "loss_of_few", "solves"]

LARGEST_TILE = 2048  # labels that a program of the closed form holds at a time


def loss_of_class_ids(logits: Tensor, ids: Tensor, costs: Costs, rule: LossRule) -> Fused:
    """The loss of one label each, `ids (batch,)`."""
    from wassloss.kernels.triton.loss import class_id_kernel

    result, (batch, labels) = _empty(logits), logits.shape
    tile = min(LARGEST_TILE, max(32, 1 << (labels - 1).bit_length()))
    with torch.cuda.device_of(logits):
        class_id_kernel[(batch,)](
            costs.rows,
            ids,
            logits,
            *result[:3],
            _tally(rule, result),
            labels,
            costs.rows.stride(0),
            rule.ignore_index,
            rule.entropy_of_one_label,
            rule.kl_weight,
            lowest_log_mass(logits.dtype),
            TILE=tile,
            TABLE=costs.tabulated,
            TALLY=rule.unsolved is not None,
            num_warps=4 if tile <= 1024 else 8,
        )
    return result


def solves(recipe: Recipe) -> bool:
    """Whether `loss_of_few` is compiled for a recipe."""
    objective = recipe.objective
    return objective.balanced and not objective.exact


def loss_of_few(
    logits: Tensor, indices: Tensor, weights: Tensor, costs: Costs, rule: LossRule
) -> Fused:
    """The loss of a few labels each, both `(batch, support)`."""
    from wassloss.kernels.triton.loss import few_labels_kernel

    result, (batch, labels) = _empty(logits), logits.shape
    size, row = indices.shape[1], costs.rows.stride(0)
    tile, num_warps, unrolled = shape_of_program(batch, labels, size, logits.dtype)
    strides = labels, row, 0 if costs.tabulated else size * row
    with torch.cuda.device_of(logits):
        few_labels_kernel[(batch,)](
            costs.rows,
            indices,
            weights,
            logits,
            *result[:3],
            _tally(rule, result),
            *strides,
            rule.scaling_iterations or rule.max_iterations,
            rule.objective.epsilon,
            rule.tol,
            rule.kl_weight,
            lowest_log_mass(logits.dtype),
            smallest_mass(logits.dtype),
            rule.mass_tolerance,
            N=size,
            S=padded_support(size),
            TILE=tile,
            ALIGNED=math.gcd(*strides, 16 // costs.rows.element_size()),
            UNROLLED=unrolled,
            TABLE=costs.tabulated,
            PRODUCT=rule.objective.regularizer is Regularizer.PRODUCT,
            TALLY=rule.unsolved is not None,
            NORMALIZE=rule.normalize_target,
            FIXED=rule.scaling_iterations is not None,
            num_warps=num_warps,
            enable_fp_fusion=True,
        )
    return result


def _tally(rule: LossRule, result: Fused) -> Tensor:
    """Where to count; a kernel that does not count is still handed something."""
    return result.status if rule.unsolved is None else rule.unsolved


def _empty(logits: Tensor) -> Fused:
    batch = logits.shape[0]
    value, status = logits.new_empty(batch), logits.new_empty(batch, dtype=torch.uint8)
    return Fused(value, torch.empty_like(logits), status)
