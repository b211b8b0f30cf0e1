"""Data sets for tests: split into parts, and in files."""

import csv
import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import torch

from wassloss.data import Dataset
from wassloss.targets import is_class_ids


def split(data: Dataset, shares: dict[str, float]) -> Dataset:
    """Assign random parts, always the same."""
    order = torch.from_numpy(np.random.default_rng(0).random(len(data)).argsort())
    sizes = [round(share * len(data)) for share in shares.values()]
    drawn = order[: sum(sizes)].split(sizes)
    parts = {name: rows.sort().values for name, rows in zip(shares, drawn, strict=True)}
    return dataclasses.replace(data, parts=parts)


def saved(data: Dataset, path: Path) -> Path:
    """Write a data set to a file, in the format of the suffix."""
    names = data.label_names or tuple(map(str, range(data.label_count)))
    features = data.feature_names or tuple(f"x{i}" for i in range(data.features.shape[1]))
    columns: dict[str, list[Any]] = dict(zip(features, data.features.T.tolist(), strict=True))
    if is_class_ids(data.target):
        columns["label"] = [names[i] for i in data.target]
    else:
        rows = data.y.toarray()
        columns["labels"] = [[names[i] for i in row.nonzero()[0]] for row in rows]
        columns["weights"] = [row[row > 0].tolist() for row in rows]
    if data.parts:
        part_of = {int(row): part for part, rows in data.parts.items() for row in rows}
        columns["part"] = [part_of.get(i, "") for i in range(len(data))]
    if data.groups is not None:
        columns["group"] = data.groups.tolist()
    if path.suffix == ".csv":
        _write_csv(columns, path)
        return path
    import pyarrow as pa
    import pyarrow.parquet

    pyarrow.parquet.write_table(pa.table(columns), path)
    return path


def _write_csv(columns: dict[str, list[Any]], path: Path) -> None:
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        for row in zip(*columns.values(), strict=True):
            writer.writerow(
                [";".join(map(str, cell)) if isinstance(cell, list) else cell for cell in row]
            )
