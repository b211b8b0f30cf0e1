"""Words of the command line, made into what the library takes."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from wassloss._checks import check_seed
from wassloss.cli._errors import usage
from wassloss.ground.sources import read_names


def cost_scale(word: str | None) -> float | Literal["max", "median"] | None:
    """A number, or one of two words."""
    if word is None:
        return None
    if word == "max":
        return "max"
    if word == "median":
        return "median"
    try:
        return float(word)
    except ValueError:
        raise usage(f"--scale must be a number, max or median, got {word!r}.") from None


def label_list(text: str | None) -> tuple[str, ...] | None:
    """Names in a file, one a line, or separated by commas."""
    if text is None:
        return None
    if Path(text).is_file():
        return read_names(text)
    return tuple(word.strip() for word in text.split(",") if word.strip())


def checked_seed(seed: int) -> int:
    """The callback of an option ``--seed``."""
    try:
        return check_seed("seed", seed)
    except ValueError as error:
        raise usage(f"{error}.") from None


def widths(text: str | None) -> tuple[int, ...]:
    """Numbers separated by commas."""
    if not text:
        return ()
    try:
        return tuple(int(word) for word in text.split(","))
    except ValueError:
        raise usage(
            f"--hidden-layer-sizes must be numbers such as 256,128, got {text!r}."
        ) from None
