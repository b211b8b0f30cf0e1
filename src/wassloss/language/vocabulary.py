"""Which tokens of a vocabulary are numbers, their values, and their place in a longer number."""

from __future__ import annotations

import operator
import re
from collections.abc import Mapping
from typing import NamedTuple, Protocol, TypeAlias

import torch
from torch import Tensor

from wassloss._checks import default_dtype

_BYTE = re.compile(r"<0x([0-9A-Fa-f]{2})>")  # byte fallback of SentencePiece
# Optionally after a space, as GPT-2 or SentencePiece write it, or BERT's mark of continuation.
_NUMBER = re.compile(
    r"(?P<space>[Ġ▁ ]?)(?:\#\#)?(?P<sign>[+\-−]?)(?P<whole>[0-9]*)(?P<point>\.?)(?P<part>[0-9]*)"
)


class _HasVocabulary(Protocol):
    def get_vocab(self) -> dict[str, int]: ...


Tokenizer: TypeAlias = _HasVocabulary | Mapping[str, int] | Mapping[bytes, int]


class NumberTokens(NamedTuple):
    """The tokens of a vocabulary that are numbers.

    `written` is the input of :func:`places`, indexed by token id: the number of digits, of digits
    after a decimal point, whether there is a point, and whether the token begins a number (after a
    space, or with a sign). Its last row stands for all tokens that are not part of a number.
    """

    ids: Tensor  # (numbers,), ascending
    values: Tensor  # (numbers,)
    written: Tensor | None = None  # (largest id + 2, 4); None where only values are known


def number_tokens(tokenizer: Tokenizer | Tensor) -> NumberTokens:
    """Find the numbers of a tokenizer, or of values `(vocabulary,)` that are NaN for words."""
    if isinstance(tokenizer, Tensor):
        return _from_values(tokenizer)
    read = getattr(tokenizer, "get_vocab", None)
    vocabulary = read() if callable(read) else tokenizer
    if not isinstance(vocabulary, Mapping):
        raise TypeError(
            "tokenizer must have get_vocab(), or be a mapping from tokens to ids or a tensor of "
            f"values, got {type(tokenizer).__name__}"
        )
    values: dict[int, float] = {}
    written: dict[int, tuple[int, int, int, int]] = {}
    for token, given in vocabulary.items():
        text = token.decode(errors="replace") if isinstance(token, bytes) else token
        found = _NUMBER.fullmatch(_BYTE.sub(lambda byte: chr(int(byte[1], 16)), text))
        if found is None:
            continue
        space, sign, whole, point, part = found.groups()
        digits = len(whole) + len(part)
        if not digits and text != ".":
            continue
        number = operator.index(given)
        if number < 0:
            raise ValueError(f"tokenizer must have ids of at least 0, got {given} for {token!r}")
        written[number] = (digits, len(part), bool(point), bool(space or sign))
        if digits:
            values[number] = float(f"{sign}{whole}{point}{part}".replace("−", "-"))
    if not values:
        raise ValueError(
            f"tokenizer must have tokens that are numbers, got none among {len(vocabulary)}"
        )
    table = torch.zeros(max(written) + 2, 4, dtype=torch.long)
    table[list(written)] = torch.tensor(list(written.values()))
    ids = sorted(values)
    return NumberTokens(
        torch.tensor(ids), torch.tensor([values[i] for i in ids], dtype=default_dtype()), table
    )


def _from_values(values: Tensor) -> NumberTokens:
    is_vector = values.dim() == 1 and values.is_floating_point()
    if not is_vector or bool(values.isinf().any()) or bool(values.isnan().all()):
        raise ValueError(
            "tokenizer, as values, must be a floating tensor of shape (vocabulary,), finite for "
            f"some tokens and NaN for words, got {values.dtype} of shape {tuple(values.shape)}"
        )
    ids = (~values.detach().isnan()).nonzero().squeeze(1)
    return NumberTokens(ids, values.detach()[ids].to(default_dtype()))


def places(ids: Tensor, written: Tensor) -> tuple[Tensor, Tensor]:
    """The place of each label in its number: the power of ten that its last digit counts.

    Consecutive digits among the labels `ids (…, sequence)` are one number: in "3 1 4 . 1 5" the
    places are 2, 1, 0, any, −1 and −2.

    Returns:
        Each label's place, and that of the first digit of its number, both `(labels,)`; arbitrary
        integers for labels that are not part of a number.
    """
    other = len(written) - 1
    known = ids.masked_fill((ids < 0) | (ids > other), other)
    digits, decimals, point, begins = written[known].unbind(-1)
    inside = (digits + point) > 0
    follows = torch.zeros_like(inside)
    follows[..., 1:] = inside[..., :-1]
    number = (inside & ~(follows & (begins == 0))).flatten().cumsum(0)
    digits, decimals, point = digits.flatten(), decimals.flatten(), point.flatten()
    last = digits.cumsum(0)  # digits up to each label, counted through the batch

    def extreme(x: Tensor, which: str, first: Tensor | None = None) -> Tensor:
        kept = x.new_zeros(len(x) + 1) if first is None else first
        return kept.scatter_reduce(0, number, x, which, include_self=first is not None)

    end = extreme(last, "amax")
    units = extreme(torch.where(point > 0, last - decimals, end[number]), "amin", end)[number]
    return units - last + decimals, units - extreme(last - digits, "amin")[number] - 1
