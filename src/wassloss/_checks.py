"""Checks of user input: each error names the argument, what was expected and what was passed.

Some checks read values, which is not always possible. While `torch.compile` traces, there are only
shapes: the check becomes an operation of its own, opaque to the compiler, which runs with the graph
and raises the usual error. While a CUDA graph is captured, nothing has been computed yet, and its
replay cannot raise: invalid examples are marked with NaN instead.

In both cases, the result has to depend on the check, or the check would be optimised away. It
returns marks, 0 for each valid example, to be added to the target's weights.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any, Concatenate, ParamSpec, SupportsIndex

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

P = ParamSpec("P")


def is_traced() -> bool:
    """Whether `torch.compile` or `torch.export` is tracing, so that there are no values yet."""
    return torch.compiler.is_compiling()


def can_read_values() -> bool:
    """Whether the host can read values: not while tracing, nor while a CUDA graph is captured."""
    if is_traced():
        return False
    return not (torch.cuda.is_initialized() and torch.cuda.is_current_stream_capturing())


def has_memory(x: Tensor) -> bool:
    """Whether the values are in memory, which they are not inside `torch.func` transforms."""
    try:
        x.data_ptr()
    except RuntimeError:
        return False
    return True


def marked(x: Tensor, marks: Tensor | None) -> Tensor:
    """`x (batch, …)` with NaN in the marked examples; unchanged without marks."""
    if marks is None:
        return x
    return x + marks.to(x.dtype).reshape(-1, *[1] * (x.dim() - 1))


def traceable(
    schema: str, wrong: Callable[P, Tensor]
) -> Callable[[Callable[Concatenate[int, P], str]], Callable[P, Tensor | None]]:
    """Turn an error-message function into a check that `torch.compile` can trace.

    Args:
        schema: name and arguments as an operation of torch, the first a tensor `(batch, …)`.
        wrong: returns a mask of the invalid examples, `(batch,)`, by tensor operations only.

    Returns:
        A decorator of the function that explains what is wrong with a row. The check returns None
        if it could read values, otherwise marks `(batch,)`.
    """
    name = schema.split("(", maxsplit=1)[0]

    def decorate(explain: Callable[Concatenate[int, P], str]) -> Callable[P, Tensor | None]:
        def check(*args: P.args, **kwargs: P.kwargs) -> Tensor | None:
            mask = wrong(*args, **kwargs)
            if not can_read_values():
                return torch.zeros(mask.shape, device=mask.device).masked_fill(mask, torch.nan)
            row = first_row(mask)
            if row is not None:
                raise ValueError(explain(row, *args, **kwargs))
            return None

        def check_at_run_time(x: Tensor, *rest: object) -> Tensor:
            found = check(x, *rest)  # type: ignore[arg-type, call-arg]
            return x.new_zeros(len(x), dtype=torch.float32) if found is None else found

        operation = torch.library.custom_op(
            f"wassloss::{name}",
            check_at_run_time,
            mutates_args=(),
            schema=f"{schema[len(name) :]} -> Tensor",
        )
        operation.register_fake(lambda x, *rest: x.new_empty(x.shape[0], dtype=torch.float32))
        traced = getattr(torch.ops.wassloss, name).default

        def checked(*args: P.args, **kwargs: P.kwargs) -> Tensor | None:
            if is_traced():
                marks: Tensor = traced(*args, **kwargs)
                return marks
            return check(*args, **kwargs)

        checked.__doc__ = explain.__doc__
        return checked

    return decorate


def first_row(wrong: Tensor) -> int | None:
    """The index of the first true entry of a mask `(batch,)` (synchronises), or None."""
    rows = wrong.nonzero()
    return int(rows[0]) if len(rows) else None


def check_prediction(
    name: str, x: Tensor, labels: int, device: torch.device, label_dim: int
) -> None:
    """Check that a prediction is floating point, has all labels, and is on the metric's device."""
    if torch.jit.is_tracing():  # type: ignore[attr-defined, unused-ignore]
        # A trace records the branches and iterations of one batch, which are wrong for the next.
        raise RuntimeError(
            "torch.jit.trace cannot record transport, which depends on the values in the batch: "
            "use torch.compile or torch.export, or trace the model without its loss"
        )
    if not isinstance(x, Tensor):
        raise TypeError(f"{name} must be a tensor, got {type(x).__name__}")
    if not is_traced() and torch._C._functorch.is_batchedtensor(x):  # torch has no public name
        raise RuntimeError(
            f"{name} must not be batched by torch.func.vmap (nor jacfwd or hessian, which use it): "
            "losses take a whole batch themselves, with reduction='none' for each example"
        )
    if x.layout != torch.strided:
        raise TypeError(f"{name} must be a dense tensor, got {x.layout}")
    if not x.is_floating_point():
        raise TypeError(f"{name} must be floating point, got {x.dtype}")
    if x.dim() == 0 or x.shape[label_dim] != labels:
        raise ValueError(
            f"{name} must have {labels} labels, as the ground metric has, in dimension "
            f"{label_dim}, got shape {tuple(x.shape)}"
        )
    check_device(name, x, device)
    if x.is_meta:
        raise ValueError(f"{name} must hold numbers, got a tensor on the meta device")


def check_device(name: str, x: Tensor, device: torch.device) -> None:
    """Check that a tensor is on the ground metric's device."""
    if x.device != device:
        raise ValueError(
            f"{name} must be on the ground metric's device ({device}), got {x.device}; "
            "move either with .to(device)"
        )


