"""Scores that accumulate over batches and processes, as torchmetrics.

Each is a `torchmetrics.Metric`: `update` with every batch, `compute` at the end, over all
processes where `torch.distributed` runs; in a `MetricCollection`, or logged by Lightning.
:class:`Accumulator` makes one of any score of :mod:`wassloss.scores` that adds up, and
:class:`RankingAUC` is for the one that does not.

`update(scores, target, sample_weight=None)` takes tensors, and targets as the functions do. The
ground metric follows `.to(device)`.
"""

from __future__ import annotations

import inspect
import itertools
import math
from collections.abc import Callable
from typing import Any, ClassVar, get_args

import numpy as np
import torch
from torch import Tensor

from wassloss._checks import check_choice
from wassloss.scores._inputs import (
    AnyTarget,
    Numbers,
    charged,
    parameters_of,
    read_ks,
    read_sample_weight,
    read_scores,
    read_weights,
)
from wassloss.scores.ranking import Per, auc, ranking_auc

try:
    from torchmetrics import Metric
    from torchmetrics.utilities.distributed import gather_all_tensors
except ImportError as error:
    raise ImportError(
        "wassloss.scores.accumulators needs torchmetrics: pip install 'wassloss[torchmetrics]'"
    ) from error

__all__ = ["Accumulator", "RankingAUC"]

_NUMBERS = itertools.count()


