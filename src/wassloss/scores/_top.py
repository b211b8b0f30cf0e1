"""The labels of highest score."""

from __future__ import annotations

from torch import Tensor


def top(x: Tensor, k: int) -> Tensor:
    """The `k` labels of highest score, best first, `(batch, k)`; ties go to the smaller label."""
    if k == 1:
        return x.argmax(1, keepdim=True)  # the first of equals
    values, labels = x.topk(k, dim=1)
    # topk is several times faster than sorting, but breaks ties arbitrarily: order labels of equal
    # score, and sort the rows in which an omitted label ties with the last one.
    labels, order = labels.sort(dim=1)
    values, order = values.gather(1, order).sort(dim=1, descending=True, stable=True)
    labels = labels.gather(1, order)
    tied = (x >= values[:, -1:]).sum(1) > k
    if tied.any():
        labels[tied] = x[tied].argsort(dim=1, descending=True, stable=True)[:, :k]
    return labels
