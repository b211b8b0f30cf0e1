"""The state of torch for a batch: default dtype, autocast, threads, no gradient."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from numpy.random import Generator
from torch import Tensor

from tests.fuzz.long.notes import note
from tests.fuzz.long.ways import WrongAnswerError


@contextmanager
def default_dtype(dtype: torch.dtype) -> Iterator[None]:
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


@contextmanager
def threads(number: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(number)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def also(context: Callable[[], Any]) -> Iterator[None]:
    """Make `loss_and_gradient` compare values with those computed without gradients."""
    _without.append(context)
    try:
        yield
    finally:
        _without.pop()


_without: list[Callable[[], Any]] = []
MODES: dict[str, Callable[[], Any]] = {
    "default dtype float64": partial(default_dtype, torch.float64),
    "default dtype bfloat16": partial(default_dtype, torch.bfloat16),
    "autocast": partial(torch.autocast, "cpu", torch.bfloat16),
    "two threads": partial(threads, 2),
    "no_grad": partial(also, torch.no_grad),
    "inference_mode": partial(also, torch.inference_mode),
}


@contextmanager
def drawn_mode(rng: Generator) -> Iterator[None]:
    """One of the modes, or none for every other batch."""
    if rng.random() < 0.5:
        yield
        return
    name = list(MODES)[int(rng.integers(len(MODES)))]
    note(mode=name)
    with MODES[name]():
        yield


def check_without_gradient(loss: Callable[[Tensor], Tensor], x: Tensor, values: Tensor) -> None:
    """Without a required gradient, these modes must give the same values, bit for bit."""
    for context in _without:
        with context():
            found = loss(x)
        if not torch.equal(found.nan_to_num(), values.nan_to_num()):
            raise WrongAnswerError(f"without a gradient {found.tolist()}, with {values.tolist()}")
