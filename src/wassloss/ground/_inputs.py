"""Read the arguments of ground metrics: numbers, label indices and label names."""

from __future__ import annotations

import difflib
import operator
from collections.abc import Sequence
from typing import Any, SupportsIndex, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from wassloss import _checks
from wassloss._checks import default_dtype, real_array

Numbers: TypeAlias = Tensor | NDArray[Any] | Sequence[Any]


def refuse(name: str, expected: str, values: Any, wrong: Any, advice: str = "") -> None:
    """Raise a ValueError that names the first entry for which ``wrong`` is true, if any."""
    where = torch.as_tensor(wrong).nonzero()
    if len(where) > 0:
        index = tuple(where[0].tolist())
        value = values[index].item()
        shown = value if isinstance(value, int) else f"{value:g}"
        got = f"{name}[{', '.join(map(str, index))}] = {shown}"
        raise ValueError(f"{name} must {expected}, got {got}{advice}")


def float_tensor(name: str, value: Numbers, *, shape: str, differentiable: bool = False) -> Tensor:
    """Copy numbers to a finite floating-point tensor, of a shape such as ``"(labels, features)"``.

    Floating dtypes are kept; integers and plain lists get torch's default dtype, or float32 if
    that is narrower. A tensor that requires grad is not copied, so that gradients reach it and an
    optimiser's updates take effect. It is refused unless ``differentiable``, because otherwise it
    would silently never get a gradient.
    """
    tensor = _own_tensor(name, value)
    if tensor.ndim != shape.count(",") + 1:
        raise ValueError(f"{name} must have shape {shape}, got {tuple(tensor.shape)}")
    if tensor.numel() == 0:
        raise ValueError(f"{name} must not be empty, got shape {tuple(tensor.shape)}")
    if tensor.requires_grad and not differentiable:
        raise ValueError(
            f"{name} must not require grad, because no gradient flows to it: pass "
            f"{name}.detach(), or learn the distances through Embedding or Matrix"
        )
    refuse(name, "be finite", tensor, ~torch.isfinite(tensor.detach()))
    return tensor


def _own_tensor(name: str, value: Numbers) -> Tensor:
    if isinstance(value, Tensor):
        if value.layout != torch.strided or value.is_complex():
            raise TypeError(
                f"{name} must be a dense real tensor, got {value.layout}, {value.dtype}"
            )
        tensor = value if value.requires_grad else value.detach().clone()
        return tensor if tensor.is_floating_point() else tensor.to(default_dtype())
    if isinstance(value, Sequence) and len(value) > 0 and isinstance(value[0], Tensor):
        return _own_tensor(name, torch.stack(list(value)))

    array = real_array(name, value)
    # A plain list says nothing about precision; a list of arrays does.
    typed = not isinstance(value, Sequence) or any(isinstance(v, np.ndarray) for v in value[:1])
    keep = typed and array.dtype.kind == "f"
    # longdouble, which torch lacks, becomes float64; torch also needs native byte order.
    native = f"f{min(array.dtype.itemsize, 8)}" if keep else "f8"
    tensor = torch.from_numpy(np.array(array, dtype=native, order="C"))
    if keep:
        return tensor
    narrow = tensor.to(default_dtype())
    advice = "; pass an array of float64, or divide by the largest"
    refuse(name, f"fit {narrow.dtype}", tensor, narrow.isinf() & tensor.isfinite(), advice)
    return narrow


def holds_integers(value: Numbers) -> bool:
    """Whether numbers have an integer type, so that none was rounded."""
    if isinstance(value, Tensor):
        return not value.is_floating_point()
    if isinstance(value, Sequence) and len(value) > 0 and isinstance(value[0], Tensor):
        return all(holds_integers(row) for row in value)
    return np.asarray(value).dtype.kind in "iub"


def int_array(name: str, value: Numbers) -> NDArray[np.int64]:
    """Copy integers to a one-dimensional array."""
    array = np.array(value.detach().cpu().numpy() if isinstance(value, Tensor) else value)
    if array.ndim != 1 or array.size == 0:
        raise ValueError(f"{name} must be one-dimensional and not empty, got shape {array.shape}")
    if array.dtype.kind not in "iu":
        raise TypeError(f"{name} must hold integers, got dtype {array.dtype}")
    return array.astype(np.int64)


def label_indices(indices: int | Numbers, size: int, device: torch.device) -> Tensor:
    """Convert indices of any shape, each in 0..size-1, to int64."""
    if isinstance(indices, np.ndarray):  # copied: torch cannot share reversed or frozen arrays
        indices = torch.from_numpy(np.array(indices, order="C"))
    given = torch.as_tensor(indices, device=device)
    wrong = given.dtype.is_floating_point or given.dtype.is_complex or given.dtype == torch.bool
    if wrong and given.numel() > 0:  # torch makes an empty list a float tensor
        raise TypeError(f"indices must be integers, got {given.dtype}")
    checked = given.long()
    if checked.numel() == 0 or not _checks.can_read_values():
        return checked
    low, high = torch.stack(checked.aminmax()).tolist()  # synchronises only once
    if low < 0 or high >= size:
        raise ValueError(f"indices must be in 0..{size - 1}, got {low if low < 0 else high}")
    return checked


def check_labels(
    labels: Sequence[str] | None, size: int, argument: str = "labels"
) -> tuple[str, ...] | None:
    """Check that there are ``size`` different names, or None."""
    if labels is None:
        return None
    if isinstance(labels, str):
        raise TypeError(f"{argument} must be a sequence of names, got the single string {labels!r}")
    names = tuple(labels)
    if len(names) != size:
        raise ValueError(f"{argument} must hold {size} names, got {len(names)}")
    seen: dict[str, int] = {}
    for i, name in enumerate(names):
        if not isinstance(name, str):
            raise TypeError(f"{argument} must hold strings, got {argument}[{i}] = {name!r}")
        if name in seen:
            raise ValueError(f"{argument} must differ, got {name!r} at {seen[name]} and at {i}")
        seen[name] = i
    return tuple(str(name) for name in names)  # numpy.str_ becomes str


def find_label(label: SupportsIndex | str, names: tuple[str, ...] | None, size: int) -> int:
    """The index of a label given by name or by index."""
    if isinstance(label, str):
        if names is None:
            raise ValueError(f"label {label!r} is a name, but this metric was built without labels")
        if label not in names:
            close = difflib.get_close_matches(label, names)
            hint = f"; did you mean {' or '.join(map(repr, close))}?" if close else ""
            raise ValueError(f"label {label!r} is not among the {size} labels{hint}")
        return names.index(label)
    if isinstance(label, bool) or not hasattr(label, "__index__"):
        raise TypeError(f"label must be a name or an index, got {label!r}")
    index = operator.index(label)
    if not 0 <= index < size:
        raise ValueError(f"label must be between 0 and {size - 1}, got {index}")
    return index
