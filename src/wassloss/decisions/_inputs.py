"""Read probabilities and true labels, and return answers in the type of the input."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from wassloss._checks import first_row
from wassloss.ground import GroundMetric
from wassloss.scores import _inputs as inputs

_SUM_TOLERANCE = 0.01  # half precision, and numbers rounded to two digits in a file


def in_label_order(given: Any, metric: GroundMetric | None = None) -> Any:
    """Reorder a data frame's columns to the metric's labels, by name if both have names.

    Numbered columns must be increasing, like labels. Anything else is returned unchanged.
    """
    if not _is_pandas(given):
        return given
    listed, names = list(given.columns), column_names(given)
    if names is None:
        if all(isinstance(each, int | float) for each in listed) and listed != sorted(listed):
            raise ValueError(
                f"probabilities must have increasing columns, got {listed[:6]}; pass "
                "probabilities.sort_index(axis=1)"
            )
        return given
    if metric is None or metric.labels is None:
        return given
    if sorted(names) != sorted(metric.labels):
        wrong = sorted(set(names) ^ set(metric.labels))
        raise ValueError(
            "probabilities must have one column for each of the ground metric's labels, but "
            f"{wrong[0] if wrong else 'a name twice'!r} differs; if the columns are already in the "
            "metric's order, pass probabilities.to_numpy()"
        )
    return given[list(metric.labels)]


def column_names(given: Any) -> list[str] | None:
    """The columns of a pandas data frame if they are names, else None."""
    names = list(given.columns) if _is_pandas(given) else []
    return names if names and all(isinstance(name, str) for name in names) else None


def read_simplex(probabilities: Any, metric: GroundMetric | None = None) -> Tensor:
    """Probabilities `(batch, labels)` in double precision, each row divided by its sum.

    The sum must already be close to 1: counts, percentages and logits are refused.
    """
    probabilities = in_label_order(probabilities, metric)
    p = inputs.read_scores(probabilities, metric, "probabilities").double()
    row = first_row(~((p >= 0) & (p <= 1 + _SUM_TOLERANCE)).all(1))
    if row is not None:
        value = p[row][(p[row] < 0) | (p[row] > 1 + _SUM_TOLERANCE)][0].item()
        raise ValueError(
            f"probabilities must be in [0, 1], got {value:g} in row {row}; for logits, pass their "
            "softmax, or Temperature(logits=True).fit(logits, y)(logits)"
        )
    total = p.sum(1, keepdim=True)
    row = first_row(((total - 1).abs() > _SUM_TOLERANCE)[:, 0])
    if row is not None:
        raise ValueError(
            f"probabilities must sum to 1 in every row, got {total[row].item():g} in row {row}; "
            "divide each row by its sum if these are all the labels"
        )
    return p / total


def read_truth(y: Any, rows: int, labels: int, names: Sequence[str] | None) -> Tensor:
    """Read the true label of each row, `(rows,)`, given as class ids or names."""
    if isinstance(y, Tensor):
        y = y.detach().cpu().numpy()
    truth = np.asarray(y)
    if truth.shape != (rows,):
        raise ValueError(f"y must have shape ({rows},), a label per row, got {truth.shape}")
    if truth.dtype.kind in "OUST" and rows:
        return torch.from_numpy(_named(truth, names))
    if truth.dtype.kind not in "iu" and rows:
        raise TypeError(
            f"y must hold integers in 0..{labels - 1}, or names of labels, got {truth.dtype}"
        )
    wrong = np.flatnonzero((truth < 0) | (truth >= labels))
    if len(wrong):
        raise ValueError(f"y must be in 0..{labels - 1}, got {truth[wrong[0]]} in row {wrong[0]}")
    return torch.from_numpy(truth.astype(np.int64))


def _named(truth: NDArray[Any], names: Sequence[str] | None) -> NDArray[np.int64]:
    place = {} if names is None else {name: i for i, name in enumerate(names)}
    found = [place.get(each, -1) for each in truth.tolist()]
    if -1 in found:
        row = found.index(-1)
        known = "integers, because labels have no names"
        known = known if names is None else f"{list(names)[:6]} …"
        raise ValueError(f"y must hold {known}, got {truth.tolist()[row]!r} in row {row}")
    return np.array(found, dtype=np.int64)


def given_back(answer: Tensor, given: Any, *, by_label: bool = False) -> Any:
    """Convert an answer to the input's type: a tensor, an array, or a pandas series or frame.

    With `by_label`, the answer's columns are labels, and a frame gets the input's column names.
    """
    if isinstance(given, Tensor):
        return answer
    found = answer.cpu().numpy()
    if not _is_pandas(given):
        return found
    if found.ndim == 1:
        return _column(found, given)
    return type(given)(found, index=given.index, columns=given.columns if by_label else None)


def words_given_back(words: list[Any], given: Any) -> Any:
    """Convert one object per row: to a list for tensors, else to an array or a pandas series."""
    if isinstance(given, Tensor):
        return words
    if _is_pandas(given):
        return _column(words, given, dtype=object)
    found = np.empty(len(words), dtype=object)
    found[:] = words
    return found


def _is_pandas(given: Any) -> bool:
    return type(given).__module__.split(".")[0] == "pandas" and hasattr(given, "columns")


def _column(values: Any, frame: Any, dtype: Any = None) -> Any:
    """A pandas series without a name, with the index of a frame."""
    return type(frame)({"": values}, index=frame.index, dtype=dtype)[""].rename(None)