class Accumulator(Metric):
    """A score of :mod:`wassloss.scores` over batches and processes.

    It keeps a few sums, so that the answer is that of the function on all data at once, however
    it was cut into batches; NaN of nothing.

    Args:
        function: the score, such as ``wl.scores.quadratic_weighted_kappa``.
        *arguments: those of the function after the data.
        **keywords: the same by name; neither ``sample_weight`` nor ``reduction``.

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
        if function is ranking_auc:
            raise ValueError("function must be a score that adds up, got ranking_auc: RankingAUC")
        given = _bound(function, *arguments, **keywords)
        self.metric = None
        if "metric" in given:
            # Many batches will ask: a table, where there are few enough labels for one.
            self.metric = charged(given.pop("metric"), given["charge"], pairs=math.inf)
            given["charge"] = "cost"
        if "k" in given:
            read_ks(given["k"], self.metric.size if self.metric else None)
        self.function, self.keywords = function, given
        self._shape = np.shape(given.get("k", 1))
        # In double precision: millions of examples are added one batch at a time. A single zero
        # until the first batch says how many sums there are.
        zero = torch.zeros(1, dtype=torch.float64)
        self.add_state("totals", zero, dist_reduce_fx="sum")
        # A `MetricCollection` takes metrics for one if their states have the same names and are
        # equal after the first batch. A name of its own keeps each apart.
        self.add_state(f"number_{next(_NUMBERS)}", torch.zeros(()), dist_reduce_fx="sum")

    def update(
        self, scores: Tensor, target: AnyTarget, sample_weight: Numbers | None = None
    ) -> None:
        """Add a batch."""
        if not isinstance(scores, Tensor):
            raise TypeError(f"scores must be a tensor, got {type(scores).__name__}")
        data = (scores, target) if self.metric is None else (scores, target, self.metric)
        if hasattr(self.function, "sums"):
            with torch.no_grad():
                sums = self.function.sums(*data, sample_weight=sample_weight, **self.keywords)
        else:
            values = self.function(*data, reduction="none", **self.keywords).double()
            weight = read_sample_weight(sample_weight, values)
            total = torch.tensordot(weight, values, dims=1).reshape(-1)
            sums = torch.cat([weight.sum().unsqueeze(0), total])
        # Not in place: a state that was reset in inference mode, as by Lightning's `validate`, may
        # not be written to outside of it.
        self.totals = self.totals + sums

    def compute(self) -> Tensor:
        """The score of all batches so far."""
        if len(self.totals) == 1:
            return self.totals.new_full(self._shape, math.nan)
        if hasattr(self.function, "answer"):
            answer: Tensor = self.function.answer(self.totals)
            return answer
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

    def _apply(self, fn: Callable[[Tensor], Tensor], *arguments: Any, **keywords: Any) -> Any:
        if self.metric is not None:
            device = fn(torch.empty(0, device=self.metric.device)).device
            self.metric = self.metric.to(device=device)
        return super()._apply(fn, *arguments, **keywords)


def _bound(function: Callable[..., Any], *arguments: Any, **keywords: Any) -> dict[str, Any]:
    """The arguments of a score after its data, by name, with defaults."""
    own = parameters_of(function)
    left = [own[name] for name in own if name not in ("sample_weight", "reduction", "mean")]
    bound = inspect.Signature(left).bind(*arguments, **keywords)
    bound.apply_defaults()
    given = dict(bound.arguments)
    given |= given.pop("keywords", {})
    return given


class RankingAUC(Metric):
    """:func:`wassloss.scores.ranking_auc`; NaN where no AUC is defined.

    Per example it adds up. Per label, and pooled, the AUC depends on all examples at once, so the
    scores of every batch are kept until `reset`.

    After `compute`, `left_out` is the number of examples (or labels) that had no AUC.

    >>> import torch
    >>> score = RankingAUC()
    >>> score.update(torch.tensor([[0.1, 0.6, 0.0, 0.3]]), torch.tensor([[1, 1, 0, 0]]))
    >>> score.update(torch.tensor([[0.1, 0.2, 0.3, 0.4]]), torch.tensor([[0, 0, 0, 0]]))
    >>> score.compute(), score.left_out
    (tensor(0.7500, dtype=torch.float64), 1)
    """

    is_differentiable = False
    full_state_update = False
    # What is kept for later, and in which type. All of it flat and of one type, so that a process
    # that saw no batch can take part in the gathering with nothing.
    _KEPT: ClassVar = {"scores": torch.float64, "true": torch.uint8, "weights": torch.float64}

    totals: Tensor  # weighted AUCs, their weight, and how many examples had none

    def __init__(self, per: Per = "example") -> None:
        super().__init__()
        check_choice("per", per, get_args(Per))
        self.per: Per = per
        self.left_out = 0
        self.add_state("totals", torch.zeros(3, dtype=torch.float64), dist_reduce_fx="sum")
        for name in self._KEPT:
            self.add_state(name, [], dist_reduce_fx="cat")

    def update(
        self, scores: Tensor, target: AnyTarget, sample_weight: Numbers | None = None
    ) -> None:
        """Add a batch."""
        x = read_scores(scores)
        weight = read_sample_weight(sample_weight, x).double()
        true = read_weights(target, x, allow_empty=True) > 0
        if self.per == "example":
            values = auc(x, true, weight, "example")
            defined = ~values.isnan()
            sums = (values.nan_to_num() @ weight, weight @ defined.double(), (~defined).sum())
            self.totals = self.totals + torch.stack([each.double() for each in sums])
            return
        for (name, dtype), kept in zip(self._KEPT.items(), (x, true, weight), strict=True):
            getattr(self, name).append(kept.reshape(-1).to(dtype))

    def compute(self) -> Tensor:
        """The mean AUC so far."""
        if self.per == "example":
            self.left_out = int(self.totals[2])
            return self.totals[0] / self.totals[1]
        kept = [getattr(self, name) for name in self._KEPT]
        x, true, weight = (torch.cat(k) if isinstance(k, list) else k for k in kept)
        rows = len(weight)
        values = auc(x.reshape(rows, -1), true.reshape(rows, -1).bool(), weight, self.per)
        self.left_out = int(values.isnan().sum())
        return values.nanmean()

    def _sync_dist(self, *arguments: Any, **keywords: Any) -> None:
        for name, dtype in self._KEPT.items():
            if len(getattr(self, name)) == 0:
                setattr(self, name, [torch.empty(0, dtype=dtype, device=self.device)])
        super()._sync_dist(*arguments, **keywords)
