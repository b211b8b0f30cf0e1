"""Questions in text whose answer is a number: sums, products, and a regression.

Numbers are written with leading zeros, so that all texts of a task have the same length. A token is
a digit, or a group of three digits, as in the vocabularies of recent language models.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

ANSWER = 6  # digits

Integers = NDArray[np.int64]


@dataclass(frozen=True)
class Texts:
    """Questions and answers as tokens.

    Attributes:
        vocabulary: ids by token, numbers first, in order.
        ids: of train, validation and test texts together, `(texts, length)`; answers come last.
        numbers: values of the answers, `(texts,)`.
        width: digits per token.
    """

    vocabulary: dict[str, int]
    ids: Integers
    numbers: Integers
    width: int

    @property
    def answer(self) -> int:
        """Number of tokens in an answer."""
        return ANSWER // self.width

    def value(self, answers: Integers) -> Integers:
        """Return the numbers that answers `(…, tokens)` encode."""
        places = 10 ** (self.width * np.arange(self.answer)[::-1])
        said: Integers = answers @ places
        return said


def texts(task: str, count: int, width: int, seed: int = 0) -> Texts:
    """Return distinct questions of a task, in random order.

    >>> found = texts("product", 3, 3)
    >>> words = {index: token for token, index in found.vocabulary.items()}
    >>> " ".join(words[i] for i in found.ids[0]), int(found.numbers[0])
    ('075 * 016 = 001 200', 1200)
    """
    draw, symbol, digits = TASKS[task]
    rng = np.random.default_rng(seed)
    asked, numbers = draw(rng, 2 * count)
    _, first = np.unique(asked, axis=0, return_index=True)
    rows = rng.permutation(np.sort(first))[:count]
    if len(rows) < count:
        raise ValueError(f"count must leave texts different, got {count} for {task!r}")
    tokens = [f"{i:0{width}}" for i in range(10**width)] + ["+", "*", ";", "="]
    vocabulary = {token: index for index, token in enumerate(tokens)}
    parts: list[Integers] = []
    for place in range(asked.shape[1]):
        sign = symbol if place < asked.shape[1] - 1 else "="
        parts += [_written(asked[rows, place], digits, width)]
        parts += [np.full((count, 1), vocabulary[sign])]
    parts += [_written(numbers[rows], ANSWER, width)]
    return Texts(vocabulary, np.concatenate(parts, 1), numbers[rows], width)


def _written(numbers: Integers, digits: int, width: int) -> Integers:
    places = 10 ** (width * np.arange(digits // width)[::-1])
    written: Integers = (numbers[:, None] // places) % 10**width
    return written


def _sums(rng: np.random.Generator, count: int) -> tuple[Integers, Integers]:
    asked = rng.integers(0, 500_000, (count, 2))
    return asked, asked.sum(1)


def _products(rng: np.random.Generator, count: int) -> tuple[Integers, Integers]:
    asked = rng.integers(0, 1000, (count, 2))
    return asked, asked.prod(1)


def _friedman(rng: np.random.Generator, count: int) -> tuple[Integers, Integers]:
    """Friedman's first function (1991) with noise of variance 1, in units of 1/10 000."""
    asked = rng.integers(0, 1000, (count, 5))
    a, b, c, d, e = asked.T / 1000
    y = 10 * np.sin(np.pi * a * b) + 20 * (c - 0.5) ** 2 + 10 * d + 5 * e + rng.normal(size=count)
    return asked, (1e4 * y).clip(0, 10**ANSWER - 1).astype(np.int64)


# For each task, how to draw questions and answers, the separators of numbers, and their digits.
TASKS: dict[
    str, tuple[Callable[[np.random.Generator, int], tuple[Integers, Integers]], str, int]
] = {
    "sum": (_sums, "+", 6),
    "product": (_products, "*", 3),
    "regression": (_friedman, ";", 3),
}
