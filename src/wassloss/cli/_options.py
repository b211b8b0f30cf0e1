"""Words of the command line, made into what the library takes."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import typer

from wassloss.ground.sources import read_names


def option(text: str | None = None, *names: str, **more: Any) -> Any:
    """An option by its help, with other names than its own if there are any."""
    return typer.Option(*names, help=text, **more)


def cost_scale(word: str | None) -> float | Literal["max", "median"] | None:
    """A number, or one of two words."""
    if word is None or word == "max" or word == "median":
        return word  # type: ignore[return-value]
    try:
        return float(word)
    except ValueError:
        raise typer.BadParameter(
            f"--scale must be a number, max or median, got {word!r}."
        ) from None


def label_list(text: str | None) -> tuple[str, ...] | None:
    """Names in a file, one a line, or separated by commas."""
    if text is None:
        return None
    if Path(text).is_file():
        return read_names(text)
    return tuple(word.strip() for word in text.split(",") if word.strip())
