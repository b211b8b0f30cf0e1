"""Validate arguments; each error names the argument, what was expected and what was passed."""

from __future__ import annotations

import math
import operator
from typing import Any


def check_count(name: str, value: Any) -> int:
    """Return a whole number of at least 1."""
    number = _integer(name, value)
    if number < 1:
        raise ValueError(f"{name} must be at least 1, got {value}")
    return number


def check_seed(name: str, value: Any) -> int:
    """Return a seed that both NumPy and torch accept."""
    number = _integer(name, value)
    if not 0 <= number < 2**63:
        raise ValueError(f"{name} must be in 0..2**63 - 1, got {value}")
    return number


def check_strength(name: str, value: Any) -> float:
    """Return a finite number of at least 0."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise TypeError(f"{name} must be a number, got {value!r}") from None
    if not 0 <= number < math.inf:
        raise ValueError(f"{name} must be finite and at least 0, got {value}")
    return number


def _integer(name: str, value: Any) -> int:
    try:
        if isinstance(value, bool):
            raise TypeError
        return operator.index(value)
    except TypeError:
        raise TypeError(f"{name} must be an integer, got {value!r}") from None
