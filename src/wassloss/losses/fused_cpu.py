"""Fused losses on the CPU: compiled by Numba, examples spread over threads."""

from __future__ import annotations

from functools import cache
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from wassloss.kernels.launch import WORTH_PASSING, WORTH_SOLVING, as_array
from wassloss.kernels.threads import spread
from wassloss.losses.rule import Costs, Fused, LossRule, lowest_log_mass
from wassloss.losses.spec import Recipe
from wassloss.transport.newton.cpu import terms_of
from wassloss.transport.newton.solver import LARGEST_NEWTON_SUPPORT as LARGEST_SUPPORT
from wassloss.transport.precision import smallest_mass

if TYPE_CHECKING:
    from wassloss.kernels.numba.loss import RowScratch, Rule
    from wassloss.kernels.numba.newton import Scratch

__all__ = ["LARGEST_SUPPORT", "loss_of_class_ids", "loss_of_few", "solves"]

Arrays = tuple[NDArray[Any], NDArray[Any], NDArray[np.uint8]]


def loss_of_class_ids(logits: Tensor, ids: Tensor, costs: Costs, rule: LossRule) -> Fused:
    """The loss of one label each, `ids (batch,)`."""
    compiled, x, (batch, labels) = _compiled(), logits.numpy(), logits.shape
    given = x, ids.numpy(), as_array(costs.rows), costs.tabulated
    epsilon, plain, written = rule.entropy_of_one_label, _plain(rule, logits.dtype), _empty(x)
    statuses: list[int] = []

    def work(first: int, last: int, scratch: RowScratch) -> None:
        worst = compiled.class_id_rows(first, last, *given, epsilon, plain, scratch, *written)
        statuses.append(worst)

    def scratch() -> RowScratch:
        made: RowScratch = compiled.new_row_scratch(labels, x.dtype)
        return made

    spread(work, batch, scratch, 1 + batch * labels // WORTH_PASSING)
    return _fused(written, statuses)


def solves(recipe: Recipe) -> bool:
    """Whether `loss_of_few` is compiled for a recipe."""
    if recipe.scaling_iterations is not None:
        return recipe.objective.balanced
    return not recipe.objective.exact or recipe.objective.free_target


def loss_of_few(
    logits: Tensor, indices: Tensor, weights: Tensor, costs: Costs, rule: LossRule
) -> Fused:
    """The loss of a few labels each, both `(batch, support)`."""
    compiled, x, (batch, labels) = _compiled(), logits.numpy(), logits.shape
    fixed, budget = (
        rule.scaling_iterations is not None,
        rule.scaling_iterations or rule.max_iterations,
    )
    terms = terms_of(rule.objective, logits.dtype, rule.tol, budget, staged=True, fixed=fixed)
    plain, written, support = _plain(rule, logits.dtype), _empty(x), indices.shape[1]
    given = x, indices.numpy(), weights.numpy(), as_array(costs.rows), costs.tabulated
    statuses: list[int] = []

    def work(first: int, last: int, scratch: tuple[Scratch, RowScratch]) -> None:
        worst = compiled.sparse_rows(first, last, *given, terms, plain, scratch, *written)
        statuses.append(worst)

    def scratch() -> tuple[Scratch, RowScratch]:
        solving = compiled.new_scratch(support, labels, x.dtype)
        return solving, compiled.new_row_scratch(labels, x.dtype)

    worth = WORTH_PASSING if rule.objective.free_target else WORTH_SOLVING
    spread(work, batch, scratch, 1 + batch * support * labels // worth)
    return _fused(written, statuses)


@cache
def _compiled() -> ModuleType:
    """The kernels; Numba is loaded on first use, and looked for no more after."""
    from wassloss.kernels.numba import loss as _kernels_numba

    return _kernels_numba


def _plain(rule: LossRule, dtype: torch.dtype) -> Rule:
    """The rule in numbers that compiled code can take."""
    made: Rule = _compiled().Rule(
        kl_weight=float(rule.kl_weight),
        lowest=lowest_log_mass(dtype),
        least=smallest_mass(dtype),
        ignore_index=rule.ignore_index,
        normalize=rule.normalize_target,
        mass_tolerance=rule.mass_tolerance,
    )
    return made


def _empty(x: NDArray[Any]) -> Arrays:
    """Room for value, gradient and status."""
    return np.empty(len(x), x.dtype), np.empty(x.shape, x.dtype), np.empty(len(x), np.uint8)


def _fused(written: Arrays, statuses: list[int]) -> Fused:
    value, gradient, status = written
    read = torch.from_numpy
    return Fused(read(value), read(gradient), read(status), max(statuses))
