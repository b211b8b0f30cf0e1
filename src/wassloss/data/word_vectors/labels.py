"""Labels that are words, and the ground metric that word vectors give them."""

from __future__ import annotations

from typing import Any

from wassloss.data.dataset import Dataset
from wassloss.data.word_vectors.table import Missing, WordVectors


def embed_labels(
    data: Dataset, vectors: WordVectors, *, missing: Missing = "error", **options: Any
) -> Dataset:
    """The same data with the distances between its labels' word vectors as ground metric.

    Args:
        data: whose labels have names.
        vectors: where their vectors are.
        missing: what to do with labels that have no vector: ``"error"`` names them, ``"drop"``
            leaves them out, and the examples that have no other label; ``data.normalized()`` then
            shares out their mass among the labels that are left.
        options: ``power``, ``scale`` and others of :class:`wassloss.ground.Embedding`.

    >>> import numpy as np
    >>> pets = Dataset([[0.0], [1.0]], [0, 1], label_names=("cat", "qzx"))
    >>> table = WordVectors(("dog", "cat"), np.eye(2, dtype=np.float32))
    >>> embed_labels(pets, table, missing="drop")
    Dataset(1 example, 1 feature, 1 label, class ids)
    """
    if data.label_names is None:
        raise ValueError("data must have names for its labels to find vectors of, got none")
    metric = vectors.metric(data.label_names, missing=missing, **options)
    if metric.labels is not None and len(metric.labels) < data.label_count:
        data = data.keep_labels(metric.labels)
    return data.with_metric(metric)
