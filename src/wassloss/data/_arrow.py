"""Columns of tables, with where each value is; pyarrow is imported when a table is read."""

from __future__ import annotations

import os
import reprlib
import warnings
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from wassloss.data.labels import shown

if TYPE_CHECKING:
    import pyarrow as pa

Place = Callable[[int], str]  # where a row is in its file
ROW: Place = "row {}".format
_WRONG = (ValueError, TypeError, KeyError, OverflowError, NotImplementedError, OSError)
_CUT_SHORT = (EOFError, zlib.error)  # of compressed files
GAPS = ("", "-", "?", "NA", "N/A", "n/a", "#N/A", "<NA>", "NaN", "nan", "null", "NULL", "None")


class DataWarning(UserWarning):
    """Data are read in a way that their owner should know about."""


def import_pyarrow() -> Any:
    """Import pyarrow with the modules that read and write tables."""
    try:
        import pyarrow
        import pyarrow.compute
        import pyarrow.csv
        import pyarrow.dataset
        import pyarrow.parquet
    except ImportError as error:
        raise ImportError("CSV and Parquet files need pyarrow: pip install 'wassloss[data]'") from (
            error
        )
    return pyarrow


@dataclass(frozen=True)
class Values:
    """A column of a table, or what its lists hold; errors name the row, the column, the value.

    Attributes:
        name: of the column.
        array: text without outer blanks, and null for a gap; others as they are.
        place: where each value is.
    """

    name: str
    array: pa.Array
    place: Place

    @classmethod
    def of(
        cls, table: pa.Table, name: str, place: Place = ROW, gaps: Sequence[str] = GAPS
    ) -> Values:
        """A column as one array; `gaps` are the words that stand for one."""
        pa, column = import_pyarrow(), table[name].combine_chunks()
        if isinstance(column, pa.ChunkedArray):  # depends on pyarrow's version
            column = pa.concat_arrays(column.chunks)
        return cls(name, _cleaned(column, gaps), place)

    @property
    def is_number(self) -> bool:
        """Whether these are numbers or booleans."""
        types = import_pyarrow().types
        tests = (types.is_boolean, types.is_integer, types.is_floating, types.is_decimal)
        return any(test(self.array.type) for test in tests)

    @property
    def is_list(self) -> bool:
        """Whether these are lists, of any or one length."""
        types = import_pyarrow().types
        tests = (types.is_list, types.is_large_list, types.is_fixed_size_list)
        return any(test(self.array.type) for test in tests)

    @property
    def missing(self) -> NDArray[np.bool_]:
        """Which values are null."""
        found: NDArray[np.bool_] = self.array.is_null().to_numpy(zero_copy_only=False)
        return found

    def refuse(self, bad: NDArray[np.bool_], expected: str) -> None:
        """Raise an error about the first value that is bad, if any is."""
        if bad.any():
            at = int(bad.argmax())
            value = self.array[at].as_py()
            got = "nothing" if value is None else reprlib.repr(value)
            raise ValueError(
                f"{self.place(at)}, column {self.name!r}: expected {expected}, got {got}"
            )

    def words(self) -> pa.Array:
        """Values of any simple type as text."""
        return self.array.cast(import_pyarrow().string())

    def numbers(self) -> NDArray[np.float64]:
        """Numbers, booleans or words that spell numbers as floats; NaN for what is missing."""
        pa, values = import_pyarrow(), self.array
        if pa.types.is_string(self.array.type):
            odd = [word is not None and not _spells(word) for word in values.to_pylist()]
            self.refuse(np.array(odd), "a number")
        elif not (self.is_number or pa.types.is_null(self.array.type)):
            raise ValueError(f"column {self.name!r} must hold numbers, got {self.array.type}")
        if not pa.types.is_float16(self.array.type):  # which pyarrow does not convert
            values = values.cast(pa.float64(), safe=False)
        found: NDArray[np.float64] = values.to_numpy(zero_copy_only=False).astype(np.float64)
        return found

    def flat(self) -> tuple[NDArray[Any], Values]:
        """How many values each list has, and all of them one after another."""
        counts = import_pyarrow().compute.list_value_length(self.array).to_numpy()
        row_of = np.repeat(np.arange(len(counts)), counts)
        each = _cleaned(self.array.flatten(), ("",))
        return counts, Values(self.name, each, lambda i: self.place(int(row_of[i])))


def _cleaned(values: pa.Array, gaps: Sequence[str]) -> Any:
    """Text without outer blanks and gaps, also of dictionaries; others as they are."""
    pa = import_pyarrow()
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    if not (pa.types.is_string(values.type) or pa.types.is_large_string(values.type)):
        return values
    words = pa.compute.utf8_trim_whitespace(values.cast(pa.string()))
    there = pa.compute.invert(pa.compute.is_in(words, pa.array(gaps, pa.string())))
    return pa.compute.if_else(there, words, pa.scalar(None, pa.string()))


def _spells(word: str) -> bool:
    """Whether a word spells a number, also one with leading zeros."""
    try:
        float(word)
    except ValueError:
        return False
    return True


@contextmanager
def named_errors(path: str | os.PathLike[str], what: str = "data") -> Iterator[None]:
    """Turn errors about a file's contents into one line that names the file."""
    try:
        yield
    except (*_WRONG, *_CUT_SHORT) as error:
        if isinstance(error, OSError) and (error.errno or isinstance(error, FileNotFoundError)):
            raise
        reason = " ".join(str(error).split()) or type(error).__name__
        raise ValueError(f"{os.fspath(path)} cannot be read as {what}: {reason}") from error


def check_columns(found: Sequence[str], wanted: Sequence[str]) -> None:
    """Refuse a table that lacks columns; the error names them."""
    known = set(found)
    missing = [name for name in wanted if name not in known]
    if missing:
        near = get_close_matches(missing[0], found, 1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise ValueError(f"it lacks {listed(missing)}; it has {shown(found, 10)}{hint}")


def listed(names: Sequence[str]) -> str:
    """Names of columns for a message: ``the columns 'age', 'height'``."""
    return f"the column{'' if len(names) == 1 else 's'} {shown(names, 10)}"


def warn(message: str) -> None:
    """Tell the owner of data how they are read."""
    warnings.warn(message, DataWarning, stacklevel=3)
