"""Arrays that ground metrics are built from: lists, arrays or tensors, as checked tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from wassloss import _checks
from wassloss._checks import real_array
from wassloss._precision import overflowed

Numbers: TypeAlias = Tensor | NDArray[Any] | Sequence[Any]


def first_index(mask: Tensor) -> tuple[int, ...]:
    """The index of the first true entry of ``mask``, in row-major order."""
    return tuple(int(i) for i in mask.nonzero()[0])


def float_tensor(name: str, value: Numbers, *, shape: str, differentiable: bool = False) -> Tensor:
    """A finite floating-point tensor that later changes to ``value`` cannot reach.

    Floating dtypes are kept; integers and plain lists take torch's default dtype. A tensor that
    requires grad is the exception to the copy: it stays itself, so that gradients reach it and an
    optimiser's updates are seen.

    Args:
        name: the user's name for the argument, for error messages.
        value: the numbers.
        shape: the expected shape in words, one word an axis, as ``"(labels, features)"``.
        differentiable: whether gradients flow through; if not, ``requires_grad`` is an error
            rather than a gradient that silently never comes.
    """
    tensor = _own_tensor(name, value)
    if tensor.ndim != shape.count(",") + 1:
        raise ValueError(f"{name} must have shape {shape}, got {tuple(tensor.shape)}")
    if tensor.numel() == 0:
        raise ValueError(f"{name} must not be empty, got shape {tuple(tensor.shape)}")
    if tensor.requires_grad and not differentiable:
        raise ValueError(
            f"{name} must not require grad, for no gradient flows to it: pass {name}.detach(), "
            "or learn the distances through Embedding or Matrix"
        )
    bad = ~torch.isfinite(tensor.detach())
    if bad.any():
        index = first_index(bad)
        where = ", ".join(map(str, index))
        raise ValueError(f"{name} must be finite, got {name}[{where}] = {tensor[index].item()}")
    return tensor


def holds_integers(value: Numbers) -> bool:
    """Whether numbers are integers by their type, so that none of them was rounded."""
    if isinstance(value, Tensor):
        return not value.is_floating_point()
    if isinstance(value, Sequence) and len(value) > 0 and isinstance(value[0], Tensor):
        return all(holds_integers(row) for row in value)
    return np.asarray(value).dtype.kind in "iub"


def int_array(name: str, value: Numbers) -> NDArray[np.int64]:
    """A one-dimensional array of integers, copied."""
    array = np.array(value.detach().cpu().numpy() if isinstance(value, Tensor) else value)
    if array.ndim != 1 or array.size == 0:
        raise ValueError(f"{name} must be one-dimensional and not empty, got shape {array.shape}")
    if array.dtype.kind not in "iu":
        raise TypeError(f"{name} must hold integers, got dtype {array.dtype}")
    return array.astype(np.int64)


def label_indices(indices: int | Numbers, size: int, device: torch.device) -> Tensor:
    """Indices of any shape, each in 0..size-1, as int64."""
    if isinstance(indices, np.ndarray):  # copied, for torch does not share reversed or frozen ones
        indices = torch.from_numpy(np.array(indices, order="C"))
    given = torch.as_tensor(indices, device=device)
    wrong = given.dtype.is_floating_point or given.dtype.is_complex or given.dtype == torch.bool
    if wrong and given.numel() > 0:  # torch makes an empty list a float tensor
        raise TypeError(f"indices must be integers, got {given.dtype}")
    checked = given.long()
    if checked.numel() == 0 or not _checks.can_read_values():
        return checked
    low, high = torch.stack(checked.aminmax()).tolist()  # the one time the host waits
    if low < 0 or high >= size:
        raise ValueError(f"indices must be in 0..{size - 1}, got {low if low < 0 else high}")
    return checked


def _own_tensor(name: str, value: Numbers) -> Tensor:
    if isinstance(value, Tensor):
        if value.layout != torch.strided or value.is_complex():
            raise TypeError(
                f"{name} must be a dense real tensor, got {value.layout}, {value.dtype}"
            )
        tensor = value if value.requires_grad else value.detach().clone()
        return tensor if tensor.is_floating_point() else tensor.to(torch.get_default_dtype())
    if isinstance(value, Sequence) and len(value) > 0 and isinstance(value[0], Tensor):
        return _own_tensor(name, torch.stack(list(value)))

    array = real_array(name, value)
    # A plain list says nothing about precision; a list of arrays does.
    typed = not isinstance(value, Sequence) or any(isinstance(v, np.ndarray) for v in value[:1])
    keep = typed and array.dtype.kind == "f"
    # longdouble, which torch lacks, comes down to float64; torch also wants native byte order.
    native = f"f{min(array.dtype.itemsize, 8)}" if keep else "f8"
    tensor = torch.from_numpy(np.array(array, dtype=native, order="C"))
    if keep:
        return tensor
    narrow = tensor.to(torch.get_default_dtype())
    if (index := overflowed(tensor, narrow)) is not None:
        where = ", ".join(map(str, index))
        raise ValueError(
            f"{name} must fit {narrow.dtype}, got {name}[{where}] = {tensor[index].item():g}; pass "
            "an array of float64, or divide by the largest"
        )
    return narrow
