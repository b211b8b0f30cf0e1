"""Choose the labels of highest score."""

from __future__ import annotations

from typing import Any, SupportsIndex

import torch

from wassloss._checks import check_count
from wassloss.decisions import _inputs
from wassloss.scores import _inputs as inputs
from wassloss.scores._inputs import Numbers
from wassloss.scores._top import top


@torch.no_grad()
def top_labels(scores: Numbers, k: SupportsIndex = 1) -> Any:
    """The `k` labels of highest score, best first; equal scores go to the smaller label.

    Returns:
        Integers `(batch, k)`.

    >>> top_labels([[0.2, 0.5, 0.3], [0.4, 0.2, 0.4]], k=2)
    array([[1, 2],
           [0, 2]])
    """
    x = inputs.read_scores(_inputs.in_label_order(scores))
    (count,) = inputs.read_ks(check_count("k", k), x.shape[1])
    return _inputs.given_back(top(x, count), scores)
