"""Data sets as CSV, with the columns that :mod:`wassloss.data.layout` describes.

Lists of ``labels`` and ``weights`` are separated by semicolons. A file whose first line is all
numbers has no header: its columns are known by position, which a `DataWarning` says, and the last
one is the label unless ``label_column`` is another position.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from wassloss._files import replacing
from wassloss.data._arrow import import_pyarrow
from wassloss.data._csv_text import SEPARATOR, as_number, is_data, read_header, read_text
from wassloss.data.columns import Description, not_features
from wassloss.data.dataset import Dataset
from wassloss.data.labels import shown
from wassloss.data.layout import Loaded
from wassloss.data.ragged import as_sparse, to_lists


def load(
    path: str | os.PathLike[str],
    label_names: tuple[str, ...] | None = None,
    label_column: str | None = None,
    feature_names: tuple[str, ...] | None = None,
    labelled: bool = True,
) -> Loaded:
    """Read a file; features become float32.

    Without a header and labels, all columns are features except for ``label_column``.
    """
    text = read_text(path)
    names = text.words.column_names
    label = text.label(label_column, "-1" if labelled else None)
    if labelled and label not in names and "labels" not in names:
        hint = "say which one has the label with label_column (--label-column)"
        if any(as_number(name) is not None for name in names):
            hint = "if line 1 is data, put a line with the columns' names before it"
        raise ValueError(
            f"it lacks a column {label!r} or 'labels'; it has {shown(names, 10)}; {hint}"
        )
    text.warn_of_positions(label)
    layout = text.layout(label_names, label, feature_names, labelled)
    columns: dict[str, Any] = {name: text.floats(name) for name in layout.feature_columns}
    if layout.target_column is not None:
        columns[layout.target_column] = text.labels(layout.target_column)
    if layout.weighted:
        columns["weights"] = text.weights(columns["labels"])
    for name in layout.about_rows:
        columns[name] = text.integers(name) if name == "group" else text.words[name]
    return Loaded(import_pyarrow().table(columns), layout, text.place)


def describe(path: str | os.PathLike[str], label_column: str | None = None) -> Description:
    """The names of the features, if there is a header; labels are the values that occur."""
    header = read_header(path)
    if is_data(header):
        return Description(None, None)
    reserved = not_features(label_column or "label")
    return Description(tuple(name for name in header if name not in reserved), None)


def write(data: Dataset, path: str | os.PathLike[str]) -> None:
    """Write a data set, all or nothing, without its metric, name and provenance.

    Numbers are written in full, so that they are read back unchanged.
    """
    pa = import_pyarrow()
    names = data.label_names or tuple(str(i) for i in range(data.label_count))
    bad = next((name for name in names if SEPARATOR in name or name != name.strip()), None)
    if bad is not None:
        raise ValueError(
            f"label {bad!r} cannot be written to CSV: it has a {SEPARATOR!r} or outer blanks"
        )
    features = data.feature_names or tuple(f"x{i}" for i in range(data.features.shape[1]))
    bad = next((n for n in features if n in not_features("label") or n != n.strip()), None)
    if bad is not None:
        raise ValueError(
            f"feature {bad!r} cannot be written to CSV: it has outer blanks, or the name of a "
            "column that is not a feature"
        )
    wide = data.features.float() if data.features.element_size() == 2 else data.features
    columns: dict[str, Any] = dict(zip(features, wide.numpy().T, strict=True))
    counts, labels, weights = to_lists(as_sparse(data.target, data.label_count))
    words = [names[i] for i in labels]
    if isinstance(data.target, Tensor) and data.target.dim() == 1:
        columns["label"] = words
    else:
        columns["labels"] = _joined(words, counts)
        columns["weights"] = _joined([str(weight) for weight in weights], counts)
    if data.parts:
        part = np.full(len(data), "", dtype=object)
        for name, rows in data.parts.items():
            part[rows.numpy()] = name
        columns["part"] = part
    if data.groups is not None:
        columns["group"] = data.groups.numpy()
    with replacing(path) as temporary:
        pa.csv.write_csv(pa.table(columns), temporary, pa.csv.WriteOptions(quoting_style="needed"))


def _joined(words: list[str], counts: NDArray[Any]) -> list[str]:
    ends = np.cumsum(counts).tolist()
    return [SEPARATOR.join(words[end - n : end]) for n, end in zip(counts, ends, strict=True)]
