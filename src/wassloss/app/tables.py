"""Tables from CSV files, Parquet files, folders of Parquet files, and data frames."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wassloss.app._messages import check_columns, named_errors
from wassloss.app.csv_files import line_of, read_csv

if TYPE_CHECKING:
    import pandas as pd

    from wassloss.ground import GroundMetric

_SUFFIXES = (".csv", ".parquet", ".pq")
Place = Callable[[int], str]
ROW: Place = "row {}".format


@dataclass(frozen=True, eq=False)
class Table:
    """A pandas data frame and its source.

    Attributes:
        frame: the columns, named by strings; those of a CSV file hold text.
        source: the name to show in messages.
        place: describes the place of a row, such as ``"line 7"``.
        metric, group: the ground metric and the group column of a built-in table.
    """

    frame: pd.DataFrame = field(repr=False)
    source: str
    place: Place = field(default=ROW, repr=False)
    metric: GroundMetric | None = field(default=None, repr=False)
    group: str | None = field(default=None, repr=False)

    @classmethod
    def of(cls, frame: Any, source: str = "X") -> Table:
        """Wrap a data frame of pandas, or of a library that converts to pandas, such as polars."""
        if hasattr(frame, "to_pandas"):
            frame = frame.to_pandas()
        frame = frame.reset_index(drop=True)
        frame.columns = frame.columns.map(str)
        if not frame.columns.is_unique:
            twice = frame.columns[frame.columns.duplicated()][0]
            raise ValueError(f"{source} must have unique column names, got {twice!r} twice")
        return cls(frame, source)

    def __len__(self) -> int:
        return len(self.frame)


def is_frame(X: Any) -> bool:
    """Whether `X` is a data frame."""
    return hasattr(X, "columns") and hasattr(X, "to_numpy")


def read_table(path: str | os.PathLike[str]) -> Table:
    r"""Read a table from a file.

    Args:
        path: a ``.csv`` or ``.parquet`` file; a folder of Parquet files, read as one table; or
            ``"clipart"``, the built-in drawings.

    Raises:
        ValueError: the file cannot be read as a table.
        FileNotFoundError: the file does not exist.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "pets.csv")
    ...     _ = path.write_text("weight,fur,label\n4.1,long,cat\n31,,dog\n")
    ...     table = read_table(path)
    >>> table.frame.loc[0].tolist()
    ['4.1', 'long', 'cat']
    """
    if path == "clipart":
        return _clipart()
    place = Path(path)
    with named_errors(path):
        if not place.is_dir() and place.suffix.lower() not in _SUFFIXES:
            raise ValueError(f"its name must end in one of {', '.join(_SUFFIXES)}")
        os.stat(path)  # a clearer error for a missing file than the reader's
        if place.suffix.lower() == ".csv":
            return Table(read_csv(path), str(path), partial(line_of, path))
        found = Table.of(_read_parquet(place), str(path))
        if not len(found):
            raise ValueError("it has no rows")
        return found


def _read_parquet(path: Path) -> pd.DataFrame:
    """Read a file, or all files of a folder, which must have the same columns and kinds."""
    import pandas as pd

    files = sorted(path.glob("*.parquet")) if path.is_dir() else [path]
    if not files:
        raise ValueError("it is a folder without Parquet files")
    frames: list[pd.DataFrame] = []
    for file in files:
        with nullcontext() if file == path else named_errors(file):
            frame = pd.read_parquet(file, dtype_backend="numpy_nullable", partitioning=None)
            frame = frame.loc[:, [not _is_index(name) for name in frame.columns]]
            if frames:
                check_columns(list(map(str, frame.columns)), list(map(str, frames[0].columns)))
                frame = frame[frames[0].columns]
                _check_kinds(frame, frames[0])
            frames.append(frame)
    return pd.concat(frames, ignore_index=True) if len(frames) > 1 else frames[0]


def _is_index(name: Any) -> bool:
    return str(name).startswith("__index_level_")  # pandas' name for a saved index


def _check_kinds(frame: pd.DataFrame, first: pd.DataFrame) -> None:
    """Refuse a column that is numeric in one file and something else in another."""
    for name in first.columns:
        kinds = [part[name].dtype for part in (first, frame) if part[name].notna().any()]
        if len({"number" if kind.kind in "iuf" else kind.kind for kind in kinds}) > 1:
            raise ValueError(
                f"column {str(name)!r} must hold {kinds[0]}, as in the first file, got {kinds[1]}"
            )


def _clipart() -> Table:
    """The built-in drawings as a table with features, lists of labels, parts and groups."""
    import pandas as pd

    from wassloss.datasets import load_clipart

    data = load_clipart()
    frame = pd.DataFrame(data.data.numpy(), columns=[f"x{i}" for i in range(data.data.shape[1])])
    used = data.target.weights > 0
    pairs = zip(data.target.indices, used, strict=True)
    more = {
        "labels": [[data.target_names[i] for i in ids[own]] for ids, own in pairs],
        "part": pd.Series("test", frame.index).where(frame.index.isin(data.test.numpy()), "train"),
        "group": data.groups.numpy(),
    }
    return Table(frame.assign(**more), "clipart", metric=data.metric, group="group")
