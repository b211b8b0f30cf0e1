"""Compiled losses on the CPU, one example at a time, so that its row stays in the cache."""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor

from wassloss import native
from wassloss._checks import has_memory
from wassloss.losses.evaluators.base import Batch, CompiledEvaluator, Evaluation, Rows
from wassloss.losses.spec import LossSpec
from wassloss.native import Settings
from wassloss.targets import Kind, ReadTarget
from wassloss.transport.newton.native import settings_of
from wassloss.transport.newton.solver import (
    LARGEST_NEWTON_SUPPORT,
    LARGEST_SHARED_NEWTON_SUPPORT,
    LARGEST_TABULATED_NEWTON_SUPPORT,
    Newton,
)


class NativeEvaluator(CompiledEvaluator):
    """Evaluator for class ids, sparse targets, and dense targets with few labels."""

    def __init__(self, spec: LossSpec, dtype: torch.dtype, kind: Kind) -> None:
        super().__init__(spec, dtype, kind)
        self.most_labels = _most_labels(spec)
        self._settings: dict[tuple[float, int], Settings] = {}

    @classmethod
    def serves(cls, spec: LossSpec, device: torch.device, dtype: torch.dtype, kind: Kind) -> bool:
        if device.type != "cpu" or not native.available() or kind is Kind.SETS:
            return False
        fixed = spec.options.scaling_iterations is not None
        if kind is Kind.CLASS_IDS:
            compiled = not fixed
        elif not spec.transport_weight:
            compiled = True
        elif fixed:
            compiled = spec.objective.balanced
        else:
            compiled = not spec.objective.exact or spec.objective.free_target
        few = kind is not Kind.DENSE or spec.metric.size <= LARGEST_SHARED_NEWTON_SUPPORT
        return compiled and few and super().serves(spec, device, dtype, kind)

    def __call__(self, batch: Batch) -> Evaluation | None:
        # Kernels expect indices per example, not shared ones.
        if self.kind is Kind.DENSE and isinstance(batch.target, ReadTarget):
            indices, weights = batch.target.indices, cast(Tensor, batch.target.weights)
            batch = batch._replace(target=ReadTarget(indices.expand(weights.shape), weights))
        return super().__call__(batch)

    def takes(self, batch: Batch) -> bool:
        weights = batch.target.weights
        return weights is None or (0 < weights.shape[1] <= self.most_labels and has_memory(weights))

    def run(self, rows: Rows) -> Evaluation:
        x, cost, tabulated = rows.x, rows.cost, rows.tabulated
        settings = self._settings_for(rows.mass_tolerance, torch.get_num_threads())
        if rows.weights is None:
            return Evaluation(*native.class_ids(settings, x, rows.indices, cost, tabulated))
        weights = rows.weights
        return Evaluation(*native.sparse(settings, x, rows.indices, weights, cost, tabulated))

    def _settings_for(self, mass_tolerance: float, threads: int) -> Settings:
        found = self._settings.get((mass_tolerance, threads))
        if found is None:
            found = self._settings[mass_tolerance, threads] = loss_settings(
                self.spec, tol=self.tol, mass_tolerance=mass_tolerance, threads=threads
            )
        return found


def loss_settings(
    spec: LossSpec, *, threads: int, tol: float = 0.0, mass_tolerance: float = 0.0
) -> Settings:
    """The settings of a loss for the compiled core."""
    return settings_of(
        spec.objective,
        tol,
        spec.options.budget(Newton.max_iterations),
        fixed=spec.options.scaling_iterations is not None,
        transport_weight=spec.transport_weight,
        kl_weight=spec.kl_weight,
        per_softening=spec.per_softening,
        ignore_index=spec.ignore_index,
        normalize=spec.normalize_target,
        mass_tolerance=mass_tolerance,
        threads=threads,
    )


def _most_labels(spec: LossSpec) -> int:
    """The most labels per example for which Newton's method is faster than matrix products."""
    newton = not spec.objective.free_target and spec.options.scaling_iterations is None
    tabulated = newton and spec.metric.known_costs is not None
    return LARGEST_TABULATED_NEWTON_SUPPORT if tabulated else LARGEST_NEWTON_SUPPORT
