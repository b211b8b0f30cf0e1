"""Data sets in the SVMlight format: one example a line, ``3,7 1:0.5 4:2 # remark``.

Labels come first, numbers separated by commas; features follow as ``index:value``, those that are 0
left out. The format holds neither weights nor names nor how many features there are; files written
here say the latter two in a remark on their first line, and their labels are ids from 0.
"""

from __future__ import annotations

import json
import os
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from wassloss._files import replacing
from wassloss._precision import overflowed, too_large
from wassloss.data.dataset import Dataset
from wassloss.data.labels import agreed_names, number, read_labels
from wassloss.data.ragged import as_sparse, from_lists, to_lists
from wassloss.targets import SparseTarget

_HEADER = "# wassloss "


def read(
    path: str | os.PathLike[str],
    label_names: tuple[str, ...] | None = None,
    zero_based: bool | Literal["auto"] = "auto",
    feature_names: tuple[str, ...] | None = None,
) -> Dataset:
    """Read a data set; its features become dense.

    Args:
        path: the file.
        label_names: the labels in their order; otherwise the numbers that occur, in theirs.
        zero_based: whether the first feature has index 0; ``"auto"`` takes it to be 0 where
            the file has an index of 0, otherwise 1. Say which when reading several files.
        feature_names: which features to keep, where the file names them.
    """
    counts: list[int] = []
    labels: list[str] = []
    lines: list[int] = []  # of each label
    rows: list[int] = []
    columns: list[int] = []
    values: list[float] = []
    header: dict[str, Any] = {}
    line = 0
    try:
        with open(path, encoding="utf-8") as file:
            for line, text in enumerate(file, start=1):
                if line == 1:
                    header = _header(text)
                words = text.split("#", 1)[0].split()
                if not words:
                    continue
                if ":" in words[0]:
                    raise ValueError("expected a label before the features")
                own = words[0].split(",")
                for word in own:
                    _check_label(word, ids="label_count" in header)
                labels += own
                lines += [line] * len(own)
                for word in words[1:]:
                    index, _, value = word.partition(":")
                    rows.append(len(counts))
                    columns.append(int(index))
                    values.append(float(value))
                counts.append(len(own))
    except UnicodeDecodeError as error:
        raise ValueError(f"it is not text: {error}") from error
    except ValueError as error:
        raise ValueError(f"line {line}: {error}") from error
    if not counts:
        raise ValueError("it is empty")
    if not columns:
        raise ValueError("it has no features")
    lowest = min(columns)
    first = header.get("first", 0 if zero_based is True or (zero_based and lowest == 0) else 1)
    if lowest < first:
        raise ValueError(f"feature indices must be at least {first}, got {lowest}")
    width = header.get("features", max(columns) + 1 - first)
    if max(columns) - first >= width:
        raise ValueError(f"feature indices must be at most {width}, got {max(columns)}")
    features = np.zeros((len(counts), width), dtype=np.float32)
    wide = torch.tensor(values, dtype=torch.float64)
    narrow = wide.float()
    if (large := overflowed(wide, narrow)) is not None:
        (i,) = large
        raise too_large("features", torch.float32, values[i], rows[i], columns[i] - first)
    features[rows, np.array(columns) - first] = narrow.numpy()
    names: tuple[str, ...] | None
    if "label_count" in header:
        names = agreed_names(label_names, header.get("label_names"))
        ids = np.array([number(word) for word in labels], dtype=np.int64)
    else:
        ids, names = read_labels(labels, label_names, lambda i: f"line {lines[i]}")
    single = header.get("classes", max(counts) == 1)
    data = Dataset(
        torch.from_numpy(features),
        torch.from_numpy(ids) if single else from_lists(np.array(counts), ids),
        label_names=names,
        label_count=0 if names else header.get("label_count", 0),
        feature_names=header.get("feature_names"),
    )
    if feature_names is None or data.feature_names is None:
        return data
    return data.with_features(feature_names)


def read_features(
    path: str | os.PathLike[str], feature_names: tuple[str, ...] | None = None
) -> Tensor:
    """The features alone; the format has no way to leave labels out."""
    return read(path, feature_names=feature_names).features


def column_names(path: str | os.PathLike[str]) -> tuple[str, ...] | None:
    """The names of the features, where the file says any."""
    names = _first_line(path).get("feature_names")
    return None if names is None else tuple(names)


def declared_labels(path: str | os.PathLike[str]) -> Literal["names", "ids"] | None:
    """Whether the file lists its labels, or says how many there are so that numbers are ids."""
    header = _first_line(path)
    if header.get("label_names") is not None:
        return "names"
    return "ids" if "label_count" in header else None


def write(data: Dataset, path: str | os.PathLike[str]) -> None:
    """Write a data set, all or nothing; parts, groups and the metric are not held.

    Raises:
        ValueError: the labels of an example weigh differently, which the format cannot say.
    """
    target = as_sparse(data.target, data.label_count)
    counts, labels, weights = to_lists(target)
    ends = np.cumsum(counts)[:-1]
    for i, own in enumerate(np.split(weights, ends)):
        if not np.allclose(own, own[0], rtol=1e-5, atol=0):
            raise ValueError(
                f"SVMlight files hold no weights, but those of example {i} differ; write .npz, "
                ".parquet or .csv instead"
            )
    header = {
        "features": data.features.shape[1],
        "first": 1,
        "label_count": data.label_count,
        "label_names": data.label_names,
        "feature_names": data.feature_names,
        "classes": not isinstance(data.target, SparseTarget) and data.target.dim() == 1,
    }
    with replacing(path) as temporary, open(temporary, "x", encoding="utf-8") as file:
        file.write(_HEADER + json.dumps(header) + "\n")
        for row, own in zip(data.features.numpy(), np.split(labels, ends), strict=True):
            pairs = (f"{i + 1}:{row[i]}" for i in np.flatnonzero(row))
            file.write(" ".join([",".join(map(str, own)), *pairs]) + "\n")


def _first_line(path: str | os.PathLike[str]) -> dict[str, Any]:
    try:
        with open(path, encoding="utf-8") as file:
            return _header(file.readline())
    except UnicodeDecodeError as error:
        raise ValueError(f"it is not text: {error}") from error


def _header(text: str) -> dict[str, Any]:
    if not text.startswith(_HEADER):
        return {}
    header = json.loads(text.removeprefix(_HEADER))
    if not isinstance(header, dict):
        raise ValueError("expected a JSON object after # wassloss")
    return header


def _check_label(word: str, ids: bool) -> None:
    value = number(word)  # LIBSVM writes 1 as +1, some tools as 1.0
    if value is None:
        raise ValueError(f"expected a number as label, got {word!r}")
    if ids and (value < 0 or not isinstance(value, int)):
        raise ValueError(f"expected label ids from 0, got {word!r}")
