"""How many of our files a call passes, and how often it changes from one to another.

    python -m tests.paths

Each file is one more for a reader to open. Prints both numbers for a loss, a fit and a comparison.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import wassloss as wl

HOME = Path(wl.__file__).parent


def visited(call: Callable[[], object]) -> list[str]:
    """Return our files that a call passes, in order, one entry each time it enters another."""
    path: list[str] = []

    def note(frame: FrameType, event: str, arg: Any) -> None:
        file = Path(frame.f_code.co_filename)
        if event == "call" and HOME in file.parents:
            name = str(file.relative_to(HOME))
            if not path or path[-1] != name:
                path.append(name)

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(before)
    return path


def main() -> None:
    import torch
    from sklearn.datasets import load_iris

    X, y = load_iris(return_X_y=True)
    logits, target = torch.randn(32, 10, requires_grad=True), torch.arange(32) % 10
    loss_fn = wl.WassersteinLoss(wl.ground.Ordinal(10))
    calls: dict[str, Callable[[], object]] = {
        "WassersteinLoss, class ids": lambda: loss_fn(logits, target),
        "WassersteinLoss, dense": lambda: loss_fn(logits, torch.full((32, 10), 0.1)),
        "WassersteinClassifier().fit(iris)": lambda: wl.WassersteinClassifier().fit(X, y),
        "compare(iris)": lambda: wl.compare(X, y),
    }
    for name, call in calls.items():
        call()  # the first call imports modules and chooses evaluators
        path = visited(call)
        sys.stdout.write(f"{name}: {len(set(path))} files, {len(path)} changes of file\n")


if __name__ == "__main__":
    main()
