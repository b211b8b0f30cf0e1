"""Data sets with changed labels."""

from typing import Any

import pytest
import torch

from experiments.lab.dataset import Dataset
from experiments.lab.relabel import keep_labels, label_weights, normalized, with_metric
from wassloss import SparseTarget
from wassloss.ground import Ordinal


def test_normalized() -> None:
    counts = torch.tensor([[4.0, 0.0], [1.0, 3.0]])
    tags = SparseTarget(torch.tensor([[0, 1], [0, 1]]), counts)
    for target in (counts, tags):
        data = normalized(Dataset(torch.rand(2, 1), target, label_count=2))
        assert label_weights(data).tolist() == [1.25, 0.75]


def test_keep_labels() -> None:
    classes = Dataset(
        [[0.0], [1.0], [2.0], [3.0]],
        torch.tensor([0, 1, 2, 2]),
        metric=Ordinal(3, labels=["low", "middle", "high"]),
    )
    kept = keep_labels(classes, ["high", "low"])
    assert kept.label_names == ("high", "low")
    assert isinstance(kept.target, torch.Tensor)
    assert kept.target.tolist() == [1, 0, 0]
    assert kept.features[:, 0].tolist() == [0, 2, 3]
    assert kept.metric is None
    tags = SparseTarget(torch.tensor([[0, 1], [1, 0]]), torch.tensor([[0.5, 0.5], [1.0, 0.0]]))
    only = keep_labels(Dataset(torch.rand(2, 1), tags, label_names=("a", "b")), ["a"])
    assert (len(only), label_weights(only).tolist()) == (1, [0.5])
    dense = Dataset(
        torch.rand(2, 1), torch.tensor([[1.0, 1.0], [0.0, 1.0]]), label_names=("a", "b")
    )
    assert label_weights(keep_labels(dense, ["a"])).tolist() == [1.0]


@pytest.mark.parametrize("kind", ["classes", "dense", "sparse"])
def test_a_metric_brings_its_order(kind: str) -> None:
    forms: dict[str, Any] = {
        "classes": torch.tensor([0, 1]),
        "dense": torch.tensor([[1.0, 0.0], [0.0, 1.0]]),
        "sparse": SparseTarget(
            torch.tensor([[0, -1], [1, 0]]), torch.tensor([[1.0, 0.0], [1.0, 0.0]])
        ),
    }
    data = Dataset(torch.rand(2, 1), forms[kind], label_names=("d", "b"))
    ordered = with_metric(data, Ordinal(4, labels=["a", "b", "c", "d"]))
    assert ordered.label_names == ("a", "b", "c", "d")
    assert label_weights(ordered).tolist() == [0, 1, 0, 1]
    assert label_weights(ordered.take([0])).tolist() == [0, 0, 0, 1]
