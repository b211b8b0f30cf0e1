"""Warnings and one-line errors about files and columns."""

from __future__ import annotations

import os
import sys
import warnings
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from difflib import get_close_matches

_WRONG = (ValueError, TypeError, KeyError, OverflowError, NotImplementedError, OSError)
_CUT_SHORT = (EOFError, zlib.error)  # raised for truncated compressed files
_OURS = os.path.dirname(__file__)


class DataWarning(UserWarning):
    """Warning about how data were read."""


def warn(message: str) -> None:
    """Issue a `DataWarning` at the line that called the application."""
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_OURS):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, DataWarning, stacklevel=level)


@contextmanager
def named_errors(path: str | os.PathLike[str], what: str = "data") -> Iterator[None]:
    """Turn errors about the content of a file into one line that names the file."""
    try:
        yield
    except (*_WRONG, *_CUT_SHORT) as error:
        if isinstance(error, OSError) and (error.errno or isinstance(error, FileNotFoundError)):
            raise
        reason = " ".join(str(error).split()) or type(error).__name__
        raise ValueError(f"{os.fspath(path)} cannot be read as {what}: {reason}") from error


def check_columns(found: Sequence[str], wanted: Sequence[str]) -> None:
    """Refuse a table without all `wanted` columns."""
    known = set(found)
    missing = [name for name in wanted if name not in known]
    if missing:
        near = get_close_matches(missing[0], found, 1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise ValueError(f"it lacks {columns(missing)}; it has {shown(found, 10)}{hint}")


def columns(names: Sequence[str]) -> str:
    """Column names for a message: ``the columns 'age', 'height'``."""
    return f"the column{'' if len(names) == 1 else 's'} {shown(names, 10)}"


def shown(names: Sequence[object], most: int = 6) -> str:
    """The first few names, quoted."""
    quoted = [repr(str(name)) for name in names[:most]]
    return ", ".join([*quoted, "…"] if len(names) > most else quoted)


def check_choice(name: str, value: object, choices: Sequence[str]) -> None:
    """Refuse an argument that is not one of the choices."""
    if value not in choices:
        raise ValueError(f"{name} must be one of {', '.join(choices)}, got {value!r}")
