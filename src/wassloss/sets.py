"""Sets of labels as targets: "some bird", "3 to 5", "at least 4"."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data._utils.collate import default_collate_fn_map

from wassloss._checks import first_row

if TYPE_CHECKING:
    from typing_extensions import Self


class SetTarget:
    """A set of labels per example, one of which is the true one.

    A class id is a set of one label; a set of all labels carries no information. Ground metrics
    build sets from names and intervals, see
    :meth:`GroundMetric.target <wassloss.ground.GroundMetric.target>`.

    Indexing selects examples, `len` counts them, and the `default_collate` of a `DataLoader`
    stacks single examples (`target[i]`) to a batch. An example whose only label is the loss's
    `ignore_index` does not count.

    Args:
        allowed: a boolean mask `(…, labels)`, or a list of labels per example.

    >>> import torch, wassloss as wl
    >>> loss_fn = wl.WassersteinLoss(wl.ground.Ordinal(4), reduction="none")
    >>> target = wl.SetTarget([[0], [1, 2, 3], [0, 1, 2, 3]])
    >>> loss_fn(torch.zeros(3, 4), target)
    tensor([ 1.9159,  0.1166, -0.2773])
    >>> wl.SetTarget.from_ranges(first=[0, 1, 0], last=[0, 3, 3])  # the same sets
    SetTarget(3 ranges of labels)
    """

    # Example b allows the labels members[first[b]], …, members[last[b]], both inclusive.
    first: Tensor  # int64 (…)
    last: Tensor  # int64 (…)
    members: Tensor | None  # int64 (any number,), shared by all examples; None: 0, 1, 2, …

    def __init__(self, allowed: Tensor | NDArray[Any] | Iterable[Iterable[int]]) -> None:
        if isinstance(allowed, SetTarget):
            raise TypeError("allowed must be a mask or lists of labels, got a SetTarget")
        if isinstance(allowed, np.ndarray) and allowed.dtype != object:
            allowed = torch.from_numpy(np.ascontiguousarray(allowed))
        if isinstance(allowed, Tensor):
            self.first, self.last, self.members = _from_mask(allowed)
        else:
            self.first, self.last, self.members = _from_lists(allowed)

    @classmethod
    def from_ranges(
        cls,
        first: Tensor | NDArray[Any] | Sequence[int],
        last: Tensor | NDArray[Any] | Sequence[int],
        members: Tensor | NDArray[Any] | Sequence[int] | None = None,
    ) -> Self:
        """Build sets of consecutive labels, such as intervals of ordered labels and subtrees.

        Args:
            first: the start of each range.
            last: the end of each range, inclusive.
            members: a list of labels; if given, ranges select from it rather than from 0, 1, 2, ….
        """
        one, other = _integers("first", first), _integers("last", last)
        listed = None if members is None else _integers("members", members)
        if one.shape != other.shape:
            raise ValueError(
                "first and last must have the same shape, got "
                f"{tuple(one.shape)} and {tuple(other.shape)}"
            )
        if listed is not None and listed.dim() != 1:
            raise ValueError(f"members must have shape (n,), got {tuple(listed.shape)}")
        return cls._of(one, other, listed)

    @classmethod
    def _of(cls, first: Tensor, last: Tensor, members: Tensor | None) -> Self:
        made = cls.__new__(cls)
        made.first, made.last, made.members = first, last, members
        return made

    @property
    def shape(self) -> torch.Size:
        """The shape of the batch."""
        return self.first.shape

    @property
    def device(self) -> torch.device:
        """The device of the sets."""
        return self.first.device

    @property
    def nbytes(self) -> int:
        """Size in bytes, including a shared list of members."""
        listed = 0 if self.members is None else self.members.nbytes
        return self.first.nbytes + self.last.nbytes + listed

    def __len__(self) -> int:
        return len(self.first)

    def __getitem__(self, rows: Any) -> SetTarget:
        """Select examples, with the indexing of a tensor's rows."""
        return SetTarget._of(self.first[rows], self.last[rows], self.members)

    def __repr__(self) -> str:
        count = self.first.numel()
        kind = "ranges" if self.members is None else "sets"
        device = "" if self.device.type == "cpu" else f", device={str(self.device)!r}"
        return f"SetTarget({count} {kind} of labels{device})"

    def to(self, device: torch.device | str, non_blocking: bool = False) -> SetTarget:
        """Move the sets to another device."""
        return self._with(lambda part: part.to(device, non_blocking=non_blocking))

    def pin_memory(self) -> SetTarget:
        """Copy the sets to pinned memory, for `DataLoader(pin_memory=True)`."""
        return self._with(lambda part: part.pin_memory())

    def lists(self) -> list[list[int]]:
        """The labels of each example, in a batch of one dimension.

        >>> SetTarget(torch.tensor([[True, False, True], [False, True, False]])).lists()
        [[0, 2], [1]]
        """
        ends = zip(self.first.tolist(), self.last.tolist(), strict=True)
        if self.members is None:
            return [list(range(first, last + 1)) for first, last in ends]
        members = self.members.tolist()
        # A negative place is a label, the `ignore_index`.
        return [
            members[first : last + 1] if first >= 0 else list(range(first, last + 1))
            for first, last in ends
        ]

    @staticmethod
    def _stacked(targets: Sequence[SetTarget]) -> SetTarget:
        """Stack single examples, or targets of equal shape, for `default_collate`."""
        shared = targets[0].members
        if any(each.members is not shared for each in targets):
            if any(each.first.dim() for each in targets):
                raise ValueError("targets must be single examples if they have different members")
            lists = [labels for each in targets for labels in each[None].lists()]
            return SetTarget(lists).to(targets[0].device)
        first, last = (
            torch.stack([getattr(each, end) for each in targets]) for end in ("first", "last")
        )
        return SetTarget._of(first, last, shared)

    def _with(self, change: Callable[[Tensor], Tensor]) -> SetTarget:
        members = None if self.members is None else change(self.members)
        return SetTarget._of(change(self.first), change(self.last), members)


