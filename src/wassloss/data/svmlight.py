"""Data sets in the SVMlight format, read by scikit-learn: ``3,7 1:0.5 4:2 # remark``.

Labels come first, numbers separated by commas; features follow as ``index:value``, in order and
without those that are 0. The format holds neither weights, nor names, nor the number of features.
"""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch

from wassloss._precision import narrowed
from wassloss.data.labels import read_numbers
from wassloss.data.ragged import from_lists
from wassloss.data.table import Wanted

_EXACT = 2**53  # labels are read as floats, which do not hold all integers beyond


def load(path: str | os.PathLike[str], wanted: Wanted) -> dict[str, Any]:
    """Read the fields of a data set; its features become dense.

    The first feature has index 0 if that index occurs, otherwise 1.
    """
    content = Path(path).read_bytes()
    features, lists = _load(content)
    if not lists:
        raise ValueError("it is empty")
    if not features.nnz:
        raise ValueError("it has no features")
    counts = np.array([len(labels) for labels in lists])
    row_of = np.repeat(np.arange(len(counts)), counts)

    def place(row: int) -> str:
        return f"line {next(islice(_examples(content), row, None))[0]}"

    if not counts.all():
        raise ValueError(f"{place(int(counts.argmin()))}: expected a label before the features")
    values = np.concatenate([np.asarray(labels, dtype=np.float64) for labels in lists])
    large = np.flatnonzero(np.abs(values) >= _EXACT)
    if large.size:
        raise ValueError(
            f"{place(int(row_of[large[0]]))}: expected labels below 2**53, got {values[large[0]]:g}"
        )
    if wanted.raw is not None:  # the file does not say how many features there are
        features.resize(len(lists), max(features.shape[1], len(wanted.raw.columns)))
    ids, names = read_numbers(values, wanted.label_names, lambda i: place(int(row_of[i])))
    return {
        "features": narrowed("features", torch.from_numpy(features.toarray()), torch.float32),
        "target": torch.from_numpy(ids) if (counts == 1).all() else from_lists(counts, ids),
        "label_names": names,
    }


def _load(content: bytes, place: str = "") -> tuple[Any, Any]:
    """A sparse matrix of features and the labels of each example."""
    from sklearn.datasets import load_svmlight_file  # takes a while to import

    try:
        return load_svmlight_file(io.BytesIO(content), multilabel=True)  # type: ignore[no-any-return]
    except (ValueError, OverflowError) as error:
        if place:
            raise ValueError(f"{place}: {error}") from error
        for line, example in _examples(content):  # scikit-learn does not say which line is wrong
            _load(example, f"line {line}")
        raise


def _examples(content: bytes) -> Iterator[tuple[int, bytes]]:
    """The lines that are neither empty nor remarks, with their numbers."""
    for line, text in enumerate(content.split(b"\n"), start=1):
        example = text.split(b"#", 1)[0].strip()
        if example:
            yield line, example
