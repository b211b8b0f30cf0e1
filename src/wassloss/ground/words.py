"""Parse sets of labels: names, lists of names, intervals."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from wassloss.sets import SetTarget

Range = tuple[int, int]  # places of the first and the last label, inclusive
Bound = tuple[float, bool]  # an end of an interval, and whether it is inclusive

IGNORED = -100  # default ignore_index of losses
_BELOW = {"<": False, "<=": True, "≤": True}
_ABOVE = {">": False, ">=": True, "≥": True}
_COMPARED = re.compile(r"\s*(<=|>=|<|>|≤|≥)\s*(.+?)\s*")
_BETWEEN = re.compile(r"\s*(.+?)\s*\.\.\s*(.+?)\s*")
_NUMBERS = re.compile(r"\s*(-?[\d.]+)\s*-\s*(-?[\d.]+)\s*")


def read_sets(
    sets: Iterable[Any],
    size: int,
    order: Tensor | None,
    ranges_of: Callable[[Any], list[Range]],
    device: torch.device,
) -> SetTarget:
    """Parse the sets of :meth:`GroundMetric.target`; `ranges_of` parses one word or number.

    The result holds ranges of `order` if every set is one, otherwise lists of labels.
    """
    if isinstance(sets, str):
        raise TypeError(f"sets must be a list with an entry per example, got {sets!r}")
    known: dict[Any, list[Range]] = {}  # cache: the same words recur in a column
    found: list[list[Range]] = []
    for b, entry in enumerate(sets):
        try:
            if isinstance(entry, str) and entry in known:
                found.append(known[entry])
                continue
            found.append(_ranges(entry, ranges_of))
        except (ValueError, TypeError) as error:
            raise type(error)(f"sets[{b}]: {error}") from None
        if isinstance(entry, str):
            known[entry] = found[-1]
    if all(len(ranges) == 1 for ranges in found):
        ends = torch.tensor([ranges[0] for ranges in found], dtype=torch.long).reshape(-1, 2)
        made = SetTarget.from_ranges(ends[:, 0], ends[:, 1]).to(device)
        return made if order is None else SetTarget.from_ranges(made.first, made.last, order)
    labels = np.arange(size) if order is None else order.cpu().numpy()
    return SetTarget([_labels(ranges, labels) for ranges in found]).to(device)


def _ranges(entry: Any, ranges_of: Callable[[Any], list[Range]]) -> list[Range]:
    """Parse one set to disjoint, non-adjacent ranges in increasing order."""
    if entry is None or (isinstance(entry, float) and math.isnan(entry)):
        return [(IGNORED, IGNORED)]
    words = _words(entry, ranges_of)
    if not words:
        raise ValueError("a set must hold at least one label, got none")
    joined: list[Range] = []
    for first, last in sorted(words):
        if joined and first <= joined[-1][1] + 1:
            joined[-1] = joined[-1][0], max(last, joined[-1][1])
        else:
            joined.append((first, last))
    return joined


def _words(entry: Any, ranges_of: Callable[[Any], list[Range]]) -> list[Range]:
    if isinstance(entry, str):
        try:
            return ranges_of(entry)
        except ValueError:
            if "|" not in entry:
                raise
        return [found for word in entry.split("|") for found in ranges_of(word.strip())]
    if isinstance(entry, Tensor):
        entry = entry.tolist()
    if isinstance(entry, Iterable):
        return [found for each in entry for found in _words(each, ranges_of)]
    return ranges_of(entry)


def _labels(ranges: list[Range], labels: Any) -> Any:
    if ranges == [(IGNORED, IGNORED)]:
        return np.array([IGNORED])
    return np.concatenate([labels[first : last + 1] for first, last in ranges])


def read_interval(word: str, value: Callable[[str], float | None]) -> tuple[Bound, Bound] | None:
    """Parse an interval such as `3`, `3..5`, `3-5`, `>=4` or `<2`; None for any other word.

    `value` returns a word's value on the line, or None if it has no value.

    >>> read_interval(">=4", float)
    ((4.0, True), (inf, True))
    """
    if (compared := _COMPARED.fullmatch(word)) and (at := value(compared[2])) is not None:
        sign = compared[1]
        if sign in _ABOVE:
            return (at, _ABOVE[sign]), (math.inf, True)
        return (-math.inf, True), (at, _BELOW[sign])
    for pattern in (_BETWEEN, _NUMBERS):
        if between := pattern.fullmatch(word):
            low, high = value(between[1]), value(between[2])
            if low is not None and high is not None:
                if low > high:
                    raise ValueError(f"an interval must not end before it starts, got {word!r}")
                return (low, True), (high, True)
    at = value(word.strip())
    return None if at is None else ((at, True), (at, True))
