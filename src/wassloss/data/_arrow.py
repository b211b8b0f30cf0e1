"""pyarrow, imported when a table is read, and its errors on one line."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


def import_pyarrow() -> Any:
    """Import pyarrow with the modules that read and write tables."""
    try:
        import pyarrow
        import pyarrow.compute
        import pyarrow.csv
        import pyarrow.dataset
        import pyarrow.fs
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
