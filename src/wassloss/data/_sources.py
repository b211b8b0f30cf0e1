"""The files of a stream, as far as their footers and parts tell."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wassloss.data._layout import Layout, import_pyarrow, one_line
from wassloss.data._parts import part_name


@dataclass(frozen=True)
class Source:
    """A file of a stream: what is known of it before any row is read."""

    path: str
    metadata: Any  # parsed once: a footer of many columns takes longer than a row group
    rows: tuple[int, ...]  # of each row group, those of other parts not counted
    masks: tuple[NDArray[np.uint8], ...] | None  # bits, which rows of a group are of the part


def expanded(
    paths: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
) -> list[str | os.PathLike[str]]:
    """The files that ``paths`` names, folders opened."""
    given = [paths] if isinstance(paths, str | os.PathLike) else list(paths)
    files: list[str | os.PathLike[str]] = []
    for path in given:
        inside = sorted(Path(path).glob("*.parquet")) if Path(path).is_dir() else [path]
        if not inside:
            raise ValueError(f"paths must name Parquet files, but {os.fspath(path)} has none")
        files += inside
    if not files:
        raise ValueError("paths must name at least one file, got none")
    return files


def open_source(
    path: str | os.PathLike[str],
    label_names: tuple[str, ...] | None,
    label_column: str,
    part: str | None,
    feature_names: tuple[str, ...] | None = None,
) -> tuple[Source, Layout]:
    """A file's row groups, which rows of them are of the part, and where it keeps what."""
    pa = import_pyarrow()
    name = os.fspath(path)
    try:
        with pa.parquet.ParquetFile(name) as file:
            layout = Layout.of(file.schema_arrow, label_names, label_column, feature_names)
            _check_numbered(file.schema_arrow, layout)
            metadata = file.metadata
            groups = range(metadata.num_row_groups)
            rows = tuple(metadata.row_group(i).num_rows for i in groups)
            if sum(rows) == 0:
                raise ValueError("it has no rows")
            if not layout.has_part and part is None:
                return Source(name, metadata, rows, masks=None), layout
            if not layout.has_part:
                raise ValueError(f"it has no column 'part' to find {part!r} in")
            if part is None:
                raise ValueError("it has a column 'part': say which part to read")
            of_part = [is_part(file.read_row_group(i, ["part"]), part) for i in groups]
    except FileNotFoundError:
        raise
    except (pa.ArrowException, ValueError, OSError) as error:
        raise ValueError(f"{name} cannot be read as data: {one_line(error)}") from error
    counts = tuple(int(mask.sum()) for mask in of_part)
    return Source(name, metadata, counts, tuple(np.packbits(mask) for mask in of_part)), layout


def is_part(table: Any, part: str) -> NDArray[np.bool_]:
    """Which rows are of a part, whose name may be written in several ways."""
    wanted = part_name(part)
    same = {value: part_name(value or "") == wanted for value in table["part"].unique().to_pylist()}
    return np.array([same[value] for value in table["part"].to_pylist()], dtype=bool)


def _check_numbered(schema: Any, layout: Layout) -> None:
    """Names seen in one row group do not number the labels of the next."""
    kind = str(schema.field(layout.target_column).type)
    dense, ids = layout.target_column == "weights", "int" in kind and "string" not in kind
    if layout.label_names is None and not dense and not ids:
        raise ValueError(
            f"column {layout.target_column!r} holds names, and the file does not list them: pass "
            "label_names"
        )


def check_alike(first: Layout, other: Layout, first_path: str, path: str) -> None:
    """All files of a stream keep the same things in the same places."""
    for what in ("feature_columns", "target_column", "weighted", "label_names", "label_count"):
        if getattr(first, what) != getattr(other, what):
            raise ValueError(
                f"{path} must have the {what.replace('_', ' ')} of {first_path}, but they differ"
            )
