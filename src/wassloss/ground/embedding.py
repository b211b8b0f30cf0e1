"""Labels with vectors: words, products, classes described by features.

`|a − b|² = |a|² + |b|² − 2ab` turns distances into a matrix product, which hardware does tens to
hundreds of times faster than differences. But after cancellation, the result is only as accurate as
the squares: distances between near vectors are wrong, and those between equal vectors not 0. So the
product is in double precision (single is enough for single-precision costs on a GPU), and distances
that are small relative to the vectors' lengths are computed again from differences.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from wassloss import _checks
from wassloss._checks import at_least_single
from wassloss.ground._cost import CostsByTile, MetricKeywords, blocks, fill_by_labels
from wassloss.ground._inputs import Numbers, float_tensor
from wassloss.ground.base import GroundMetric
from wassloss.kernels.launch import HAS_TRITON

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack

# Shares of |a|² + |b|² below which a squared distance is computed again from differences. Above the
# second, rounding in single precision changes a distance by at most ten units.
NEAR, NEAR_IN_SINGLE = 1e-3, 0.05
# With fewer multiplications, differences are faster than a product and its corrections.
WORTH_A_PRODUCT = 2**20


class Embedding(GroundMetric):
    r"""Euclidean distances between the labels' vectors.

    .. math:: d(i, j) = \lVert v_i - v_j \rVert_2

    Vectors are first normalised to length 1, as is usual for word vectors, whose lengths reflect
    frequency rather than meaning; then :math:`d^2 = 2 - 2 \cos(v_i, v_j)`.

    To learn the vectors, pass a parameter: distances are then computed from its current value each
    time, with gradient 0 where two vectors coincide. The scale is computed once, on construction.

    Args:
        vectors: one row for each label, shape (K, features).
        normalize: whether to normalise the rows to length 1.
        power, scale, labels: see :class:`GroundMetric`. ``scale="max"``
            compares all pairs, in time K² but not memory.

    >>> words = Embedding([[3.0, 0.0], [4.0, 3.0], [0.0, 2.0]], labels=["cat", "kitten", "car"])
    >>> words.distance_columns(words.index("cat"))
    tensor([0.0000, 0.6325, 1.4142])
    """

    _FIELDS = ("vectors",)
    _LEARNED = "_vectors"

    def __init__(
        self, vectors: Numbers, normalize: bool = True, **keywords: Unpack[MetricKeywords]
    ) -> None:
        rows = float_tensor("vectors", vectors, shape="(labels, features)", differentiable=True)
        zero = (rows.detach() == 0).all(dim=1)
        if normalize and zero.any():
            row = int(zero.nonzero()[0])
            raise ValueError(
                f"vectors must not hold a zero row to be normalized, got vectors[{row}] = 0; drop "
                "that label or pass normalize=False"
            )
        # A parameter may change, so its rows are normalised on every use; others only once.
        self._normalize_on_use = normalize and rows.requires_grad
        self._vectors = _unit_rows(rows) if normalize and not rows.requires_grad else rows
        super().__init__(len(rows), like=rows, **keywords)

    @property
    def vectors(self) -> Tensor:
        """The vectors that distances are taken between, shape (K, features)."""
        return _unit_rows(self._vectors) if self._normalize_on_use else self._vectors

    def costs_by_tile(self) -> CostsByTile:
        known = self.vectors.float().contiguous()
        return "vectors", known.__getitem__, known

    def _distance_columns(self, indices: Tensor) -> Tensor:
        vectors = at_least_single(self.vectors)
        found = by_differences if vectors.requires_grad else distances
        return found(vectors[indices], vectors).to(self.dtype)  # (n, K)

    def _cost_columns(self, indices: Tensor) -> Tensor:
        if HAS_TRITON and self._vectors.is_cuda and not _checks.is_traced():
            vectors = at_least_single(self.vectors)
            if vectors.dtype == torch.float32 and not vectors.requires_grad:
                costs = _fused_costs(vectors[indices], vectors, self.power, self.scale)
                return costs.to(self.dtype)
        return super()._cost_columns(indices)

    def _distances_between(self, first: Tensor, second: Tensor) -> Tensor:
        vectors = at_least_single(self.vectors)
        pairs = torch.stack([first, second], dim=1)
        gaps = [
            torch.linalg.vector_norm(vectors[p[:, 0]] - vectors[p[:, 1]], dim=1)
            for p in blocks(pairs, vectors.shape[1])
        ]
        return torch.cat([vectors.new_empty(0), *gaps]).to(self.dtype)

    @classmethod
    def _from_fields(cls, fields: Mapping[str, Any], **common: Any) -> Self:
        return cls(fields["vectors"], normalize=False, **common)

    def _summary(self) -> str:
        return f"{self.size} vectors in {self._vectors.shape[1]} dimensions"


def _unit_rows(rows: Tensor) -> Tensor:
    wide = at_least_single(rows)
    # Divide by the largest entry first: squares of large or tiny entries leave the float range.
    wide = wide / wide.detach().abs().amax(dim=1, keepdim=True)
    norms: Tensor = torch.linalg.vector_norm(wide, dim=1, keepdim=True)
    return (wide / norms).to(rows.dtype)


def by_differences(chosen: Tensor, vectors: Tensor) -> Tensor:
    """Distances by differences, differentiable; `chosen (n, features)`, `vectors (K, features)`."""
    return torch.cdist(chosen, vectors, compute_mode="donot_use_mm_for_euclid_dist")


def distances(chosen: Tensor, vectors: Tensor) -> Tensor:
    """Euclidean distances `(n, K)`, without gradient."""
    size = len(chosen) * vectors.numel()
    known = vectors.device.type in ("cpu", "cuda")
    if size < WORTH_A_PRODUCT or not known or not _checks.can_read_values():
        return by_differences(chosen, vectors)  # the number of near pairs cannot be read
    # Autocast would compute the product in half precision, and cancellation leave no digits.
    with torch.autocast(vectors.device.type, enabled=False):
        own, found = chosen.double(), vectors.new_empty(len(chosen), len(vectors))
        width = max(chosen.shape)
        return fill_by_labels(found, vectors, width, lambda part: _by_product(own, part.double()))


def _by_product(chosen: Tensor, vectors: Tensor) -> Tensor:
    squares = vectors.square().sum(1)
    both = chosen.square().sum(1, keepdim=True) + squares  # (n, labels)
    square = torch.addmm(both, chosen, vectors.T, alpha=-2)
    rows, columns = (square < NEAR * both).nonzero(as_tuple=True)
    found = square.clamp_(min=0).sqrt_()
    found[rows, columns] = (chosen[rows] - vectors[columns]).norm(dim=1)
    return found


def _fused_costs(chosen: Tensor, vectors: Tensor, power: float, scale: float) -> Tensor:
    """Costs `(n, K)` from one product and one kernel on an NVIDIA GPU."""
    from wassloss.kernels.triton.euclidean import launch

    with torch.autocast("cuda", enabled=False):
        # If users allow less precise products, cancellation may leave no digits.
        exact = torch.get_float32_matmul_precision() == "highest"
        wide = (lambda x: x) if exact else torch.Tensor.double
        costs = (wide(chosen) @ wide(vectors).T).float()
    launch(costs, chosen.contiguous(), vectors.contiguous(), power, scale, NEAR_IN_SINGLE)
    return costs
