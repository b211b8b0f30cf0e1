"""Examples in memory: features, targets in any form, and further arguments of the loss."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import torch
from torch import Tensor

from wassloss.targets import SparseTarget, Target, padded

Batch: TypeAlias = tuple[Any, ...]  # features, target, and further arguments of the loss


class Examples:
    """Columns of equal length: features first, then the arguments of the loss.

    Sparse matrices become :class:`~wassloss.SparseTarget`, whose rows can be taken.

    >>> examples = Examples((torch.randn(5, 3), torch.tensor([0, 1, 2, 0, 1])))
    >>> features, target = examples.take(torch.tensor([4, 0]))
    >>> target
    tensor([1, 0])
    """

    def __init__(self, columns: Sequence[Target], name: str = "data") -> None:
        if len(columns) < 2:
            raise ValueError(f"{name} must be (features, target), got {len(columns)} of them")
        self.columns = tuple(_rows(name, column) for column in columns)
        sizes = [_length(column) for column in self.columns]
        if len(set(sizes)) > 1:
            raise ValueError(f"{name} must have as many features as targets, got {sizes}")
        if not sizes[0]:
            raise ValueError(f"{name} must hold examples, got none")
        _check_finite(name, self.columns[0])
        self._widths = [_widths(column) for column in self.columns]

    def __len__(self) -> int:
        return _length(self.columns[0])

    @property
    def nbytes(self) -> int:
        """Their size in memory."""
        return sum(tensor.nbytes for column in self.columns for tensor in _tensors(column))

    def to(self, device: torch.device) -> Examples:
        """The same examples on a device."""
        moved = object.__new__(Examples)
        moved.columns = tuple(to_device(column, device) for column in self.columns)
        moved._widths = self._widths if device.type == "cpu" else [None] * len(self.columns)
        return moved

    def take(self, rows: Tensor | slice) -> Batch:
        """Some of the examples, as a batch; sparse targets as wide as the fullest of them."""
        return tuple(
            _take(column, rows, widths)
            for column, widths in zip(self.columns, self._widths, strict=True)
        )


def to_device(column: Any, device: torch.device) -> Any:
    """A tensor or a sparse target on a device; anything else as it is."""
    if isinstance(column, SparseTarget):
        return SparseTarget(column.indices.to(device), column.weights.to(device))
    return column.to(device) if isinstance(column, Tensor) else column


def _rows(name: str, column: Target) -> Target:
    if isinstance(column, SparseTarget):
        if column.indices.shape != column.weights.shape:
            raise ValueError(
                f"{name} must have as many indices as weights, got "
                f"{tuple(column.indices.shape)} and {tuple(column.weights.shape)}"
            )
        return SparseTarget(column.indices.detach(), column.weights.detach())
    if not isinstance(column, Tensor):
        raise TypeError(
            f"{name} must hold tensors, or a SparseTarget, got {type(column).__name__}; make "
            "arrays tensors with torch.as_tensor"
        )
    if column.layout == torch.strided:
        return column.detach()
    coo = column.detach().to_sparse_coo().coalesce()
    rows, columns = coo.indices()
    return padded(rows, columns, coo.values(), len(column))


def _tensors(column: Target) -> tuple[Tensor, ...]:
    return (column.indices, column.weights) if isinstance(column, SparseTarget) else (column,)


def _length(column: Target) -> int:
    rows = _tensors(column)[0]
    return len(rows) if rows.dim() else 0


def _check_finite(name: str, features: Target) -> None:
    if not isinstance(features, Tensor) or not features.is_floating_point():
        return
    if not features.isfinite().all():
        index = tuple((~features.isfinite()).nonzero()[0].tolist())
        column = f", column {index[1]}" if len(index) == 2 else ""
        raise ValueError(
            f"{name} must have finite features, got {features[index].item()} in row "
            f"{index[0]}{column}"
        )


def _widths(column: Target) -> Tensor | None:
    """How many places of each sparse row are used; rows are padded to the fullest."""
    if not isinstance(column, SparseTarget) or column.weights.dim() != 2:
        return None
    if column.weights.device.type != "cpu":
        return None
    places = torch.arange(1, column.weights.shape[1] + 1)
    return (places * (column.weights != 0)).amax(1)


def _take(column: Target, rows: Tensor | slice, widths: Tensor | None) -> Target:
    if not isinstance(column, SparseTarget):
        return column[rows]
    indices, weights = column.indices[rows], column.weights[rows]
    if widths is not None:  # unknown on a GPU, where finding it out would mean waiting
        width = max(1, int(widths[rows].max()))
        indices, weights = indices[:, :width], weights[:, :width]
    return SparseTarget(indices, weights)
