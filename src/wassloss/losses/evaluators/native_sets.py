"""Compiled losses for sets of labels on the CPU, with one pass over each example."""

from __future__ import annotations

import torch
from torch import Tensor

from wassloss import _checks, native
from wassloss._memory import largest_columns, pieces
from wassloss.ground import Ordinal
from wassloss.losses.evaluators.base import Batch, Evaluation, Evaluator, joined
from wassloss.losses.evaluators.native import loss_settings
from wassloss.losses.spec import LossSpec
from wassloss.native import Settings
from wassloss.targets import Kind, ReadSets


class NativeSetEvaluator(Evaluator):
    """Evaluator for sets: intervals and subtrees need two cost rows, others one per member."""

    def __init__(self, spec: LossSpec, dtype: torch.dtype, kind: Kind) -> None:
        super().__init__(spec, dtype, kind)
        self._settings: dict[int, Settings] = {}
        self._strips: Tensor | None = None

    @classmethod
    def serves(cls, spec: LossSpec, device: torch.device, dtype: torch.dtype, kind: Kind) -> bool:
        # The composed evaluator raises the error for strengths too small to divide by.
        epsilon = spec.objective.epsilon
        divides = not (epsilon and _checks.inverse_overflows(epsilon, dtype))
        here = device.type == "cpu" and native.available()
        return kind is Kind.SETS and here and divides and not spec.metric.requires_grad

    def __call__(self, batch: Batch) -> Evaluation | None:
        x, sets = batch.x.detach(), batch.target
        if not isinstance(sets, ReadSets) or not len(x) or not _checks.has_memory(x):
            return None
        metric = self.spec.metric
        # Invalid and ignored sets are out of range: clamp them for the lookup.
        first, last = (end.clamp(0, metric.size - 1) for end in (sets.first, sets.last))
        in_order = metric.orders_ranges_of(sets.members)
        table = metric.known_costs_in(x.dtype)
        if table is not None:
            ends = metric.nearest_ends(first, last) if in_order else None
            if ends is not None:
                return self._run(x, sets, table, ends=ends)
            if isinstance(metric, Ordinal) and metric.label_order is None:
                return self._run(x, sets, table, on_line=True)
            if self._strips is None:
                self._strips = native.strips(table)
            return self._run(x, sets, self._strips)

        def found(part: slice) -> Evaluation:
            own = ReadSets(sets.first[part], sets.last[part], sets.members)
            costs = metric.costs_to_ranges(first[part], last[part]) if in_order else None
            if costs is None:
                costs = metric.costs_to_sets(own.allowed(metric.size))
            return self._run(x[part], own, costs.detach().to(x.dtype), tabulated=False)

        return joined(
            [found(part) for part in pieces(len(x), metric.size, largest_columns(x.device))]
        )

    def _run(
        self,
        x: Tensor,
        sets: ReadSets,
        cost: Tensor,
        *,
        tabulated: bool = True,
        ends: tuple[Tensor, Tensor] | None = None,
        on_line: bool = False,
    ) -> Evaluation:
        threads = torch.get_num_threads()
        if threads not in self._settings:
            self._settings[threads] = loss_settings(self.spec, threads=threads)
        places = sets.first, sets.last
        return Evaluation(
            *native.sets(
                *(self._settings[threads], x, places, sets.members, cost, tabulated, ends, on_line)
            )
        )
