"""Format measured figures, and mark rows that missed their tolerance."""

from __future__ import annotations

import math
import statistics
from typing import Any


def mark(row: dict[str, Any], case: dict[str, Any]) -> str:
    """Return the mark of a row, empty if it reached the tolerance; NaN counts as not reached."""
    error, tol = row["error"], case["tol"]
    if error is None or error <= tol:
        return ""
    return " ‡" if error <= tol * math.sqrt(case["labels"]) else " †"


def duration(seconds: float) -> str:
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= size:
            return f"{_digits(seconds / size)} {unit}"
    return f"{_digits(seconds / 1e-6)} µs"


def _digits(x: float) -> str:
    return f"{x:.0f}" if x >= 100 else f"{x:.1f}" if x >= 10 else f"{x:.2f}"


def ratio(x: float) -> str:
    return "" if math.isnan(x) else f"{x:,.0f}" if x >= 10 else f"{x:.1f}" if x >= 2 else f"{x:.2f}"


def median(row: dict[str, Any]) -> float:
    return statistics.median(row["seconds"]) if row["seconds"] else math.nan


def number(x: float) -> str:
    """Format with two significant digits, the precision of timings."""
    return f"{float(f'{x:.2g}'):,.0f}" if x >= 10 else f"{x:.2g}"
