"""The problems that all contenders solve: predictions, targets and one cost, from a seed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

import torch
from torch import Tensor

import wassloss as wl

# Dimensions of the unit vectors of the labels. On a circle distances vary most, and Sinkhorn takes
# a thousand iterations at ε = 0.02. It takes a few hundred with word vectors, and fewer than a
# hundred with random vectors of many dimensions, which are all about equally far apart.
CIRCLE, MANY_DIMENSIONS, WORD_VECTORS = 2, 50, 300
LARGEST_TABLE = 2048  # labels up to which all costs are stored, as in WassersteinLoss


@dataclass(frozen=True)
class Case:
    """One size of problem."""

    labels: int = 1000
    support: int = 5  # labels per target
    epsilon: float = 0.02  # in units of the median cost; 0 is exact
    batch: int = 100
    dtype: str = "float64"
    tol: float = 1e-6  # on the ℓ1 marginal error
    dimensions: int = CIRCLE
    power: int = 2  # of the distance

    def __str__(self) -> str:
        space = "" if self.dimensions == CIRCLE else f" in {self.dimensions} dimensions"
        space += "" if self.power == 2 else f", distances to the power {self.power},"
        return (
            f"K={self.labels}{space} B={self.batch} s={self.support} ε={self.epsilon:g} "
            f"{self.dtype} tol={self.tol:g}"
        )

    @property
    def dense(self) -> bool:
        return self.support == self.labels

    @property
    def torch_dtype(self) -> torch.dtype:
        dtype: torch.dtype = getattr(torch, self.dtype)
        return dtype


@dataclass(frozen=True)
class Work:
    """The data of a case, in every form that a contender needs."""

    case: Case
    metric: wl.ground.GroundMetric
    h: Tensor  # (batch, labels), rows sum to 1
    target: wl.SparseTarget

    @classmethod
    def of(cls, case: Case, device: str) -> Work:
        generator = torch.Generator().manual_seed(0)
        dtype = case.torch_dtype
        metric = random_metric(case.labels, case.dimensions, dtype, generator, case.power)
        metric = metric.to(device)
        logits = torch.randn(case.batch, case.labels, generator=generator, dtype=dtype)
        target = random_target(case.batch, case.labels, case.support, dtype, generator)
        target = wl.SparseTarget(target.indices.to(device), target.weights.to(device))
        return cls(case, metric, logits.softmax(1).to(device), target)

    def first(self, examples: int) -> Work:
        """The same problem with only the first examples."""
        rows = slice(examples)
        target = wl.SparseTarget(self.target.indices[rows], self.target.weights[rows])
        part = replace(self.case, batch=min(examples, self.case.batch))
        return Work(part, self.metric, self.h[rows], target)

    def asking(self, tol: float) -> Work:
        """The same problem with another tolerance."""
        return self if tol == self.case.tol else replace(self, case=replace(self.case, tol=tol))

    @cached_property
    def dense_target(self) -> Tensor:
        return torch.zeros_like(self.h).scatter(1, self.target.indices, self.target.weights)

    def peer_arrays(self, restricted: bool) -> tuple[Tensor, Tensor, Tensor]:
        """Prediction, target and costs for other libraries, `restricted` to the support."""
        if restricted:
            return self.h, self.target.weights, self.support_cost
        return self.h, self.dense_target, self.cost

    @property
    def cost(self) -> Tensor:
        """All costs, `(labels, labels)`, which other libraries need."""
        return _all_costs(self.metric)

    @cached_property
    def support_cost(self) -> Tensor:
        """The costs that a user can select by hand, `(batch, labels, support)`."""
        columns = self.metric.cost_columns(self.target.indices)  # (batch, support, labels)
        return columns.transpose(1, 2).contiguous()


@lru_cache(maxsize=1)  # shared by the parts of a problem, and kept for one problem at a time
def _all_costs(metric: wl.ground.GroundMetric) -> Tensor:
    return metric.cost()


def forget_costs() -> None:
    """Free the cached costs."""
    _all_costs.cache_clear()


def random_metric(
    labels: int, dimensions: int, dtype: torch.dtype, generator: torch.Generator, power: int = 2
) -> wl.ground.GroundMetric:
    """Powers of the distances between random unit vectors, with median 1."""
    vectors = torch.randn(labels, dimensions, generator=generator, dtype=dtype)
    metric = wl.ground.Embedding(vectors, power=power, scale="median")
    return metric.tabulated() if labels <= LARGEST_TABLE else metric


def random_target(
    batch: int, labels: int, support: int, dtype: torch.dtype, generator: torch.Generator
) -> wl.SparseTarget:
    """A few labels per target, like tags, with uneven weights that sum to 1."""
    keys = torch.rand(batch, labels, generator=generator)
    indices = keys.topk(support).indices.sort(1).values
    weights = torch.rand(batch, support, generator=generator, dtype=dtype) + 0.1
    return wl.SparseTarget(indices, weights / weights.sum(1, keepdim=True))
