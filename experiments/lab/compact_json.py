"""Write results as JSON with rounded numbers and each list of numbers on one line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from experiments.lab.files import replacing

WIDTH = 140  # of lines; a value that fits, such as a run and its scores, is one line
EXACT = {"settings", "chosen", "case", "headline"}  # not rounded, to repeat computations


def write_json(path: Path, value: Any, *, digits: int | None = 8, allow_nan: bool = False) -> None:
    """Write compact JSON, atomically.

    Args:
        path: of the file.
        value: anything that `json.dumps` takes.
        digits: significant digits, except in settings; None for all.
        allow_nan: write numbers that are not finite, which is otherwise an error.
    """
    kept = value if digits is None else rounded(value, digits)
    text = "\n".join(_lines(kept, allow_nan)) + "\n"
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def rounded(value: Any, digits: int) -> Any:
    """Round all numbers to some significant digits, except those of settings.

    >>> rounded({"cost": [1.23456, 2], "chosen": {"rate": 0.12345}}, 3)
    {'cost': [1.23, 2], 'chosen': {'rate': 0.12345}}
    """
    if isinstance(value, float):
        return float(f"{value:.{digits}g}")
    if isinstance(value, dict):
        return {k: v if k in EXACT else rounded(v, digits) for k, v in value.items()}
    return [rounded(each, digits) for each in value] if isinstance(value, list | tuple) else value


def _lines(value: Any, allow_nan: bool, before: int = 0, depth: int = 0) -> list[str]:
    """The lines of a value, whose first one follows a key of `before` characters."""
    whole = json.dumps(value, ensure_ascii=False, allow_nan=allow_nan)
    if not isinstance(value, dict | list | tuple):
        return [whole]
    parts = value.values() if isinstance(value, dict) else value
    flat = isinstance(value, list | tuple) and not any(
        isinstance(part, dict | list | tuple) for part in parts
    )
    if flat or depth + before + len(whole) < WIDTH:  # a comma may follow
        return [whole]
    keys = [""] * len(value)
    if isinstance(value, dict):
        keys = [f"{json.dumps(str(key), ensure_ascii=False)}: " for key in value]
    lines = []
    for key, part in zip(keys, parts, strict=True):
        first, *rest = _lines(part, allow_nan, len(key), depth + 1)
        lines += [f" {key}{first}", *(f" {line}" for line in rest)]
        lines[-1] += ","
    lines[-1] = lines[-1].removesuffix(",")
    return ["{", *lines, "}"] if isinstance(value, dict) else ["[", *lines, "]"]
