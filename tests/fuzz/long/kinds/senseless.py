"""Invalid arguments: an answer, or an error of ours that names the problem."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from numpy.random import Generator
from torch import Tensor

import wassloss as wl
from tests.fuzz.long.draws import chance, pick
from tests.fuzz.long.notes import clear, note
from tests.fuzz.long.tally import Tally
from tests.fuzz.long.ways import WrongAnswerError, run

CALLS = 24
NAMES = [
    "epsilon",
    "gamma",
    "tol",
    "max_iterations",
    "scaling_iterations",
    "regularizer",
    "debiased",
]
ODD: list[Any] = [
    *["", "plan", "Plan", None, True, (), (1.0, 2.0), [1.0], {}, 1j, math.nan, math.inf, 5e-324],
    *[-1, 0, 2**70, -(2**70), 1.5, -0.0, b"1", torch.tensor(1.0), torch.tensor([1.0, 2.0])],
    *[np.float32(0.1), np.array([1.0]), torch.tensor(1), object, (1.0, math.nan), ("a", "b")],
]


def senseless(rng: Generator) -> Tally:
    tally = Tally()
    for _ in range(CALLS // 2):
        clear()
        tally = tally + _one(rng)
    return tally


def _one(rng: Generator) -> Tally:
    labels, batch = int(rng.integers(1, 5)), int(rng.integers(1, 4))
    h: Any = torch.from_numpy(rng.dirichlet(np.ones(labels), batch))
    y: Any = torch.from_numpy(rng.dirichlet(np.ones(labels), batch))
    metric: Any = wl.ground.Ordinal(labels)
    keywords: dict[str, Any] = {"epsilon": 0.1} if chance(rng, 0.5) else {}
    y = pick(rng, [y, y.argmax(1), y.to_sparse_coo(), wl.SparseTarget(y.argsort(1), y)])
    for _ in range(int(rng.integers(0, 3))):  # number of invalid arguments
        kind = pick(rng, ["h", "y", "metric", "keyword"], [2, 3, 1, 4])
        if kind == "h":
            h = _spoilt(rng, h)
        elif kind == "y" and isinstance(y, wl.SparseTarget):
            part = _spoilt(rng, y.indices), y.weights
            y = wl.SparseTarget(*pick(rng, [part, (y.indices, _spoilt(rng, y.weights))]))
        elif kind == "y":
            y = _spoilt(rng, y)
        elif kind == "metric":
            matrices = [torch.zeros(2, 3), np.ones((2, 2)), torch.rand(labels, labels) * math.nan]
            metric = pick(rng, [h, labels, None, "ordinal", [], *matrices])
        else:
            keywords[pick(rng, NAMES)] = pick(rng, ODD)
    if isinstance(keywords.get("scaling_iterations"), int):
        keywords["scaling_iterations"] %= 50  # many iterations are slow, but not invalid
    note(h=h, y=y, metric=metric, **keywords)
    found = run(lambda: wl.wasserstein(h, y, metric, **keywords))
    if found.answer is not None and not found.doubtful and not found.answer.isfinite().all():
        raise WrongAnswerError(f"wasserstein answered {found.answer}")
    refused = bool(found.refusal)

    def loss() -> Tensor:
        fixed = {name: value for name, value in keywords.items() if name != "gamma"}
        values: Tensor = wl.WassersteinLoss(
            metric, **{"kl_weight": 0.0, **fixed}, normalize_cost=False
        )(h, y)
        return values

    found = run(loss)
    if found.answer is not None and not found.doubtful and not _is_nan_as_cross_entropy(h):
        values = found.answer if isinstance(found.answer, Tensor) else torch.tensor(math.nan)
        if values.isnan().any():
            raise WrongAnswerError(f"WassersteinLoss answered {found.answer}")
    return Tally(2, refused=refused + bool(found.refusal))


def _is_nan_as_cross_entropy(h: Any) -> bool:
    """Whether the mean is of nothing, or logits in half precision have overflowed."""
    if not isinstance(h, Tensor):
        return False
    half = h.dtype in (torch.float16, torch.bfloat16)
    return not h.numel() or (half and not bool(h.isfinite().all()))


def _spoilt(rng: Generator, x: Any) -> Any:
    """The same with an error: a value, the shape, the type, or everything."""
    if not isinstance(x, Tensor) or x.device.type == "meta" or x.is_complex():
        return pick(rng, [None, [], "x", 3.0])
    dense = x.to_dense() if x.layout != torch.strided else x
    values = dense.clone(memory_format=torch.contiguous_format)
    kind = pick(rng, ["value", "shape", "type", "other"], [3, 2, 2, 1])
    if kind == "value" and values.numel():
        odd: list[float] = [math.nan, math.inf, -math.inf, 1e38, -1.0, 2.0, 0.0, 1e-40]
        if not values.is_floating_point():
            values, odd = values.long(), [-1, 7, 2**40, -(2**40), -99]
        values.view(-1)[int(rng.integers(0, values.numel()))] = pick(rng, odd)
        return values
    if kind == "shape" and values.dim() and values.numel():
        others = [values[:0], values[..., :-1], values[0], values.unsqueeze(-1)]
        return pick(rng, [*others, values.movedim(0, -1), values.flatten()[0]])
    if kind == "type":
        types = [torch.long, torch.bool, torch.float16, torch.int8, torch.complex64, torch.float32]
        return values.to(pick(rng, types))
    return pick(rng, [values.tolist(), values.numpy(), None, values.to_sparse_coo(), "x"])
