"""Scores that accumulate over batches and processes, as torchmetrics.

Each is a `torchmetrics.Metric`: `update` with every batch, `compute` at the end, over all
processes where `torch.distributed` runs; in a `MetricCollection`, or logged by Lightning. They add
up what the functions of :mod:`wassloss.scores` give for each example, so that the answer is that of
the function on all data at once, however it was cut into batches.

`update(scores, target, sample_weight=None)` takes tensors and targets as the functions do. The
ground metric follows `.to(device)`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from numpy.typing import NDArray
from torch import Tensor

from wassloss import scores as functions
from wassloss.ground import GroundMetric
from wassloss.ground.matrix import as_ground_metric
from wassloss.scores._inputs import (
    AnyTarget,
    Charge,
    Ks,
    Numbers,
    charged,
    dense_weights,
    read_ks,
    read_labels,
    read_sample_weight,
    read_scores,
)
from wassloss.scores.ranking import Per, auc, check_per

try:
    from torchmetrics import Metric
except ImportError as error:
    raise ImportError(
        "wassloss.scores.accumulators needs torchmetrics: pip install 'wassloss[torchmetrics]'"
    ) from error

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from wassloss.losses.spec import TransportKeywords

__all__ = [
    "ExpectedDistance",
    "MeanWasserstein",
    "PrecisionAtK",
    "RankingAUC",
    "RecallAtK",
    "TopKCost",
]


class _MeanScore(Metric):
    """A weighted mean over examples of what `_values` gives for each."""

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

    def update(
        self, scores: Tensor, target: AnyTarget, sample_weight: Numbers | None = None
    ) -> None:
        """Add a batch."""
        values = self._values(scores, target)
        weight = read_sample_weight(sample_weight, values).double()
        # Not in place: a state that was reset in inference mode, as by Lightning's `validate`, may
        # not be written to outside of it.
        self.total = self.total + torch.tensordot(weight, values.double(), dims=1)
        self.weight = self.weight + weight.sum()

    def compute(self) -> Tensor:
        """The mean so far; NaN of nothing."""
        return self.total / self.weight

    def _values(self, scores: Tensor, target: AnyTarget) -> Tensor:
        """One value, or several, for each example."""
        raise NotImplementedError


class _GroundScore(_MeanScore):
    """A mean score under a ground metric."""

    def __init__(
        self,
        metric: GroundMetric | Tensor | NDArray[Any],
        charge: Charge,
        shape: tuple[int, ...] = (),
    ) -> None:
        super().__init__(shape)
        # Many batches will ask: a table, where there are few enough labels for one.
        self.metric = charged(metric, charge, pairs=as_ground_metric(metric).size ** 2)

    def _apply(self, fn: Callable[[Tensor], Tensor], *arguments: Any, **keywords: Any) -> Any:
        device = fn(torch.empty(0, device=self.metric.device)).device
        self.metric = self.metric.to(device=device)
        return super()._apply(fn, *arguments, **keywords)


class TopKCost(_GroundScore):
    """:func:`wassloss.scores.top_k_cost`; with several `k`, a vector.

    >>> import torch, wassloss as wl
    >>> score = TopKCost(wl.ground.Ordinal(4), k=[1, 2])
    >>> score.update(torch.tensor([[0.5, 0.3, 0.2, 0.0]]), torch.tensor([0]))
    >>> score.update(torch.tensor([[0.0, 0.2, 0.3, 0.5]]), torch.tensor([0]))
    >>> score.compute()
    tensor([1.5000, 1.5000], dtype=torch.float64)
    """

    def __init__(
        self,
        metric: GroundMetric | Tensor | NDArray[Any],
        k: Ks = 1,
        *,
        charge: Charge = "distance",
    ) -> None:
        ks, one = read_ks(k, as_ground_metric(metric).size)
        super().__init__(metric, charge, () if one else (len(ks),))
        self.k: Ks = ks[0] if one else ks

    def _values(self, scores: Tensor, target: AnyTarget) -> Tensor:
        return _each(functions.top_k_cost, scores, target, self.metric, self.k, charge="cost")


class ExpectedDistance(_GroundScore):
    """:func:`wassloss.scores.expected_distance`."""

    def __init__(
        self, metric: GroundMetric | Tensor | NDArray[Any], *, charge: Charge = "distance"
    ) -> None:
        super().__init__(metric, charge)

    def _values(self, scores: Tensor, target: AnyTarget) -> Tensor:
        return _each(functions.expected_distance, scores, target, self.metric, charge="cost")


class MeanWasserstein(_GroundScore):
    """:func:`wassloss.scores.mean_wasserstein`, of probabilities."""

    def __init__(
        self,
        metric: GroundMetric | Tensor | NDArray[Any],
        *,
        epsilon: float = 0.0,
        charge: Charge = "distance",
        normalize_target: bool = False,
        **keywords: Unpack[TransportKeywords],
    ) -> None:
        super().__init__(metric, charge)
        self.epsilon = epsilon
        self.normalize_target = normalize_target
        self.keywords = keywords

    def _values(self, scores: Tensor, target: AnyTarget) -> Tensor:
        return _each(
            functions.mean_wasserstein,
            scores,
            target,
            self.metric,
            epsilon=self.epsilon,
            charge="cost",
            normalize_target=self.normalize_target,
            **self.keywords,
        )


class _HitsAtK(_MeanScore):
    def __init__(self, k: Ks = 1) -> None:
        ks, one = read_ks(k)
        super().__init__(() if one else (len(ks),))
        self.k: Ks = ks[0] if one else ks


class PrecisionAtK(_HitsAtK):
    """:func:`wassloss.scores.precision_at_k`; with several `k`, a vector."""

    def _values(self, scores: Tensor, target: AnyTarget) -> Tensor:
        return _each(functions.precision_at_k, scores, target, self.k)


class RecallAtK(_HitsAtK):
    """:func:`wassloss.scores.recall_at_k`; with several `k`, a vector."""

    def _values(self, scores: Tensor, target: AnyTarget) -> Tensor:
        return _each(functions.recall_at_k, scores, target, self.k)


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

    # What is kept for later, and in which type. All of it flat and of one type, so that a process
    # that saw no batch can take part in the gathering with nothing.
    _KEPT: ClassVar = {"scores": torch.float64, "true": torch.uint8, "weights": torch.float64}

    is_differentiable = False
    full_state_update = False
    total: Tensor
    weight: Tensor
    undefined: Tensor
    scores: list[Tensor] | Tensor
    true: list[Tensor] | Tensor
    weights: list[Tensor] | Tensor

    def __init__(self, per: Per = "example") -> None:
        super().__init__()
        check_per(per)
        self.per: Per = per
        self.left_out = 0
        if per == "example":
            for name in ("total", "weight", "undefined"):
                self.add_state(name, torch.zeros((), dtype=torch.float64), dist_reduce_fx="sum")
        else:
            for name in self._KEPT:
                self.add_state(name, [], dist_reduce_fx="cat")

    def update(
        self, scores: Tensor, target: AnyTarget, sample_weight: Numbers | None = None
    ) -> None:
        """Add a batch."""
        x = read_scores("scores", scores)
        weight = read_sample_weight(sample_weight, x).double()
        true = dense_weights(read_labels(target, x, allow_empty=True), x.shape[1]) > 0
        if self.per == "example":
            values = auc(x, true, weight, "example")
            defined = ~values.isnan()
            self.total = self.total + (values[defined] * weight[defined]).sum()
            self.weight = self.weight + weight[defined].sum()
            self.undefined = self.undefined + (~defined).sum()
            return
        for name, kept in zip(self._KEPT, (x, true, weight), strict=True):
            getattr(self, name).append(kept.reshape(-1).to(self._KEPT[name]))

    def compute(self) -> Tensor:
        """The mean AUC so far."""
        if self.per == "example":
            self.left_out = int(self.undefined)
            return self.total / self.weight
        kept = [getattr(self, name) for name in self._KEPT]
        x, true, weight = (torch.cat(k) if isinstance(k, list) else k for k in kept)
        rows = len(weight)
        values = auc(x.reshape(rows, -1), true.reshape(rows, -1).bool(), weight, self.per)
        self.left_out = int(values.isnan().sum())
        return values.nanmean()

    def _sync_dist(self, *arguments: Any, **keywords: Any) -> None:
        for name, dtype in self._KEPT.items():
            if self.per != "example" and len(getattr(self, name)) == 0:
                setattr(self, name, [torch.empty(0, dtype=dtype, device=self.device)])
        super()._sync_dist(*arguments, **keywords)


def _each(function: Callable[..., Any], scores: Tensor, *arguments: Any, **keywords: Any) -> Tensor:
    if not isinstance(scores, Tensor):
        raise TypeError(f"scores must be a tensor, got {type(scores).__name__}")
    values: Tensor = function(scores, *arguments, reduction="none", **keywords)
    return values
