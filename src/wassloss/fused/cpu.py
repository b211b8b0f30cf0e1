"""Fused losses on the CPU: compiled by Numba, examples spread over threads."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from wassloss.fused.loss import Costs, Fused, LossRule, lowest_log_mass
from wassloss.targets import SparseTarget
from wassloss.transport._threads import spread
from wassloss.transport.newton_cpu import WORTH_SOLVING, as_array, terms_of
from wassloss.transport.problem import smallest_mass
from wassloss.transport.solve import LARGEST_NEWTON_SUPPORT as LARGEST_SUPPORT

if TYPE_CHECKING:
    from wassloss.fused._kernels_numba import RowScratch, Rule
    from wassloss.transport._newton_kernel import Scratch

__all__ = ["LARGEST_SUPPORT", "loss_of_class_ids", "loss_of_few"]

# A closed form takes a nanosecond a label: how many of them are worth a helper's 0.1 ms.
WORTH_PASSING = 2**19


def loss_of_class_ids(logits: Tensor, ids: Tensor, costs: Costs, rule: LossRule) -> Fused:
    """The loss of one label each, `ids (batch,)`."""
    from wassloss.fused._kernels_numba import class_id_rows, new_row_scratch

    result = _empty(logits)
    given = as_array(logits), as_array(ids), as_array(costs.rows), costs.tabulated
    epsilon, plain = rule.entropy_of_one_label, _plain(rule, logits.dtype)
    written = [as_array(x) for x in result]
    batch, labels = logits.shape

    def work(first: int, last: int, scratch: RowScratch) -> None:
        class_id_rows(first, last, *given, epsilon, plain, scratch, *written)

    def scratch() -> RowScratch:
        return new_row_scratch(labels, given[0].dtype)

    spread(work, batch, scratch, 1 + batch * labels // WORTH_PASSING)
    return result


def loss_of_few(logits: Tensor, target: SparseTarget, costs: Costs, rule: LossRule) -> Fused:
    """The loss of a few labels each, `target.indices (batch, support)`."""
    from wassloss.fused._kernels_numba import new_row_scratch, sparse_rows
    from wassloss.transport._newton_kernel import new_scratch

    result = _empty(logits)
    x, indices, weights, cost = map(as_array, (logits, target.indices, target.weights, costs.rows))
    terms = terms_of(rule.objective, logits.dtype, rule.tol, rule.max_iterations, staged=True)
    plain, written = _plain(rule, logits.dtype), [as_array(x) for x in result]
    given = x, indices, weights, cost, costs.tabulated
    (batch, labels), support, dtype = logits.shape, target.indices.shape[1], x.dtype

    def work(first: int, last: int, scratch: tuple[Scratch, RowScratch]) -> None:
        sparse_rows(first, last, *given, terms, plain, scratch, *written)

    def scratch() -> tuple[Scratch, RowScratch]:
        return new_scratch(support, labels, dtype), new_row_scratch(labels, dtype)

    spread(work, batch, scratch, 1 + batch * support * labels // WORTH_SOLVING)
    return result


def _plain(rule: LossRule, dtype: torch.dtype) -> Rule:
    """The rule in numbers that compiled code can take."""
    from wassloss.fused._kernels_numba import Rule

    return Rule(
        kl_weight=float(rule.kl_weight),
        lowest=lowest_log_mass(dtype),
        least=smallest_mass(dtype),
        ignore_index=rule.ignore_index,
        normalize=rule.normalize_target,
        mass_tolerance=rule.mass_tolerance,
    )


def _empty(logits: Tensor) -> Fused:
    value, status = logits.new_empty(len(logits)), torch.empty(len(logits), dtype=torch.uint8)
    return Fused(value, torch.empty_like(logits), status)
