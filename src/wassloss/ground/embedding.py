"""Labels with vectors: words, products, classes described by features."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from numpy.typing import NDArray
from torch import Tensor

from wassloss.ground._arrays import Numbers, float_tensor
from wassloss.ground._cost import Scale
from wassloss.ground._euclidean import by_differences, distances, fused_costs
from wassloss.ground._summaries import blocks
from wassloss.ground.base import GroundMetric

if TYPE_CHECKING:
    from typing_extensions import Self


class Embedding(GroundMetric):
    r"""Euclidean distances between the labels' vectors.

    .. math:: d(i, j) = \lVert v_i - v_j \rVert_2

    Vectors are first brought to length 1, as is usual for word vectors, whose lengths tell
    frequency rather than meaning; then :math:`d^2 = 2 - 2 \cos(v_i, v_j)`.

    To learn the vectors, pass a parameter: distances are then computed from its current value each
    time, with gradient 0 where two vectors coincide. The scale stays what it was when built.

    Args:
        vectors: one row for each label, shape (K, features).
        normalize: whether to bring the rows to length 1.
        power, scale, labels: see :class:`GroundMetric`. ``scale="max"`` compares all pairs, in
            time K² but not memory.

    >>> words = Embedding([[3.0, 0.0], [4.0, 3.0], [0.0, 2.0]], labels=["cat", "kitten", "car"])
    >>> words.distance_columns(words.index("cat"))
    tensor([0.0000, 0.6325, 1.4142])
    """

    _FIELDS = ("vectors",)

    def __init__(
        self,
        vectors: Numbers,
        normalize: bool = True,
        *,
        power: float = 1.0,
        scale: Scale = None,
        labels: Sequence[str] | None = None,
    ) -> None:
        rows = float_tensor("vectors", vectors, shape="(labels, features)", differentiable=True)
        zero = (rows.detach() == 0).all(dim=1)
        if normalize and zero.any():
            row = int(zero.nonzero()[0])
            raise ValueError(
                f"vectors must not hold a zero row to be normalized, got vectors[{row}] = 0; drop "
                "that label or pass normalize=False"
            )
        # A parameter changes under us, so its rows are normalized on use; others once and for all.
        self._normalize_on_use = normalize and rows.requires_grad
        self._vectors = _unit_rows(rows) if normalize and not rows.requires_grad else rows
        super().__init__(len(rows), like=rows, power=power, scale=scale, labels=labels)

    @property
    def vectors(self) -> Tensor:
        """The vectors that distances are taken between, shape (K, features)."""
        return _unit_rows(self._vectors) if self._normalize_on_use else self._vectors

    def _distance_columns(self, indices: Tensor) -> Tensor:
        chosen, vectors = self._chosen_and_all(indices)
        found = by_differences if vectors.requires_grad else distances
        return found(chosen, vectors).to(self.dtype)  # (n, K)

    def _cost_columns(self, indices: Tensor) -> Tensor:
        chosen, vectors = self._chosen_and_all(indices)
        if not vectors.requires_grad:
            costs = fused_costs(chosen, vectors, self._power, self._scale)
            if costs is not None:
                return costs.to(self.dtype)
        return super()._cost_columns(indices)

    def _chosen_and_all(self, indices: Tensor) -> tuple[Tensor, Tensor]:
        """The vectors of some labels, and of all, in single precision at least."""
        vectors = self.vectors.to(torch.promote_types(self.dtype, torch.float32))
        return vectors[indices], vectors

    def _distances_between(self, first: Tensor, second: Tensor) -> Tensor:
        wide = torch.promote_types(self.dtype, torch.float32)
        vectors = self.vectors
        pairs = torch.stack([first, second], dim=1)
        gaps = [
            torch.linalg.vector_norm(vectors[p[:, 0]].to(wide) - vectors[p[:, 1]].to(wide), dim=1)
            for p in blocks(pairs, vectors.shape[1])
        ]
        return torch.cat([vectors.new_empty(0), *gaps]).to(self.dtype)

    def _fields(self) -> Mapping[str, Tensor | NDArray[Any]]:
        return {"vectors": self.vectors}

    @classmethod
    def _from_fields(cls, fields: Mapping[str, Any], **common: Any) -> Self:
        return cls(fields["vectors"], normalize=False, **common)

    def _summary(self) -> str:
        return f"{self.size} vectors in {self._vectors.shape[1]} dimensions"


def _unit_rows(rows: Tensor) -> Tensor:
    wide = rows.to(torch.promote_types(rows.dtype, torch.float32))
    # The largest entry goes first, lest squares of large or tiny ones leave the float range.
    wide = wide / wide.detach().abs().amax(dim=1, keepdim=True)
    norms: Tensor = torch.linalg.vector_norm(wide, dim=1, keepdim=True)
    return (wide / norms).to(rows.dtype)
