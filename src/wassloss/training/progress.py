"""A progress bar with loss, score and time left."""

from __future__ import annotations

import sys
from typing import Any


class ProgressBar:
    """A bar on standard error, or nothing where that is no terminal.

    Args:
        iterations: of the whole run.
        done: of them, where a run is resumed.
        shown: True or False, or None to show it on a terminal only.
    """

    def __init__(self, iterations: int, done: int, shown: bool | None) -> None:
        self._bar: Any = None
        if shown or (shown is None and sys.stderr.isatty()):
            from tqdm import tqdm

            self._bar = tqdm(total=iterations, initial=done, unit="step", dynamic_ncols=True)

    def advance(self, steps: int) -> None:
        if self._bar is not None:
            self._bar.update(steps)

    def show(self, loss: float, score: float | None) -> None:
        if self._bar is not None:
            figures = {"loss": f"{loss:.4g}"}
            if score is not None:
                figures["score"] = f"{score:.4g}"
            self._bar.set_postfix(figures)

    def __enter__(self) -> ProgressBar:
        return self

    def __exit__(self, *exception: object) -> None:
        if self._bar is not None:
            self._bar.close()
