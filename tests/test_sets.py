"""Sets of labels as targets: how they are made, selected, moved, collated and pickled."""

from __future__ import annotations

import io
import pickle
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, Dataset, default_collate

import wassloss as wl

LISTS = [[0, 2], [1], [0, 1, 2, 3], [3]]
MASK = torch.tensor([[k in row for k in range(4)] for row in LISTS])


@pytest.mark.parametrize(
    "given",
    [
        MASK,
        MASK.numpy(),
        MASK.double(),
        MASK.T.contiguous().T,
        np.asfortranarray(MASK.numpy()),
        LISTS,
        [np.array(row) for row in LISTS],
        [torch.tensor(row) for row in LISTS],
        [set(row) for row in LISTS],
        [[0, 2], (1,), range(4), {3}],
        (row for row in LISTS),
    ],
)
def test_any_form_is_the_same_sets(given: Any) -> None:
    target = wl.SetTarget(given)
    assert target.lists() == LISTS
    assert (len(target), tuple(target.shape)) == (4, (4,))
    assert repr(target) == "SetTarget(4 sets of labels)"


def test_ranges() -> None:
    target = wl.SetTarget.from_ranges([0, 2, -100], torch.tensor([3, 2, -100]))
    assert target.lists() == [[0, 1, 2, 3], [2], [-100]]
    assert repr(target) == "SetTarget(3 ranges of labels)"
    other = wl.SetTarget.from_ranges([0, 2, -100], [3, 2, -100], members=[3, 0, 1, 2])
    assert other.lists() == [[3, 0, 1, 2], [1], [-100]]


def test_examples_are_selected_like_rows() -> None:
    for target in (wl.SetTarget(LISTS), wl.SetTarget.from_ranges([0, 1, 2, 3], [3, 1, 3, 3])):
        lists = target.lists()
        assert target[1:3].lists() == lists[1:3]
        assert target[torch.tensor([3, 0])].lists() == [lists[3], lists[0]]
        assert target[np.array([True, False, True, False])].lists() == [lists[0], lists[2]]
        assert target[2].shape == ()
        assert target[2][None].lists() == [lists[2]]


class Rows(Dataset[Any]):
    def __init__(self, target: wl.SetTarget) -> None:
        self.target = target

    def __len__(self) -> int:
        return len(self.target)

    def __getitem__(self, row: int) -> Any:
        return torch.tensor([float(row)]), self.target[row]


@pytest.mark.parametrize(
    "target",
    [
        wl.SetTarget(LISTS),
        wl.SetTarget(MASK),
        wl.SetTarget.from_ranges([0, 1, 2, -100], [3, 1, 3, -100]),
        wl.SetTarget.from_ranges([0, 1, 2, 3], [3, 1, 3, 3], [2, 3, 0, 1]),
    ],
)
def test_a_data_loader_collates_them(target: wl.SetTarget) -> None:
    batches = [batch for _, batch in DataLoader(Rows(target), batch_size=3)]
    assert all(isinstance(batch, wl.SetTarget) for batch in batches)
    assert [row for batch in batches for row in batch.lists()] == target.lists()
    assert batches[0].members is target.members  # not copied for each batch


def test_sets_of_different_data_sets_are_collated() -> None:
    tree = wl.SetTarget.from_ranges([0, 2], [1, 3], [3, 2, 1, 0])
    batch = default_collate(
        [wl.SetTarget(LISTS)[2], tree[1], wl.SetTarget.from_ranges([1], [2])[0]]
    )
    assert batch.lists() == [[0, 1, 2, 3], [0, 1], [1, 2]]


def test_they_are_moved_and_saved() -> None:
    target = wl.SetTarget(LISTS)
    assert target.to("cpu").lists() == LISTS
    assert target.to("meta").device.type == "meta"
    assert "device='meta'" in repr(target.to("meta"))
    assert pickle.loads(pickle.dumps(target)).lists() == LISTS
    file = io.BytesIO()
    torch.save({"first": target.first, "last": target.last, "members": target.members}, file)
    file.seek(0)
    assert wl.SetTarget.from_ranges(**torch.load(file, weights_only=True)).lists() == LISTS
    assert target.nbytes == 8 * (4 + 4 + 8)


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        (torch.tensor([[0.0, 1.0], [torch.nan, 1.0]]), ValueError, "0 and 1, got nan in example 1"),
        (torch.tensor([[0.5, 1.0]]), ValueError, "0 and 1, got 0.5 in example 0"),
        (
            torch.tensor([[0, 1]]),
            TypeError,
            r"boolean mask or lists .* torch.int64; pass allowed.bool",
        ),
        (torch.tensor(True), ValueError, "dense mask"),
        ([[0], [1.5]], TypeError, r"got \[1.5\] for example 1"),
        ([[0], [True]], TypeError, r"got \[True\] for example 1"),
        ([[0], ["dog"]], TypeError, "for example 1"),
        ([0, 1], TypeError, "got 0 for example 0"),
        ([[[0]]], TypeError, "for example 0"),
        (wl.SetTarget([[0]]), TypeError, "got a SetTarget"),
    ],
)
def test_bad_forms(given: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=f"allowed must .*{message}|{message}"):
        wl.SetTarget(given)


def test_bad_ranges() -> None:
    with pytest.raises(ValueError, match=r"same shape, got \(2,\) and \(1,\)"):
        wl.SetTarget.from_ranges([0, 1], [2])
    with pytest.raises(TypeError, match=r"last must hold integers, got torch\.float32"):
        wl.SetTarget.from_ranges([0], [2.0])
    with pytest.raises(ValueError, match=r"members must have shape \(n,\)"):
        wl.SetTarget.from_ranges([0], [0], [[1]])
