"""Call the compiled passes with CPU tensors of any memory layout."""

from __future__ import annotations

import math
from collections.abc import Callable
from ctypes import byref
from functools import cache
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor

from wassloss.native.library import Batch, Settings, library

_NO_MEMORY = -1
STRIP = 64  # WASSLOSS_STRIP of wassloss.h


class Losses(NamedTuple):
    """The results of a pass over a batch."""

    value: Tensor  # (batch,)
    gradient: Tensor  # (batch, labels), in the logits
    status: Tensor  # (batch,), see wassloss.kernels.status
    worst: int  # the worst status


class Potentials(NamedTuple):
    """A solved batch of problems."""

    value: Tensor  # (batch,)
    f: Tensor  # (batch, labels)
    g: Tensor  # (batch, support), 0 on padding
    n_iterations: Tensor  # (batch,)
    error: Tensor  # (batch,)


def settings(
    *,
    epsilon: float,
    gamma: tuple[float, float] = (math.inf, math.inf),
    product: bool = False,
    unequal_price: float = 0.0,
    transport_weight: float = 1.0,
    kl_weight: float = 0.0,
    per_softening: float = 0.0,
    tol: float = 0.0,
    mass_tolerance: float = 0.0,
    max_iterations: int = 0,
    fixed: bool = False,
    normalize: bool = False,
    ignore_index: int = -100,
    threads: int = 1,
) -> Settings:
    """The settings of a loss for the passes; `wassloss.h` documents the fields."""
    return Settings(
        *(epsilon, *gamma, unequal_price, transport_weight, kl_weight, per_softening),
        *(tol, mass_tolerance, max_iterations, ignore_index),
        *(product, fixed, normalize, threads),
    )


def class_ids(
    settings: Settings, logits: Tensor, ids: Tensor, cost: Tensor, tabulated: bool
) -> Losses:
    """Compute the losses of one label per example.

    Costs are rows `(any number, labels)`: that of label `ids[b]` if they are a table of all labels
    (`tabulated`), else row `b`.
    """
    return _losses("class_ids", settings, logits, ids, None, cost, tabulated)


def sets(
    settings: Settings,
    logits: Tensor,
    places: tuple[Tensor, Tensor],
    members: Tensor | None,
    cost: Tensor,
    tabulated: bool,
    ends: tuple[Tensor, Tensor] | None = None,
    on_line: bool = False,
) -> Losses:
    """Compute the losses of one set of labels per example.

    A set holds the labels at its first to its last of `places`, `(batch,)` each. The label at place
    p is `members[p]`, or p without members. `cost` holds the costs to each set, `(batch, labels)`,
    or, if `tabulated`, a table: with `ends`, the rows `(batch,)` for labels before and after each
    range; with `on_line`, for labels on a line in numerical order; otherwise as in :func:`strips`.
    """
    first, last, listed, before, after = (
        None if x is None else _dense(x, torch.int64)
        for x in (*places, members, *(ends or (None, None)))
    )
    count = logits.shape[1] if listed is None else len(listed)
    of_sets = _address(last), _address(listed), count, _address(before), _address(after), on_line
    return _losses("sets", settings, logits, cast(Tensor, first), None, cost, tabulated, of_sets)


def sparse(
    settings: Settings,
    logits: Tensor,
    indices: Tensor,
    weights: Tensor,
    cost: Tensor,
    tabulated: bool,
) -> Losses:
    """Compute the losses of a few labels per example, `indices` and `weights (batch, support)`.

    A weight of 0 is padding, with any index. Costs are rows `(any number, labels)`: row
    `indices[b, j]` if they are a table of all labels (`tabulated`), else row `b · support + j`.
    """
    return _losses("sparse", settings, logits, indices, weights, cost, tabulated)


def maximize(
    settings: Settings, log_h: Tensor, log_y: Tensor, rows: Tensor, cost: Tensor
) -> Potentials:
    """Solve entropic problems, `log_h (batch, labels)` and `log_y (batch, support)`.

    `log_y` is `−inf` on padding. The costs of target `j` of example `b` are in row `rows[b, j]`.
    """
    dtype, (count, labels), support = log_h.dtype, log_h.shape, log_y.shape[1]
    log_h, log_y, cost = log_h.contiguous(), _dense(log_y, dtype), _dense(cost, dtype)
    rows = _dense(rows, torch.int64)
    value, error = torch.empty(count, dtype=dtype), torch.empty(count, dtype=dtype)
    f = torch.empty((count, labels), dtype=dtype)
    g = torch.empty((count, support), dtype=dtype)
    n_iterations = torch.empty(count, dtype=torch.int64)
    batch = Batch(
        *(count, labels, support, log_h.data_ptr(), rows.data_ptr(), log_y.data_ptr()),
        *(cost.data_ptr(), True, value.data_ptr(), f.data_ptr(), None),
        *(g.data_ptr(), n_iterations.data_ptr(), error.data_ptr()),
    )
    _run("maximize", dtype, settings, batch)
    return Potentials(value, f, g, n_iterations, error)


def strips(table: Tensor) -> Tensor:
    """Cut a table of costs `(labels, labels)` into padded strips `(strips, labels, STRIP)`."""
    labels = len(table)
    padded = torch.nn.functional.pad(table, (0, -labels % STRIP))
    return padded.reshape(labels, -1, STRIP).transpose(0, 1).contiguous()


def _address(x: Tensor | None) -> int | None:
    return None if x is None else x.data_ptr()


def _dense(x: Tensor, dtype: torch.dtype) -> Tensor:
    return (x if x.dtype == dtype else x.to(dtype)).contiguous()


def _losses(
    name: str,
    settings: Settings,
    logits: Tensor,
    indices: Tensor,
    weights: Tensor | None,
    cost: Tensor,
    tabulated: bool,
    of_sets: tuple[Any, ...] = (),
) -> Losses:
    dtype, (count, labels) = logits.dtype, logits.shape
    logits, indices, cost = logits.contiguous(), _dense(indices, torch.int64), _dense(cost, dtype)
    support, where = 1, None
    if weights is not None:
        weights = _dense(weights, dtype)
        support, where = weights.shape[1], weights.data_ptr()
    # Not empty_like, which would keep the strides of the logits.
    value, gradient = torch.empty(count, dtype=dtype), torch.empty((count, labels), dtype=dtype)
    status = torch.empty(count, dtype=torch.uint8)
    batch = Batch(
        *(count, labels, support, logits.data_ptr(), indices.data_ptr(), where),
        *(cost.data_ptr(), tabulated, value.data_ptr(), gradient.data_ptr(), status.data_ptr()),
        *(None, None, None, *of_sets),
    )
    return Losses(value, gradient, status, _run(name, dtype, settings, batch))


def _run(name: str, dtype: torch.dtype, settings: Settings, batch: Batch) -> int:
    worst: int = _functions()[name, dtype](byref(settings), byref(batch))
    if worst == _NO_MEMORY:
        raise MemoryError(f"no memory to compute losses over {batch.labels} labels")
    return worst


@cache
def _functions() -> dict[tuple[str, torch.dtype], Callable[..., int]]:
    """The passes, looked up once."""
    dtypes = {"f32": torch.float32, "f64": torch.float64}
    names = "class_ids", "sets", "sparse", "maximize"
    return {
        (name, dtype): getattr(library(), f"wassloss_{name}_{precision}")
        for name in names
        for precision, dtype in dtypes.items()
    }
