"""Examples in memory: features, targets in any form, and whatever else the loss takes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import torch
from torch import Tensor

from wassloss.targets import SparseTarget, Target, padded

Batch: TypeAlias = tuple[Any, ...]  # features, target, and what else the loss takes


class Examples:
    """Columns of equal length: features first, then the loss's other arguments.

    Sparse matrices become :class:`~wassloss.SparseTarget`, rows of which can be taken.

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
        features = self.columns[0]
        if isinstance(features, Tensor) and not _finite(features):
            index = tuple((~features.isfinite()).nonzero()[0].tolist())
            column = f", column {index[1]}" if len(index) == 2 else ""
            raise ValueError(
                f"{name} must have finite features, got {features[index].item()} in row "
                f"{index[0]}{column}"
            )
        self._widths = [_widths(column) for column in self.columns]

    def __len__(self) -> int:
        return _length(self.columns[0])

    @property
    def nbytes(self) -> int:
        """What they take up."""
        return sum(tensor.nbytes for column in self.columns for tensor in _tensors(column))

    def to(self, device: torch.device) -> Examples:
        """The same examples on a device."""
        moved = object.__new__(Examples)
        moved.columns = tuple(to_device(column, device) for column in self.columns)
        moved._widths = self._widths if device.type == "cpu" else [None] * len(self.columns)
        return moved

    def take(self, rows: Tensor | slice) -> Batch:
        """Some of the examples, as a batch; sparse targets no wider than the fullest of them."""
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


def _finite(features: Tensor) -> bool:
    return not features.is_floating_point() or bool(features.isfinite().all())


def _widths(column: Target) -> Tensor | None:
    """How many places of each sparse row hold its weights; rows are padded for the fullest."""
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
    if widths is not None:  # not on a GPU, where to look would be to wait
        width = max(1, int(widths[rows].max()))
        indices, weights = indices[:, :width], weights[:, :width]
    return SparseTarget(indices, weights)
