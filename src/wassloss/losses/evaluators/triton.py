"""Losses on NVIDIA GPUs: one Triton kernel per batch, without synchronisation."""

from __future__ import annotations

import threading
from typing import cast

import torch
from torch import Tensor

from wassloss import _checks
from wassloss.kernels import launch
from wassloss.losses.evaluators.base import (
    Batch,
    CompiledEvaluator,
    Evaluation,
    Rows,
    Summary,
)
from wassloss.losses.spec import LossSpec
from wassloss.targets import Kind
from wassloss.transport.newton.solver import Newton
from wassloss.transport.objective import Regularizer
from wassloss.transport.precision import lowest_log_mass, smallest_mass

MOST_SUMMARIZED = 2**15  # most losses that one program reduces faster than several operations


class TritonEvaluator(CompiledEvaluator):
    """Evaluator for class ids, and for balanced transport to sparse targets."""

    @classmethod
    def serves(cls, spec: LossSpec, device: torch.device, dtype: torch.dtype, kind: Kind) -> bool:
        if not launch.triton_available(device) or spec.transport_weight != 1:
            return False
        if kind is Kind.CLASS_IDS:
            compiled = spec.options.scaling_iterations is None
        else:
            compiled = spec.objective.balanced and not spec.objective.exact
        listed = kind in (Kind.CLASS_IDS, Kind.SPARSE)
        return listed and compiled and super().serves(spec, device, dtype, kind)

    def takes(self, batch: Batch) -> bool:
        weights = batch.target.weights
        return weights is None or 0 < weights.shape[1] <= launch.LARGEST_SUPPORT

    def run(self, rows: Rows) -> Evaluation:
        return self._class_ids(rows) if rows.weights is None else self._sparse(rows)

    def _class_ids(self, rows: Rows) -> Evaluation:
        from wassloss.kernels.triton.loss import class_id_kernel

        x, spec, (count, labels) = rows.x, self.spec, rows.x.shape
        tile = min(launch.LARGEST_TILE, max(32, 1 << (labels - 1).bit_length()))
        found, written, what = _room(x, rows.unsolved)
        launch.start_kernel(
            class_id_kernel,
            count,
            (rows.cost, rows.indices, x, *written),
            (labels, rows.cost.stride(0), spec.ignore_index),
            (
                *(spec.entropy_of_one_label, spec.kl_weight, spec.per_softening),
                *(lowest_log_mass(x.dtype), smallest_mass(x.dtype)),
            ),
            {
                "TILE": tile,
                "TABLE": rows.tabulated,
                **what,
                "SOFT": spec.per_softening > 0,
                "num_warps": 4 if tile <= 1024 else 8,
            },
        )
        return found

    def _sparse(self, rows: Rows) -> Evaluation:
        from wassloss.kernels.triton.loss import sparse_kernel

        x, spec, (count, labels) = rows.x, self.spec, rows.x.shape
        support, row = rows.indices.shape[1], rows.cost.stride(0)
        strides = labels, row, 0 if rows.tabulated else support * row
        found, written, what = _room(x, rows.unsolved)
        launch.start_kernel(
            sparse_kernel,
            count,
            (rows.cost, rows.indices, cast(Tensor, rows.weights), x, *written),
            (*strides, spec.options.budget(Newton.max_iterations)),
            (
                *(spec.objective.epsilon, self.tol, spec.kl_weight, spec.per_softening),
                *(lowest_log_mass(x.dtype), smallest_mass(x.dtype), rows.mass_tolerance),
            ),
            {
                "TABLE": rows.tabulated,
                "PRODUCT": spec.objective.regularizer is Regularizer.PRODUCT,
                "NORMALIZE": spec.normalize_target,
                **what,
                "FIXED": spec.options.scaling_iterations is not None,
                "SOFT": spec.per_softening > 0,
                **launch.solver_constants(rows.cost, strides, support, count, x.dtype),
            },
        )
        return found


def _room(
    x: Tensor, unsolved: Tensor | None
) -> tuple[Evaluation, tuple[Tensor, ...], dict[str, bool]]:
    """Allocate the results of a kernel, with flags for those that it writes."""
    count, looks = len(x), _checks.can_read_values()
    status = x.new_empty(count, dtype=torch.uint8)
    summary, given = None, (status,) * 4  # placeholder for results that are not written
    if count <= MOST_SUMMARIZED:
        worst = _host_word() if looks else status.new_empty((), dtype=torch.int32)
        summary = Summary(x.new_empty(()), x.new_empty(()), worst)
        given = *summary, launch.finished_programs(x)
    value, gradient = x.new_empty(count), x.new_empty(x.shape)
    tallies = unsolved is not None and not looks
    written = value, gradient, status, *given, cast(Tensor, unsolved) if tallies else status
    what = {"SUM": summary is not None, "TALLY": tallies}
    return Evaluation(value, gradient, status, summary=summary), written, what


_of_thread = threading.local()


def _host_word() -> Tensor:
    """A per-thread integer in host memory that kernels write and the host reads without a copy."""
    word: Tensor | None = getattr(_of_thread, "word", None)
    if word is None:
        pinned = torch.cuda.is_available()  # otherwise kernels are interpreted
        word = _of_thread.word = torch.empty((), dtype=torch.int32, pin_memory=pinned)
    return word
