"""The data of many models: one set for all of them, or one for each."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

import torch
from torch import Tensor

from wassloss.targets import SparseTarget, Target
from wassloss.training.examples import Examples

# Shared by all models, or one for each.
ManyColumn: TypeAlias = Target | Sequence[Target]


class Column(NamedTuple):
    """Features or targets; what several models have in common is kept once."""

    values: list[Any]
    of: Tensor  # (models,): which is whose


class ManyData:
    """Features, targets, and what else the loss takes, for each model.

    Args:
        columns: each a tensor or sparse target, shared by all models, or a list of one for each.
            The same object may stand in a list many times.
        models: their number.
    """

    def __init__(self, columns: Sequence[ManyColumn], models: int) -> None:
        if not isinstance(columns, tuple | list) or len(columns) < 2:
            raise TypeError(f"data must be (features, target), got {type(columns).__name__}")
        self.columns = [_column(column, models) for column in columns]
        self.size = -1
        pairs = {tuple(int(column.of[r]) for column in self.columns) for r in range(models)}
        for places in sorted(pairs):  # each set once
            given = zip(self.columns, places, strict=True)
            examples = Examples([column.values[place] for column, place in given])
            for column, place, read in zip(self.columns, places, examples.columns, strict=True):
                column.values[place] = read
            if self.size not in (-1, len(examples)):
                raise ValueError(
                    "data must have as many examples for every model, got "
                    f"{self.size} and {len(examples)}"
                )
            self.size = len(examples)
        for column in self.columns:
            shapes = {tuple(t.shape[1:]) for value in column.values for t in _tensors(value)}
            kinds = {type(value) for value in column.values}
            if len(kinds) > 1 or len(shapes) > 1:
                raise ValueError(
                    f"data must have the same shape for every model, got {sorted(shapes)}"
                )

    def fingerprint(self, losses: Sequence[str]) -> str:
        """A digest of all examples, of whose they are, and of what the losses are called."""
        digest = hashlib.sha256(json.dumps(list(losses)).encode())
        for column in self.columns:
            for tensor in (column.of, *(t for value in column.values for t in _tensors(value))):
                digest.update(f"{tensor.dtype}{tuple(tensor.shape)}".encode())
                digest.update(bytes_of(tensor))
        return digest.hexdigest()


def bytes_of(tensor: Tensor) -> bytes:
    """The numbers of a tensor as they lie in memory."""
    flat = tensor.detach().cpu().contiguous().flatten()
    raw: bytes = flat.view(torch.uint8).numpy().tobytes()  # NumPy knows no bfloat16
    return raw


def _tensors(value: Target) -> tuple[Tensor, ...]:
    return (value.indices, value.weights) if isinstance(value, SparseTarget) else (value,)


def _column(column: ManyColumn, models: int) -> Column:
    if not isinstance(column, list | tuple):
        return Column([column], torch.zeros(models, dtype=torch.int64))
    if len(column) != models:
        raise ValueError(
            f"data must have a set for each of the {models} models, or one tensor for all, got a "
            f"list of {len(column)}"
        )
    unique: dict[int, int] = {}
    for value in column:
        unique.setdefault(id(value), len(unique))
    values = list({id(value): value for value in column}.values())
    return Column(values, torch.tensor([unique[id(value)] for value in column]))
