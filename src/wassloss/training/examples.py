"""Examples in memory: features, targets in any form, and further arguments of the loss."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

import torch
from torch import Tensor

from wassloss.targets import SparseTarget, Target, padded

Batch: TypeAlias = tuple[Any, ...]  # features, target, and further arguments of the loss
Data: TypeAlias = tuple[Target, ...] | list[Target] | Iterable[Batch]


def is_in_memory(data: Data) -> bool:
    """Whether data are columns of examples rather than a stream of batches."""
    return isinstance(data, tuple | list) and any(
        isinstance(column, Tensor | SparseTarget) for column in data
    )


class Examples:
    """Columns of equal length: features first, then the arguments of the loss.

    Sparse matrices become :class:`~wassloss.SparseTarget`, whose rows can be taken.

    >>> examples = Examples((torch.randn(5, 3), torch.tensor([0, 1, 2, 0, 1])))
    >>> features, target = examples.take(torch.tensor([4, 0]))
    >>> target
    tensor([1, 0])
    """

    def __init__(self, data: Data, name: str = "data") -> None:
        if not isinstance(data, tuple | list) or not is_in_memory(data):
            raise TypeError(f"{name} must be (features, target), got {type(data).__name__}")
        if len(data) < 2:
            raise ValueError(f"{name} must be (features, target), got {len(data)} of them")
        self.columns = tuple(_read(name, column) for column in data)
        sizes = [len(rows) if rows.dim() else 0 for rows, *_ in map(_tensors, self.columns)]
        if len(set(sizes)) > 1:
            raise ValueError(f"{name} must have as many features as targets, got {sizes}")
        if not sizes[0]:
            raise ValueError(f"{name} must hold examples, got none")
        self._size, features = sizes[0], self.columns[0]
        if isinstance(features, Tensor) and not features.isfinite().all():
            index = tuple((~features.isfinite()).nonzero()[0].tolist())
            place = f"row {index[0]}" + (f", column {index[1]}" if len(index) == 2 else "")
            got = features[index].item()
            raise ValueError(f"{name} must have finite features, got {got} in {place}")

    def __len__(self) -> int:
        return self._size

    @property
    def nbytes(self) -> int:
        """Their size in memory."""
        return sum(tensor.nbytes for column in self.columns for tensor in _tensors(column))

    def to(self, device: torch.device) -> Examples:
        """Move them to a device."""
        self.columns = tuple(to_device(column, device) for column in self.columns)
        return self

    def take(self, rows: Tensor | slice) -> Batch:
        """Some of the examples, as a batch; sparse targets as wide as the fullest of them."""
        taken = [_changed(column, lambda tensor: tensor[rows]) for column in self.columns]
        return tuple(_narrowed(column) for column in taken)


def to_device(column: Any, device: torch.device) -> Any:
    """A tensor or a sparse target on a device; anything else as it is."""
    return _changed(column, lambda tensor: tensor.to(device))


def _narrowed(column: Any) -> Any:
    """A sparse target without the places that no row uses; a GPU would have to be waited for."""
    if not isinstance(column, SparseTarget) or column.weights.dim() != 2:
        return column
    if not column.weights.is_cpu:
        return column
    used = column.weights.any(0).nonzero()
    width = int(used.max()) + 1 if len(used) else 1
    return _changed(column, lambda tensor: tensor[:, :width])


def _changed(column: Any, change: Callable[[Tensor], Tensor]) -> Any:
    if isinstance(column, SparseTarget):
        return SparseTarget(change(column.indices), change(column.weights))
    return change(column) if isinstance(column, Tensor) else column


def _tensors(column: Target) -> tuple[Tensor, ...]:
    return (column.indices, column.weights) if isinstance(column, SparseTarget) else (column,)


def _read(name: str, column: Target) -> Target:
    """A column whose rows can be taken."""
    if isinstance(column, SparseTarget):
        if column.indices.shape != column.weights.shape:
            raise ValueError(
                f"{name} must have as many indices as weights, got "
                f"{tuple(column.indices.shape)} and {tuple(column.weights.shape)}"
            )
    elif not isinstance(column, Tensor):
        raise TypeError(
            f"{name} must hold tensors, or a SparseTarget, got {type(column).__name__}; make "
            "arrays tensors with torch.as_tensor"
        )
    elif column.layout != torch.strided:
        coo = column.detach().to_sparse_coo().coalesce()
        rows, columns = coo.indices()
        return padded(rows, columns, coo.values(), len(column))
    detached: Target = _changed(column, Tensor.detach)
    return detached
