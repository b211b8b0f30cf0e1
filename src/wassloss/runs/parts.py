"""Which parts of the data a run uses: what it cannot do without, and what it leaves aside."""

from __future__ import annotations

import warnings
from collections.abc import Iterable

from wassloss.data._parts import KNOWN_PARTS


def check_trainable(parts: Iterable[str]) -> None:
    """Refuse parts of which none is to be trained on: everything would be, held out or not."""
    found = list(parts)
    if found and "train" not in found:
        raise ValueError(
            f"data with parts must have a part named train, got {', '.join(found)}: rename one of "
            "them, or leave parts out to train on everything"
        )


def warn_of_unused(parts: Iterable[str]) -> None:
    """Name the parts that a run neither trains on, nor watches, nor scores."""
    unused = [name for name in parts if name not in KNOWN_PARTS]
    if unused:
        subject = "part" if len(unused) == 1 else "parts"
        verb = "is" if len(unused) == 1 else "are"
        warnings.warn(
            f"the {subject} {', '.join(unused)} {verb} not used: train is trained on, validation "
            "watched, test scored",
            stacklevel=3,
        )
