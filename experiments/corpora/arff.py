"""Read ARFF files, dense or sparse, with numeric and two-valued attributes."""

from __future__ import annotations

import math
import os
import re
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from experiments.corpora.lookup import read_bytes

_ATTRIBUTE = re.compile(r"@attribute\s+('(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|\S+)\s+(.+)", re.I)
_NUMERIC = ("numeric", "real", "integer")
_LARGEST = float(np.finfo(np.float32).max)


class Arff(NamedTuple):
    """Names of the attributes, and a sparse matrix of their values."""

    names: tuple[str, ...]
    values: sparse.csr_array  # (rows, attributes)


def read_arff(path: str | os.PathLike[str]) -> Arff:
    """Read an ARFF file, gzipped or not.

    Attributes are numeric or categorical. Categories are numbers, which keep their value, or any
    two words, which become 0 and 1. Values that a sparse row omits are 0 for numbers and otherwise,
    as in Weka, the first category.

    Raises:
        ValueError: the file is not valid; the message names it and the line.
    """
    try:
        text = read_bytes(path).decode("utf-8", errors="strict")
    except UnicodeDecodeError as error:
        raise ValueError(f"{os.fspath(path)} is not UTF-8 text: {error}") from error
    names: list[str] = []
    kinds: list[dict[str, float] | None] = []
    parsed: _Rows | None = None
    lines = text.splitlines()
    line = 0
    try:
        while line < len(lines):
            words = lines[line].strip()
            line += 1
            if not words or words.startswith("%"):
                continue
            if parsed is not None:
                parsed.add(words)
            elif words.lower().startswith("@attribute"):
                name, kind = _attribute(words)
                names.append(name)
                kinds.append(kind)
            elif words.lower() == "@data":
                parsed = _Rows(kinds)
            elif not words.lower().startswith("@relation"):
                raise ValueError(f"expected @attribute or @data, got {words[:40]!r}")
    except ValueError as error:
        raise ValueError(f"{os.fspath(path)}, line {line}: {error}") from error
    if parsed is None or not parsed.count:
        raise ValueError(f"{os.fspath(path)} has no data: it ends before a row after @data")
    return Arff(tuple(names), parsed.matrix())


class _Rows:
    """Rows read so far, without zeros."""

    def __init__(self, kinds: list[dict[str, float] | None]) -> None:
        self._kinds = kinds
        # An attribute whose first category is not 0 has a value even where a sparse row omits it.
        first = (0.0 if kind is None else next(iter(kind.values())) for kind in kinds)
        self._omitted = {i: value for i, value in enumerate(first) if value}
        self._columns: list[int] = []
        self._values: list[float] = []
        self._ends = [0]

    @property
    def count(self) -> int:
        return len(self._ends) - 1

    def add(self, words: str) -> None:
        pairs = self._sparse(words) if words.startswith("{") else self._dense(words)
        self._columns += pairs.keys()
        self._values += pairs.values()
        self._ends.append(len(self._columns))

    def matrix(self) -> sparse.csr_array:
        values: NDArray[np.float32] = np.array(self._values, dtype=np.float32)
        shape = (self.count, len(self._kinds))
        rows = sparse.csr_array(
            (values, np.array(self._columns), np.array(self._ends)), shape=shape
        )
        rows.eliminate_zeros()
        rows.sort_indices()
        return rows

    def _sparse(self, words: str) -> dict[int, float]:
        if not words.endswith("}"):
            raise ValueError("expected a closing }, the row is cut short")
        row = dict(self._omitted)
        inside = words[1:-1].strip()
        seen = set()
        for pair in inside.split(",") if inside else []:
            index, _, value = pair.strip().partition(" ")
            if not index.isdecimal() or int(index) >= len(self._kinds):
                raise ValueError(
                    f"expected an attribute number below {len(self._kinds)}, got {index!r}"
                )
            if index in seen:
                raise ValueError(f"attribute {index} occurs twice")
            seen.add(index)
            row[int(index)] = self._value(int(index), value.strip())
        return row

    def _dense(self, words: str) -> dict[int, float]:
        given = words.split(",")
        if len(given) != len(self._kinds):
            raise ValueError(
                f"expected {len(self._kinds)} values, one for each attribute, got {len(given)}"
            )
        values = {i: self._value(i, word.strip()) for i, word in enumerate(given)}
        return {i: value for i, value in values.items() if value}

    def _value(self, index: int, word: str) -> float:
        kind = self._kinds[index]
        if kind is None:
            try:
                value = float(word)
            except ValueError:
                missing = " (a missing value)" if word == "?" else ""
                raise ValueError(
                    f"attribute {index}: expected a number, got {word!r}{missing}"
                ) from None
            if _LARGEST < abs(value) < math.inf:
                raise ValueError(
                    f"attribute {index}: expected a number that fits float32, got {word!r}"
                )
            return value
        word = _unquoted(word)
        if word not in kind:
            raise ValueError(f"attribute {index}: expected one of {', '.join(kind)}, got {word!r}")
        return kind[word]


def _attribute(words: str) -> tuple[str, dict[str, float] | None]:
    match = _ATTRIBUTE.fullmatch(words)
    if match is None:
        raise ValueError(f"expected @attribute NAME TYPE, got {words[:40]!r}")
    name, kind = _unquoted(match[1]), match[2].strip()
    if kind.lower() in _NUMERIC:
        return name, None
    if not (kind.startswith("{") and kind.endswith("}")):
        raise ValueError(f"attribute {name!r} must be numeric or have categories, got {kind!r}")
    categories = [_unquoted(word.strip()) for word in kind[1:-1].split(",")]
    try:
        return name, {category: float(category) for category in categories}
    except ValueError:
        if len(categories) != 2:
            raise ValueError(
                f"attribute {name!r} must be numeric or have two categories, got {len(categories)}"
            ) from None
        return name, {category: float(i) for i, category in enumerate(categories)}


def _unquoted(word: str) -> str:
    if len(word) >= 2 and word[0] == word[-1] and word[0] in "'\"":
        return re.sub(r"\\(.)", r"\1", word[1:-1])
    return word
