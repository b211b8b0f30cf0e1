"""Which tokens of a vocabulary are numbers, and their values."""

from __future__ import annotations

import operator
import re
from collections.abc import Mapping
from typing import Protocol, TypeAlias

import torch
from torch import Tensor

_BYTE = re.compile(r"<0x([0-9A-Fa-f]{2})>")  # byte fallback of SentencePiece
# After a space as GPT-2 or SentencePiece writes it, or the mark of BERT's continuations.
_NUMBER = re.compile(r"[Ġ▁ ]?(?:\#\#)?([+\-−]?(?:[0-9]+\.?[0-9]*|\.[0-9]+))")


class _HasVocabulary(Protocol):
    def get_vocab(self) -> dict[str, int]: ...


Tokenizer: TypeAlias = _HasVocabulary | Mapping[str, int] | Mapping[bytes, int]


def number_tokens(tokenizer: Tokenizer | Tensor) -> tuple[Tensor, Tensor]:
    """The numbers of a tokenizer, or of values `(vocabulary,)` that are NaN for words.

    Returns:
        Their ids, ascending, and their values, both `(numbers,)`.
    """
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
    for token, given in vocabulary.items():
        text = token.decode(errors="replace") if isinstance(token, bytes) else token
        found = _NUMBER.fullmatch(_BYTE.sub(lambda byte: chr(int(byte[1], 16)), text))
        if found is None:
            continue
        number = operator.index(given)
        if number < 0:
            raise ValueError(f"tokenizer must have ids of at least 0, got {given} for {token!r}")
        values[number] = float(found[1].replace("−", "-"))
    if not values:
        raise ValueError(
            f"tokenizer must have tokens that are numbers, got none among {len(vocabulary)}"
        )
    ids = sorted(values)
    return torch.tensor(ids), torch.tensor([values[i] for i in ids])


def _from_values(values: Tensor) -> tuple[Tensor, Tensor]:
    is_vector = values.dim() == 1 and values.is_floating_point()
    if not is_vector or bool(values.isinf().any()) or bool(values.isnan().all()):
        raise ValueError(
            "tokenizer, as values, must be a floating tensor of shape (vocabulary,), finite for "
            f"some tokens and NaN for words, got {values.dtype} of shape {tuple(values.shape)}"
        )
    ids = (~values.detach().isnan()).nonzero().squeeze(1)
    return ids, values.detach()[ids].to(torch.get_default_dtype())
