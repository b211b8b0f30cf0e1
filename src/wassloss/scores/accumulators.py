"""Scores that accumulate over batches and processes, as torchmetrics metrics."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from wassloss.scores._inputs import AnyTarget, Numbers, read_ks, tabulated, with_distance
from wassloss.scores._score import counted, score_of

try:
    from torchmetrics import Metric
    from torchmetrics.utilities.distributed import gather_all_tensors
except ImportError as error:
    raise ImportError(
        "wassloss.scores.accumulators needs torchmetrics: pip install 'wassloss[torchmetrics]'"
    ) from error

__all__ = ["Accumulator"]


def __dir__() -> list[str]:
    return __all__


_NUMBERS = itertools.count()


class Accumulator(Metric):
    """Any score of :mod:`wassloss.scores` as a `torchmetrics.Metric`.

    Call `update(scores, target, sample_weight=None)` with every batch, with tensors and targets as
    the functions take them, and `compute()` at the end, which reduces over all processes of
    `torch.distributed`. A `MetricCollection` can hold it, and Lightning can log it.

    Only a few sums are stored. The result is that of the function on all data at once, however the
    data were split into batches; without data it is NaN.

    Args:
        function: the score, such as ``wl.scores.quadratic_weighted_kappa``.
        *arguments: arguments of the function after the data.
        **keywords: keywords of the function, except ``sample_weight`` and ``reduction``.

    >>> import torch, wassloss as wl
    >>> score = Accumulator(wl.scores.top_k_cost, wl.ground.Ordinal(4), k=[1, 2])
    >>> score.update(torch.tensor([[0.5, 0.3, 0.2, 0.0]]), torch.tensor([0]))
    >>> score.update(torch.tensor([[0.0, 0.2, 0.3, 0.5]]), torch.tensor([0]))
    >>> score.compute()
    tensor([1.5000, 1.5000], dtype=torch.float64)
    """

    is_differentiable = False
    full_state_update = False
    totals: Tensor

    def __init__(self, function: Callable[..., Any], *arguments: Any, **keywords: Any) -> None:
        super().__init__()
        made = score_of(function)
        for name in keywords.keys() & {"sample_weight", "reduction"}:
            raise TypeError(f"got an unexpected keyword argument {name!r}")
        given = made.named(None, None, *arguments, **keywords)
        for name in (made.predictions, "target", "sample_weight", "reduction"):
            given.pop(name, None)
        if "metric" in given:
            # Precompute the costs if there are few enough labels: many batches will use them.
            given["metric"] = tabulated(with_distance(given["metric"]), pairs=math.inf)
        if "k" in given:
            read_ks(given["k"], given["metric"].size if "metric" in given else None)
        self.function, self.keywords = function, given
        self._shape = np.shape(given.get("k", 1))
        # Double precision, because millions of examples are added one batch at a time. A single
        # zero until the first batch, which determines how many sums there are.
        zero = torch.zeros(1, dtype=torch.float64)
        self.add_state("totals", zero, dist_reduce_fx="sum")
        # A `MetricCollection` merges metrics whose states have the same names and are equal after
        # the first batch. A state with a unique name prevents this.
        self.add_state(f"number_{next(_NUMBERS)}", torch.zeros(()), dist_reduce_fx="sum")

    def update(
        self, scores: Tensor, target: AnyTarget, sample_weight: Numbers | None = None
    ) -> None:
        """Add a batch."""
        if not isinstance(scores, Tensor):
            raise TypeError(f"scores must be a tensor, got {type(scores).__name__}")
        if "metric" in self.keywords:
            self.keywords["metric"] = self.keywords["metric"].to(device=scores.device)
        made = score_of(self.function)
        sums = made.found(scores, target, sample_weight, **self.keywords)
        if made.answer is None:
            values, weight = (each.double() for each in sums)
            total = torch.tensordot(weight, counted(values, weight), dims=1).reshape(-1)
            sums = torch.cat([weight.sum().unsqueeze(0), total])
        # Not in place: a state that was reset in inference mode, as by Lightning's `validate`,
        # cannot be written to outside of it.
        self.totals = self.totals + sums

    def compute(self) -> Tensor:
        """The score of all batches so far."""
        if len(self.totals) == 1:
            return self.totals.new_full(self._shape, math.nan)
        answer = score_of(self.function).answer
        if answer is not None:
            return answer(self.totals)
        return (self.totals[1:] / self.totals[0]).reshape(self._shape)

    def _sync_dist(
        self,
        dist_sync_fn: Callable[..., Any] = gather_all_tensors,
        process_group: Any | None = None,
    ) -> None:
        # A process that saw no batch learns from the others how many sums there are.
        own = self.totals.new_tensor(len(self.totals))
        count = int(max(dist_sync_fn(own, group=process_group)))
        self.totals = self.totals.expand(count).clone()
        super()._sync_dist(dist_sync_fn, process_group)
