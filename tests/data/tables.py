"""Data sets for tests: divided into parts, and in files."""

import csv
import dataclasses
from pathlib import Path

import numpy as np
import torch

from wassloss.data import Dataset, write
from wassloss.data.ragged import as_sparse
from wassloss.targets import is_class_ids


def split(data: Dataset, shares: dict[str, float]) -> Dataset:
    """Parts drawn at random, always the same."""
    order = torch.from_numpy(np.random.default_rng(0).random(len(data)).argsort())
    sizes = [round(share * len(data)) for share in shares.values()]
    drawn = order[: sum(sizes)].split(sizes)
    parts = {name: rows.sort().values for name, rows in zip(shares, drawn, strict=True)}
    return dataclasses.replace(data, parts=parts)


def saved(data: Dataset, path: Path) -> Path:
    """A data set in a file, in the format that the suffix says."""
    if path.suffix != ".csv":
        write(data, path)
        return path
    names = data.label_names or tuple(map(str, range(data.label_count)))
    features = data.feature_names or tuple(f"x{i}" for i in range(data.features.shape[1]))
    target = as_sparse(data.target, data.label_count)
    part_of = {int(row): part for part, rows in data.parts.items() for row in rows}
    header = [*features, *(["label"] if is_class_ids(data.target) else ["labels", "weights"])]
    rows = []
    for i, own in enumerate(data.features.tolist()):
        used = target.weights[i] > 0
        row = [*own, ";".join(names[label] for label in target.indices[i][used])]
        if not is_class_ids(data.target):
            row.append(";".join(map(str, target.weights[i][used].tolist())))
        row += [part_of.get(i, "")] if data.parts else []
        row += [int(data.groups[i])] if data.groups is not None else []
        rows.append(row)
    header += ["part"] if data.parts else []
    header += ["group"] if data.groups is not None else []
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([header, *rows])
    return path
