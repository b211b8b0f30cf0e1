"""`Dataset`: what it keeps together, and what it refuses."""

from typing import Any

import numpy as np
import pytest
import torch
from scipy import sparse

from experiments.lab.dataset import Dataset
from wassloss import SparseTarget
from wassloss.ground import Ordinal


def small(**changes: Any) -> Dataset:
    fields: dict[str, Any] = {
        "features": torch.arange(12.0).reshape(6, 2),
        "target": torch.tensor([0, 1, 2, 2, 1, 0]),
        "parts": {"train": [0, 1, 2], "test": [4, 5]},
        "metric": Ordinal(3, labels=["low", "middle", "high"]),
        "groups": [0, 0, 1, 1, 2, 3],
    }
    return Dataset(**(fields | changes))


def test_rows_take_everything_with_them() -> None:
    data = small()
    some = data.take([5, 0, 2])
    assert some.features[:, 0].tolist() == [10, 0, 4]
    assert isinstance(some.target, torch.Tensor)
    assert some.target.tolist() == [0, 0, 2]
    assert {name: rows.tolist() for name, rows in some.parts.items()} == {
        "train": [1, 2],
        "test": [0],
    }
    assert some.groups is not None
    assert some.groups.tolist() == [3, 0, 1]
    assert some.label_count == 3
    mask = torch.tensor([True, False, False, False, False, True])
    assert torch.equal(data.take(mask).features, data.take([0, 5]).features)
    assert torch.equal(data.take(slice(1, 3)).features, data.features[1:3])


def test_part() -> None:
    test = small().part("test")
    assert len(test) == 2
    assert test.parts == {}
    with pytest.raises(KeyError, match="test"):
        test.part("test")


def test_targets_of_any_form_are_the_same_data() -> None:
    dense = torch.tensor([[0.0, 0.5, 0.5], [1.0, 0.0, 0.0]])
    x = torch.rand(2, 4)
    forms = [
        dense,
        dense.numpy(),
        sparse.csr_matrix(dense.numpy()),
        SparseTarget(torch.tensor([[1, 2], [0, -1]]), torch.tensor([[0.5, 0.5], [1.0, 0.0]])),
    ]
    for form in forms:
        data = Dataset(x, form, label_count=3)  # type: ignore[arg-type]
        assert data.y.toarray().tolist() == dense.tolist()
        assert data.take([1]).y.toarray().tolist() == [[1, 0, 0]]


@pytest.mark.parametrize("kind", ["classes", "dense", "sparse"])
def test_labels_in_another_order(kind: str) -> None:
    forms: dict[str, Any] = {
        "classes": torch.tensor([0, 1]),
        "dense": torch.tensor([[1.0, 0.0], [0.0, 1.0]]),
        "sparse": SparseTarget(
            torch.tensor([[0, -1], [1, 0]]), torch.tensor([[1.0, 0.0], [1.0, 0.0]])
        ),
    }
    data = Dataset(torch.rand(2, 1), forms[kind], label_names=("d", "b"))
    ordered = data.with_labels(["a", "b", "c", "d"])
    assert ordered.label_names == ("a", "b", "c", "d")
    expected = ["d", "b"] if kind == "classes" else [[0, 0, 0, 1], [0, 1, 0, 0]]
    found = ordered.y if kind == "classes" else ordered.y.toarray()
    assert found.tolist() == expected
    with pytest.raises(ValueError, match="'d' is not in list"):
        data.with_labels(["a", "b", "c"])


def test_label_count_is_found() -> None:
    x = torch.rand(2, 1)
    ids = torch.tensor([0, 4])
    assert Dataset(x, ids).label_count == 5
    assert Dataset(x, ids, metric=Ordinal(9)).label_count == 9
    assert Dataset(x, ids, label_names=tuple("abcdefg")).label_count == 7
    assert Dataset(x, ids, label_count=11).label_count == 11
    assert Dataset(x, torch.rand(2, 6)).label_count == 6


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"features": torch.zeros(6)}, "features must be finite"),
        ({"features": np.full((6, 2), np.nan)}, "features must be finite"),
        ({"target": torch.tensor([0, 1])}, "target must have a label in 0..2 for each row"),
        ({"target": torch.tensor([0, 1, 2, 3, 0, 0])}, "target must have a label in 0..2"),
        ({"target": torch.ones(6, 4)}, "target must have a label in 0..2"),
        ({"label_names": ("a", "b")}, "metric must have the 2 labels of the data, got Ordinal"),
        ({"label_names": ("low", "high", "middle")}, "metric must have the 3 labels of the data"),
        ({"label_count": 5}, "metric must have the 5 labels"),
        ({"parts": {"train": [0, 0]}}, "parts must hold each row at most once"),
        ({"parts": {"a": [0, 1], "b": [1]}}, "parts must hold each row at most once"),
    ],
)
def test_bad_input(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        small(**changes)
