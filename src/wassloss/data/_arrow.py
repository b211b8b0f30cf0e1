"""pyarrow, imported when a table is read: columns as words and numbers, errors on one line."""

from __future__ import annotations

import os
import reprlib
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from wassloss.data.labels import shown

if TYPE_CHECKING:
    import pyarrow as pa

Place = Callable[[int], str]  # where a row is in its file
ROW: Place = "row {}".format
_GAPS = ("", "NA", "N/A", "NaN", "nan", "null", "NULL", "None", "?")


class DataWarning(UserWarning):
    """Data are read in a way that their owner should know about."""


def import_pyarrow() -> Any:
    """Import pyarrow with the modules that read and write tables."""
    try:
        import pyarrow
        import pyarrow.compute
        import pyarrow.csv
        import pyarrow.parquet
    except ImportError as error:
        raise ImportError("CSV and Parquet files need pyarrow: pip install 'wassloss[data]'") from (
            error
        )
    return pyarrow


def one_line(error: BaseException) -> str:
    """The message of an error on one line."""
    return " ".join(str(error).split()) or type(error).__name__


@contextmanager
def named_errors(path: str | os.PathLike[str]) -> Iterator[None]:
    """Turn errors about a file's contents into one line that names the file."""
    try:
        yield
    except (ValueError, TypeError, KeyError, OverflowError, NotImplementedError, OSError) as error:
        if isinstance(error, OSError) and (error.errno or isinstance(error, FileNotFoundError)):
            raise
        raise ValueError(f"{os.fspath(path)} cannot be read as data: {one_line(error)}") from error


def refuse(
    bad: NDArray[np.bool_],
    name: str,
    expected: str,
    values: pa.Array,
    place: Place,
    row_of: NDArray[Any] | None = None,  # of each value, if a row may have several
) -> None:
    """Raise an error about the first value that is bad, if any is."""
    if bad.any():
        at = int(bad.argmax())
        where = place(at if row_of is None else int(row_of[at]))
        value = values[at].as_py()
        got = "nothing" if value is None else reprlib.repr(value)
        raise ValueError(f"{where}, column {name!r}: expected {expected}, got {got}")


def nulls(values: pa.Array) -> NDArray[np.bool_]:
    """Which values are missing; nothing if none is."""
    if not values.null_count:
        return np.zeros(0, dtype=bool)
    found: NDArray[np.bool_] = values.is_null().to_numpy(zero_copy_only=False)
    return found


def as_words(values: pa.Array) -> pa.Array:
    """Values of any simple type as text."""
    return values.cast(import_pyarrow().string())


def cleaned(values: pa.Array, gaps: Sequence[str] = _GAPS) -> Any:
    """Text without outer blanks, and null for words that stand for a gap; others as they are.

    Dictionaries and large strings become plain ones.
    """
    pa = import_pyarrow()
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    if not (pa.types.is_string(values.type) or pa.types.is_large_string(values.type)):
        return values
    words = pa.compute.utf8_trim_whitespace(values.cast(pa.string()))
    there = pa.compute.invert(pa.compute.is_in(words, pa.array(gaps, pa.string())))
    return pa.compute.if_else(there, words, pa.scalar(None, pa.string()))


def as_numbers(name: str, values: pa.Array, place: Place = ROW) -> NDArray[np.float64]:
    """Numbers, booleans or words that spell numbers as floats; NaN for what is missing."""
    pa = import_pyarrow()
    if pa.types.is_string(values.type):
        odd = [word is not None and not _spells(word) for word in values.to_pylist()]
        refuse(np.array(odd), name, "a number", values, place)
    elif not (is_number(values.type) or pa.types.is_null(values.type)):
        raise ValueError(f"column {name!r} must hold numbers, got {values.type}")
    if not pa.types.is_float16(values.type):  # which pyarrow does not convert
        values = values.cast(pa.float64(), safe=False)
    found: NDArray[np.float64] = values.to_numpy(zero_copy_only=False).astype(np.float64)
    return found


def _spells(word: str) -> bool:
    """Whether a word spells a number."""
    try:
        float(word)
    except ValueError:
        return False
    return True


def is_number(kind: pa.DataType) -> bool:
    """Whether values of a type are numbers or booleans."""
    types = import_pyarrow().types
    tests = (types.is_boolean, types.is_integer, types.is_floating, types.is_decimal)
    return any(test(kind) for test in tests)


def listed(names: Sequence[str]) -> str:
    """Names of columns for a message: ``the columns 'age', 'height'``."""
    return f"the column{'' if len(names) == 1 else 's'} {shown(names, 10)}"


def whole(column: pa.ChunkedArray) -> pa.Array:
    """A column as one array."""
    pa, one = import_pyarrow(), column.combine_chunks()
    if isinstance(one, pa.ChunkedArray):  # depends on pyarrow's version
        return pa.concat_arrays(one.chunks)
    return one


def warn(message: str) -> None:
    """Tell the owner of data how they are read."""
    warnings.warn(message, DataWarning, stacklevel=3)
