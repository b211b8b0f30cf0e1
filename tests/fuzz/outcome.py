"""How a call may end: with an answer, a warning and an answer, or an error naming an argument."""

import traceback
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hypothesis import event

import wassloss as wl

SOURCES = Path(wl.__file__).parent


@dataclass(frozen=True)
class Outcome:
    """The result of a call."""

    answer: Any = None  # None if it was refused
    refusal: str = ""
    doubtful: bool = False  # with a ConvergenceWarning


def outcome(call: Callable[[], Any]) -> Outcome:
    """Make the call; undocumented errors and warnings are raised."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("error")
        warnings.simplefilter("always", wl.ConvergenceWarning)
        try:
            answer = call()
        except (ValueError, TypeError) as error:
            # Documented errors are raised by wassloss; those of torch or NumPy are bugs.
            raised_in = Path(traceback.extract_tb(error.__traceback__)[-1].filename)
            if SOURCES not in raised_in.parents:
                raise
            event("refused: " + str(error).split(" must ")[0])
            return Outcome(refusal=str(error))
    event("answered, with a warning" if caught else "answered")
    return Outcome(answer, doubtful=bool(caught))


# Messages that are allowed for valid problems that overflow a dtype.
TOO_MUCH = (
    "metric must have finite costs",
    "must give a transport cost that",
    "must be a number that torch.float32 can hold",
    "must be a number that torch.float32 can divide by",
)


def too_much(refusal: str) -> bool:
    return any(words in refusal for words in TOO_MUCH)