def _from_mask(allowed: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    if allowed.dim() < 1 or allowed.layout != torch.strided:
        raise ValueError(
            f"allowed must be a dense mask (…, labels), got {allowed.layout}, shape "
            f"{tuple(allowed.shape)}"
        )
    if allowed.is_floating_point():  # an indicator
        rows = allowed.reshape(-1, allowed.shape[-1])
        row = first_row(((rows != 0) & (rows != 1)).any(1))
        if row is not None:
            wrong = rows[row][(rows[row] != 0) & (rows[row] != 1)][0].item()
            raise ValueError(f"allowed must hold 0 and 1, got {wrong} in example {row}")
    elif allowed.dtype != torch.bool:
        raise TypeError(
            f"allowed must be a boolean mask or lists of labels, got a tensor of {allowed.dtype}; "
            "pass allowed.bool() for a mask, allowed.tolist() for labels, or "
            "SetTarget.from_ranges(ids, ids) for class ids"
        )
    mask = allowed.detach().bool().reshape(-1, allowed.shape[-1])
    counts = mask.sum(1)
    stop = counts.cumsum(0)
    shape = allowed.shape[:-1]
    return (stop - counts).reshape(shape), (stop - 1).reshape(shape), mask.nonzero()[:, 1]


def _from_lists(lists: Iterable[Iterable[int]]) -> tuple[Tensor, Tensor, Tensor]:
    rows: list[NDArray[Any]] = []
    for b, labels in enumerate(lists):
        try:
            listed = labels.tolist() if isinstance(labels, Tensor) else labels
            row = np.asarray(list(listed) if isinstance(listed, set | frozenset) else listed)
        except (TypeError, ValueError) as error:
            raise TypeError(f"allowed must hold lists of labels, got {labels!r}") from error
        if row.ndim != 1 or (row.size and row.dtype.kind not in "iu"):
            raise TypeError(
                f"allowed must hold lists of label numbers, got {labels!r} for example {b}"
            )
        rows.append(
            np.sort(row.astype(np.int64))
        )  # kernels are faster if labels on a line are sorted
    counts = torch.tensor([len(row) for row in rows], dtype=torch.long)
    stop = counts.cumsum(0)
    members = np.concatenate([np.empty(0, np.int64), *rows])
    return stop - counts, stop - 1, torch.from_numpy(members)


def _integers(name: str, values: Any) -> Tensor:
    given = torch.as_tensor(values)
    odd = given.is_floating_point() or given.is_complex() or given.dtype == torch.bool
    if odd and given.numel():  # torch makes an empty list a float tensor
        raise TypeError(f"{name} must hold integers, got {given.dtype}")
    return given.long()


def _collate(batch: Sequence[SetTarget], *, collate_fn_map: Any = None) -> SetTarget:
    return SetTarget._stacked(batch)


default_collate_fn_map[SetTarget] = _collate  # torch's way to extend `default_collate`
