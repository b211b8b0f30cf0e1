"""Scores that accumulate over batches and processes, as torchmetrics.

Each is a `torchmetrics.Metric`: `update` with every batch, `compute` at the end, over all
processes where `torch.distributed` runs; in a `MetricCollection`, or logged by Lightning. They add
up what the functions of :mod:`wassloss.scores` give for each example, so that the answer is that of
the function on all data at once, however it was cut into batches.

Constructors take the arguments of the function but the data; `update(scores, target,
sample_weight=None)` takes tensors, and targets as the functions do. The ground metric follows
`.to(device)`.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from typing import Any, ClassVar, get_args

import numpy as np
import torch
from torch import Tensor

from wassloss import scores as functions
from wassloss._checks import check_choice
from wassloss.scores._inputs import (
    AnyTarget,
    Numbers,
    charged,
    read_ks,
    read_sample_weight,
    read_scores,
    read_weights,
)
from wassloss.scores.ranking import Per, auc

try:
    from torchmetrics import Metric
except ImportError as error:
    raise ImportError(
        "wassloss.scores.accumulators needs torchmetrics: pip install 'wassloss[torchmetrics]'"
    ) from error

__all__ = [
    "ExpectedDistance",
    "MeanWasserstein",
    "PrecisionAtK",
    "RankingAUC",
    "RecallAtK",
    "TopKCost",
]


class _Mean(Metric):
    """A weighted mean over examples."""

    is_differentiable = False
    full_state_update = False
    total: Tensor
    weight: Tensor

    def __init__(self, shape: tuple[int, ...] = ()) -> None:
        super().__init__()
        # In double precision: millions of examples are added one batch at a time.
        zeros = torch.zeros(shape, dtype=torch.float64)
        self.add_state("total", zeros, dist_reduce_fx="sum")
        self.add_state("weight", zeros.sum(), dist_reduce_fx="sum")

    def _add(self, values: Tensor, weight: Tensor) -> None:
        # Not in place: a state that was reset in inference mode, as by Lightning's `validate`, may
        # not be written to outside of it.
        self.total = self.total + torch.tensordot(weight.double(), values.double(), dims=1)
        self.weight = self.weight + weight.double().sum()

    def compute(self) -> Tensor:
        """The mean so far; NaN of nothing."""
        return self.total / self.weight


class _MeanOf(_Mean):
    """The mean over examples of a function of :mod:`wassloss.scores`.

    `class Name(_MeanOf, function=…)` is all that a score needs.
    """

    _function: ClassVar[Callable[..., Any]]
    __signature__: ClassVar[inspect.Signature]

    def __init_subclass__(cls, function: Callable[..., Any] | None = None) -> None:
        if function is not None:
            cls._function = staticmethod(function)
            _, _, *own = inspect.signature(function).parameters.values()
            cls.__signature__ = inspect.Signature(
                [p for p in own if p.name not in ("sample_weight", "reduction", "mean")]
            )

    def __init__(self, *arguments: Any, **keywords: Any) -> None:
        bound = self.__signature__.bind(*arguments, **keywords)
        bound.apply_defaults()
        given = dict(bound.arguments)
        given |= given.pop("keywords", {})
        super().__init__(np.shape(given.get("k", 1)))
        self.metric = None
        if "metric" in given:
            # Many batches will ask: a table, where there are few enough labels for one.
            self.metric = charged(given.pop("metric"), given["charge"], pairs=math.inf)
            given["charge"] = "cost"
        if "k" in given:
            read_ks(given["k"], self.metric.size if self.metric else None)
        self.keywords = given

    def update(
        self, scores: Tensor, target: AnyTarget, sample_weight: Numbers | None = None
    ) -> None:
        """Add a batch."""
        if not isinstance(scores, Tensor):
            raise TypeError(f"scores must be a tensor, got {type(scores).__name__}")
        data = (scores, target) if self.metric is None else (scores, target, self.metric)
        values = self._function(*data, reduction="none", **self.keywords)
        self._add(values, read_sample_weight(sample_weight, values))

    def _apply(self, fn: Callable[[Tensor], Tensor], *arguments: Any, **keywords: Any) -> Any:
        if self.metric is not None:
            device = fn(torch.empty(0, device=self.metric.device)).device
            self.metric = self.metric.to(device=device)
        return super()._apply(fn, *arguments, **keywords)


class TopKCost(_MeanOf, function=functions.top_k_cost):
    """:func:`wassloss.scores.top_k_cost`; with several `k`, a vector.

    >>> import torch, wassloss as wl
    >>> score = TopKCost(wl.ground.Ordinal(4), k=[1, 2])
    >>> score.update(torch.tensor([[0.5, 0.3, 0.2, 0.0]]), torch.tensor([0]))
    >>> score.update(torch.tensor([[0.0, 0.2, 0.3, 0.5]]), torch.tensor([0]))
    >>> score.compute()
    tensor([1.5000, 1.5000], dtype=torch.float64)
    """


class ExpectedDistance(_MeanOf, function=functions.expected_distance):
    """:func:`wassloss.scores.expected_distance`."""


class MeanWasserstein(_MeanOf, function=functions.mean_wasserstein):
    """:func:`wassloss.scores.mean_wasserstein`, of probabilities."""


class PrecisionAtK(_MeanOf, function=functions.precision_at_k):
    """:func:`wassloss.scores.precision_at_k`; with several `k`, a vector."""


class RecallAtK(_MeanOf, function=functions.recall_at_k):
    """:func:`wassloss.scores.recall_at_k`; with several `k`, a vector."""


class RankingAUC(_Mean):
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

    # What is kept for later, and in which type. All of it flat and of one type, so that a process
    # that saw no batch can take part in the gathering with nothing.
    _KEPT: ClassVar = {"scores": torch.float64, "true": torch.uint8, "weights": torch.float64}

    undefined: Tensor

    def __init__(self, per: Per = "example") -> None:
        super().__init__()
        check_choice("per", per, get_args(Per))
        self.per: Per = per
        self.left_out = 0
        self.add_state("undefined", torch.zeros((), dtype=torch.float64), dist_reduce_fx="sum")
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
            self._add(values[defined], weight[defined])
            self.undefined = self.undefined + (~defined).sum()
            return
        for (name, dtype), kept in zip(self._KEPT.items(), (x, true, weight), strict=True):
            getattr(self, name).append(kept.reshape(-1).to(dtype))

    def compute(self) -> Tensor:
        """The mean AUC so far."""
        if self.per == "example":
            self.left_out = int(self.undefined)
            return super().compute()
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
