"""A progress bar with loss, score and time left."""

from __future__ import annotations

import sys
from typing import Any


def progress_bar(steps: int, done: int, shown: bool | None) -> Any:
    """A bar of tqdm's on standard error.

    Args:
        steps: of the whole run.
        done: of them, where a run is resumed.
        shown: True or False, or None to show it on a terminal only.
    """
    from tqdm import tqdm

    hidden = not (sys.stderr.isatty() if shown is None else shown)
    return tqdm(total=steps, initial=done, unit="step", dynamic_ncols=True, disable=hidden)


def show(bar: Any, loss: float, score: float | None) -> None:
    """Write the latest figures next to a bar."""
    figures = {"loss": f"{loss:.4g}"} | ({} if score is None else {"score": f"{score:.4g}"})
    bar.set_postfix(figures)