def invalid_masses(h: Tensor, name: str) -> Tensor:
    """A mask of the rows that are not measures, `(batch,)`."""
    if not h.shape[1]:
        return h.new_ones(len(h), dtype=torch.bool)
    # Reductions of rows are cheaper than masks of all entries; comparisons with NaN are false.
    return ~((h.amin(1) >= 0) & (h.amax(1) < math.inf) & (h.sum(1) > 0))


def explain_masses(row: int, h: Tensor, name: str) -> str:
    """Check that measures `h (batch, labels)` are finite, non-negative and not empty."""
    for wrong, expected in ((~h[row].isfinite(), "finite"), (h[row] < 0, "non-negative")):
        if wrong.any():
            return f"{name} must be {expected}, got {h[row][wrong][0].item()} in example {row}"
    return f"{name} must have some mass in every example, got none in example {row}"


check_masses = traceable("check_masses(Tensor h, str name)", invalid_masses)(explain_masses)


@traceable(
    "check_weights(Tensor weights, str name)",
    lambda weights, name: ~(weights.isfinite() & (weights >= 0)),
)
def check_weights(row: int, weights: Tensor, name: str) -> str:
    """Check that weights `(n,)` are finite and non-negative."""
    return f"{name} must be finite and non-negative, got {weights[row].item()}"


def check_number(name: str, value: float) -> float:
    """Convert a number, or a scalar of NumPy or torch, to a float."""
    if not isinstance(value, str | bool):
        try:
            return float(value)
        except (TypeError, ValueError, RuntimeError):
            pass  # the error below says more
    raise TypeError(f"{name} must be a number, got {value!r}")


def check_strength(name: str, value: float) -> float:
    """Check that a number is finite and at least 0."""
    value = check_number(name, value)
    if not 0 <= value < math.inf:
        raise ValueError(f"{name} must be a finite number, at least 0, got {value:g}")
    return value


def inverse_overflows(value: float, dtype: torch.dtype) -> bool:
    """Whether `1 / value` overflows in a dtype, as it does for 0."""
    return value * torch.finfo(dtype).max < 1


def check_fits(name: str, value: float, dtype: torch.dtype, *, divides: bool = False) -> None:
    """Check that a strength does not overflow in a dtype, nor its inverse if it divides.

    It may be infinite, and it may be 0.
    """
    too_small = divides and value > 0 and inverse_overflows(value, dtype)
    if too_small or torch.finfo(dtype).max < value < math.inf:
        raise ValueError(
            f"{name} must be a number that {dtype} can {'divide by' if too_small else 'hold'}, got "
            f"{value:g}; use float64, or divide the costs by their median (scale='median')"
        )


def check_flag(name: str, value: object) -> bool:
    """Check that a value is True or False, not merely truthy or falsy."""
    if not isinstance(value, bool | np.bool_):
        raise TypeError(f"{name} must be True or False, got {value!r}")
    return bool(value)


def check_choice(name: str, value: str, choices: Sequence[str]) -> None:
    """Check that a value is one of a few words."""
    if value not in choices:
        *others, last = map(repr, choices)
        raise ValueError(f"{name} must be {', '.join(others)} or {last}, got {value!r}")


def check_count(name: str, value: SupportsIndex) -> int:
    """Check that a value is an integer of at least 1 that int64 can hold."""
    count = _integer(name, value)
    if not 1 <= count < 2**63:
        raise ValueError(
            f"{name} must be {'at least 1' if count < 1 else 'less than 2**63'}, got {count}"
        )
    return count


def check_seed(name: str, value: SupportsIndex) -> int:
    """Check that a value is a seed that every generator accepts."""
    seed = _integer(name, value)
    if not 0 <= seed < 2**63:
        raise ValueError(f"{name} must be in 0..2**63 - 1, got {seed}")
    return seed


def _integer(name: str, value: SupportsIndex) -> int:
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(f"{name} must be an integer, got {value!r}")
    return operator.index(value)


def real_array(name: str, value: object) -> NDArray[Any]:
    """Convert an array or nested lists to an array of real numbers or booleans."""
    try:
        array = np.asarray(value)
    except ValueError as error:  # rows of different lengths
        raise ValueError(f"{name} must be rectangular: {error}") from error
    if array.dtype.kind not in "fiub":
        raise TypeError(
            f"{name} must hold real numbers, got {type(value).__name__} of dtype {array.dtype}"
        )
    return array


def wide_dtype(dtype: torch.dtype) -> torch.dtype:
    """At least single precision: half precision has too few digits for sums and for `M/ε`."""
    return dtype if dtype == torch.float64 else torch.float32


def default_dtype() -> torch.dtype:
    """The dtype of numbers passed without one: torch's default, but at least single precision.

    A half-precision default is meant for activations: it would round positions and distances, and
    make labels coincide.
    """
    return wide_dtype(torch.get_default_dtype())


def at_least_single(x: Tensor) -> Tensor:
    """Convert to `wide_dtype`."""
    return x.to(wide_dtype(x.dtype))


def narrowed(name: str, values: Tensor, dtype: torch.dtype) -> Tensor:
    """Convert a matrix `(n, columns)` to another floating dtype; refuse numbers it cannot hold.

    >>> narrowed("features", torch.tensor([[1.5]]), torch.float64)
    tensor([[1.5000]], dtype=torch.float64)
    """
    narrow = values.to(dtype)
    if narrow is values or not values.is_floating_point():
        return narrow
    lost = narrow.isinf() & values.isfinite()
    if values.dim() != 2 or not lost.any():  # the caller refuses other shapes
        return narrow
    row, column = lost.nonzero()[0].tolist()
    raise ValueError(
        f"{name} must fit {dtype}, got {values[row, column].item():g} in row {row}, column "
        f"{column}; divide that column by its size"
    )
