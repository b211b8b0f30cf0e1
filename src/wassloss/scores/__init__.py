"""Scores: how good predictions are, and which labels to answer with.

Functions on arrays or tensors: tensors in, tensors out; arrays or lists in, arrays or floats out.
Predictions are `(batch, labels)`. A target is any of

==========================  ==================================================================
class ids                   integers `(batch,)`
an indicator, or weights    `(batch, labels)`: 0 and 1 as booleans, integers or floats, or
                            weights over labels; the true labels are those of positive weight
``torch.sparse``,           the same, sparse
``scipy.sparse``
SparseTarget                a few labels each, padded with zero weights
==========================  ==================================================================

``sample_weight`` is a weight for each example in the mean, `(batch,)`. ``reduction`` is ``"mean"``
over examples, or ``"none"``: an answer for each, `(batch,)`, or `(batch, ks)` for several `k`.

Versions that accumulate over batches and processes are in :mod:`wassloss.scores.accumulators`.

>>> import numpy as np, wassloss as wl
>>> p = np.array([[0.5, 0.3, 0.2, 0.0], [0.0, 0.2, 0.3, 0.5]])
>>> wl.scores.top_k_cost(p, [0, 0], wl.ground.Ordinal(4), k=2)
1.5
>>> wl.scores.accuracy(p, [0, 0])
0.5
"""

from wassloss.scores.cost import expected_distance, mean_wasserstein, top_k_cost
from wassloss.scores.decoding import least_cost_label, least_cost_labels, top_labels
from wassloss.scores.differences import paired_difference
from wassloss.scores.ranking import accuracy, precision_at_k, ranking_auc, recall_at_k

__all__ = [
    "accuracy",
    "expected_distance",
    "least_cost_label",
    "least_cost_labels",
    "mean_wasserstein",
    "paired_difference",
    "precision_at_k",
    "ranking_auc",
    "recall_at_k",
    "top_k_cost",
    "top_labels",
]
