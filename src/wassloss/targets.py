"""Convert targets of any form to labels and weights, or to sets of labels.

==========================  ==================================================================
class ids                   integers, the shape of the logits without the label dimension
dense weights               floats, the shape of the logits
:class:`SparseTarget`       a few labels per example, padded with zero weights
``torch.sparse`` matrix     COO or CSR, `(batch, labels)`
`wassloss.SetTarget`        a set of labels per example, one of which is the true one
==========================  ==================================================================
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, NamedTuple, TypeGuard

import torch
from torch import Tensor

from wassloss import _checks
from wassloss._checks import explain_masses, invalid_masses, marked, traceable
from wassloss.sets import SetTarget


@dataclass(frozen=True)
class SparseTarget:
    """A few labels per example and the weight of each; entries of weight 0 are padding.

    Attributes:
        indices: label of each weight, integers `(..., support)`; arbitrary on padding.
        weights: non-negative weights, `(..., support)`.

    >>> import torch, wassloss as wl
    >>> target = wl.SparseTarget(torch.tensor([[0, 3], [2, 0]]), torch.tensor([[0.5, 0.5], [1, 0]]))
    >>> wl.wasserstein(torch.full((2, 4), 0.25), target, wl.ground.Ordinal(4))
    tensor([0.5000, 1.0000])
    """

    indices: Tensor
    weights: Tensor

    def __len__(self) -> int:
        return len(self.weights)

    @property
    def nbytes(self) -> int:
        """Size in bytes."""
        return self.indices.nbytes + self.weights.nbytes

    def __getitem__(self, rows: Any) -> SparseTarget:
        """Select examples, with the indexing of a tensor's rows."""
        return SparseTarget(self.indices[rows], self.weights[rows])

    def marked(self, marks: Tensor | None) -> SparseTarget:
        """Write NaN to the examples that a check marked; see :mod:`wassloss._checks`."""
        return self if marks is None else replace(self, weights=marked(self.weights, marks))

    def dense(self, labels: int) -> Tensor:
        """Weights of all labels, `(..., labels)`; indices must be in range, padding included."""
        zeros = self.weights.new_zeros(*self.weights.shape[:-1], labels)
        return zeros.scatter_add_(-1, self.indices.expand_as(self.weights), self.weights)

    def normalized(self) -> SparseTarget:
        """Divide the weights of each example by their sum."""
        return replace(self, weights=self.weights / self.weights.sum(-1, keepdim=True))

    def to(self, to: torch.dtype | torch.device | str) -> SparseTarget:
        """Convert the weights to another dtype, or move the target to another device."""
        indices = self.indices if isinstance(to, torch.dtype) else self.indices.to(to)
        return SparseTarget(indices, self.weights.to(to))


Target = Tensor | SparseTarget
TargetOrSets = Target | SetTarget


def is_dense(target: TargetOrSets) -> TypeGuard[Tensor]:
    """Whether a target holds dense weights; checks only its type."""
    return _is_strided(target) and target.is_floating_point()


def _is_strided(target: object) -> TypeGuard[Tensor]:
    return isinstance(target, Tensor) and target.layout == torch.strided


def is_class_ids(target: Target) -> TypeGuard[Tensor]:
    """Whether a target holds class ids; checks only its type."""
    return _is_strided(target) and not target.is_floating_point()


def dtype_of(target: Target) -> torch.dtype:
    """The dtype of the user's weights; an integer type for class ids."""
    return target.weights.dtype if isinstance(target, SparseTarget) else target.dtype


class Kind(Enum):
    """The labels that a target lists per example."""

    CLASS_IDS = "one label"
    SETS = "a set of labels"
    SPARSE = "a few labels"
    DENSE = "all labels"


class ReadTarget(NamedTuple):
    """A target of any form as labels and weights, whose shapes and dtypes are checked.

    Its values are not. Class ids stay a vector without weights, as compiled kernels expect.
    """

    indices: Tensor  # int64 (batch, support), or (1, support) if shared; class ids: (batch,)
    weights: Tensor | None  # (batch, support), in the user's dtype; None for class ids

    @property
    def kind(self) -> Kind:
        """The labels listed per example."""
        if self.weights is None:
            return Kind.CLASS_IDS
        return Kind.SPARSE if self.indices.shape == self.weights.shape else Kind.DENSE

    def checked(
        self,
        labels: int,
        dtype: torch.dtype,
        ignore_index: int | None = None,
        allow_empty: bool = False,
    ) -> tuple[SparseTarget, Tensor | None]:
        """Check the values; arguments and results as in :func:`read_target`."""
        indices, weights = self
        if weights is None:
            return _checked_class_ids(indices.unsqueeze(1), labels, dtype, ignore_index)
        if len(indices) == len(weights):  # before clamping: padding may have any label
            padding = (weights == 0) & ((indices < 0) | (indices >= labels))
            indices = indices.masked_fill(padding, 0)
        marks = _check(weights.detach(), indices, labels, allow_empty)
        if marks is not None:  # keep lookups in range, even in marked examples
            indices = indices.clamp(0, labels - 1)
        return SparseTarget(indices, weights).marked(marks).to(dtype), None


class ReadSets(NamedTuple):
    """Sets of labels, in a batch of one dimension; see :class:`SetTarget` for the attributes.

    Their shapes and dtypes are checked, not their values.
    """

    first: Tensor  # int64 (batch,)
    last: Tensor  # int64 (batch,)
    members: Tensor | None  # int64 (any number,)
    weights: None = None  # all labels of a set count equally

    @property
    def kind(self) -> Kind:
        """The labels listed per example."""
        return Kind.SETS

    def checked(
        self, labels: int, ignore_index: int | None = None
    ) -> tuple[ReadSets, Tensor | None, Tensor | None]:
        """Check the values.

        Returns:
            Sets whose places are in range, even if invalid; a mask `(batch,)` of the examples that
            count, or None if all do; and marks of invalid examples, see :mod:`wassloss._checks`.
        """
        first, last, counts = self.first, self.last, None
        if ignore_index is not None:
            ignored = self._ignored(ignore_index)
            first, last = first.masked_fill(ignored, 0), last.masked_fill(ignored, 0)
            counts = ~ignored
        marks = _check_sets(first, last, self.members, labels, ignore_index)
        if marks is None:
            if counts is not None and counts.all():
                counts = None
        else:  # keep lookups in range, even in marked examples
            places = labels if self.members is None else len(self.members)
            first, last = first.clamp(0, max(0, places - 1)), last.clamp(0, max(0, places - 1))
        return ReadSets(first, last, self.members), counts, marks

    def allowed(self, labels: int) -> Tensor:
        """A mask of the labels in each set, `(batch, labels)`."""
        every = torch.arange(labels, device=self.first.device)
        if self.members is None:
            return (every >= self.first.unsqueeze(1)) & (every <= self.last.unsqueeze(1))
        named, _ = self._named(labels)
        return _occurring(named, labels)

    def mean_of(self, values: Tensor) -> Tensor:
        """The mean of values `(labels,)` over each set, `(batch,)`; arbitrary for invalid sets."""
        listed = values
        if self.members is not None:
            listed = values[self.members.clamp(0, len(values) - 1)]
        # In double precision, because the differences below cancel sums over all labels.
        sums = torch.nn.functional.pad(listed.double().cumsum(0), (1, 0))
        first, stop = self.first.clamp(0, len(listed)), (self.last + 1).clamp(0, len(listed))
        return ((sums[stop] - sums[first]) / (stop - first).clamp(min=1)).to(values.dtype)

    def _ignored(self, ignore_index: int) -> Tensor:
        label = self.first
        if self.members is not None and len(self.members):
            inside = (label >= 0) & (label < len(self.members))
            label = torch.where(inside, self.members[torch.where(inside, label, 0)], label)
        return (self.first == self.last) & (label == ignore_index)

    def _named(self, labels: int) -> tuple[Tensor, Tensor]:
        """The labels that each set lists, padded with −1, `(batch, labels)`.

        Also returns which sets list more labels than there are, `(batch,)`.
        """
        members = self.first.new_zeros(1) if self.members is None else self.members
        if not len(members):
            members = self.first.new_full((1,), -1)
        place = self.first.unsqueeze(1) + torch.arange(labels, device=self.first.device)
        within = place <= self.last.unsqueeze(1)
        named = members[place.clamp(0, len(members) - 1)]
        return named.where(within, -1), self.last - self.first >= labels


def _occurring(named: Tensor, labels: int) -> Tensor:
    """A mask of the labels that occur in each row of `named`, ignoring those out of range."""
    inside = (named >= 0) & (named < labels)
    found = torch.zeros(len(named), labels + 1, dtype=torch.bool, device=named.device)
    return found.scatter(1, torch.where(inside, named, labels), True)[:, :labels]


def read_target(
    target: TargetOrSets,
    labels: int,
    batch_shape: torch.Size,
    like: Tensor,
    ignore_index: int | None = None,
    allow_empty: bool = False,
) -> tuple[SparseTarget, Tensor | None]:
    """Read a target of any form, and check its values.

    Args:
        target: see the table above; dense weights must have their label dimension last.
        labels: number of labels.
        batch_shape: shape of the predictions without their label dimension.
        like: a prediction, for dtype and device.
        ignore_index: the class id of examples that do not count.
        allow_empty: whether an example may have no labels.

    Returns:
        Labels and weights, `(batch, support)`, or `(1, support)` labels if shared; and a mask
        `(batch,)` of the examples that count, or None if all do.
    """
    read = read_form(target, labels, batch_shape, like)
    if isinstance(read, ReadSets):
        raise TypeError(
            "target must be class ids or weights, got a SetTarget: only WassersteinLoss supports "
            "sets of labels"
        )
    return read.checked(labels, like.dtype, ignore_index, allow_empty)


def read_form(
    target: TargetOrSets, labels: int, batch_shape: torch.Size, like: Tensor
) -> ReadTarget | ReadSets:
    """Convert a target to labels and weights, or to sets; arguments as in :func:`read_target`."""
    parts: tuple[Any, ...] = (target,)
    if isinstance(target, SparseTarget):
        parts = target.indices, target.weights
    elif isinstance(target, SetTarget):
        parts = target.first, target.members
    for part in parts:
        if isinstance(part, Tensor) and part.device != like.device:
            raise ValueError(
                f"target must be on the same device as the prediction ({like.device}), got "
                f"{part.device}"
            )
    if isinstance(target, SparseTarget):
        return _from_sparse(target, batch_shape)
    if isinstance(target, SetTarget):
        return _from_sets(target, batch_shape)
    if not isinstance(target, Tensor):
        raise TypeError(
            "target must be a tensor of class ids or weights, a SparseTarget or a SetTarget, got "
            f"{type(target).__name__}"
        )
    if target.layout != torch.strided:
        return _from_torch_sparse(target, (batch_shape.numel(), labels))
    if target.is_floating_point():
        return _from_dense(target, batch_shape, labels)
    return _from_class_ids(target, batch_shape, labels)


def _from_class_ids(ids: Tensor, batch_shape: torch.Size, labels: int) -> ReadTarget:
    if ids.dtype == torch.bool or ids.is_complex():
        raise TypeError(
            f"target must be integer class ids or floating weights, got {ids.dtype}"
            f"{_hint(ids, batch_shape, labels)}"
        )
    if ids.shape != batch_shape:
        raise ValueError(
            f"target must be class ids of shape {tuple(batch_shape)}, got integers of shape "
            f"{tuple(ids.shape)}{_hint(ids, batch_shape, labels)}"
        )
    return ReadTarget(ids.flatten().long(), None)


def _hint(ids: Tensor, batch_shape: torch.Size, labels: int) -> str:
    is_weights = sorted(ids.shape) == sorted((*batch_shape, labels))  # labels in any dimension
    return "; for weights over labels, convert them: target.float()" if is_weights else ""


def _checked_class_ids(
    ids: Tensor, labels: int, dtype: torch.dtype, ignore_index: int | None
) -> tuple[SparseTarget, Tensor | None]:
    """Convert class ids `(batch, 1)` to labels of weight 1, and a mask of those that count."""
    counts: Tensor | None = None
    if ignore_index is not None:
        ignored = ids == ignore_index
        ids, counts = ids.masked_fill(ignored, 0), ~ignored.squeeze(1)
    marks = _check_class_ids(ids, labels, ignore_index)
    if marks is None:
        if counts is not None and counts.all():
            counts = None
    else:
        ids = ids.clamp(0, labels - 1)  # keep lookups in range, even in marked examples
    return SparseTarget(ids, torch.ones_like(ids, dtype=dtype)).marked(marks), counts


@traceable(
    "check_class_ids(Tensor ids, int labels, int? ignore_index)",
    lambda ids, labels, ignore_index: ((ids < 0) | (ids >= labels)).squeeze(1),
)
def _check_class_ids(row: int, ids: Tensor, labels: int, ignore_index: int | None) -> str:
    ignoring = "" if ignore_index is None else f" (or ignore_index={ignore_index})"
    return (
        f"target must hold class ids in 0..{labels - 1}{ignoring}, got {int(ids[row])} for "
        f"example {row}"
    )


def _from_dense(y: Tensor, batch_shape: torch.Size, labels: int) -> ReadTarget:
    check_shape(y, (*batch_shape, labels), batch_shape)
    y = y.reshape(-1, labels)
    everything = torch.arange(labels, device=y.device).unsqueeze(0)  # (1, labels), shared
    if y.requires_grad or not _checks.can_read_values():
        # Keep labels of zero weight: they have a gradient, and traced shapes cannot depend on data.
        return ReadTarget(everything, y)
    support = int((y != 0).sum(1).max()) if len(y) else 0
    if 2 * support > labels:
        return ReadTarget(everything, y)
    return _from_torch_sparse(y.to_sparse(), y.shape)


def check_shape(y: Tensor, expected: tuple[int, ...], batch_shape: torch.Size) -> None:
    """Check that dense weights have the prediction's shape."""
    if y.shape != expected:
        raise ValueError(
            f"target must be weights of shape {expected}, or integer class ids of shape "
            f"{tuple(batch_shape)}, got {tuple(y.shape)}"
        )


def _from_torch_sparse(y: Tensor, shape: Sequence[int]) -> ReadTarget:
    if tuple(y.shape) != tuple(shape):
        raise ValueError(f"target must be a sparse matrix of shape {shape}, got {tuple(y.shape)}")
    coo = y.to_sparse_coo().coalesce()
    rows, columns = coo.indices()
    found = padded(rows, columns, coo.values(), shape[0])
    return ReadTarget(found.indices, found.weights)


def padded(rows: Tensor, columns: Tensor, values: Tensor, batch: int) -> SparseTarget:
    """Pad entries, sorted by row, to the length of the longest row."""
    counts = torch.bincount(rows, minlength=batch)
    width = max(1, int(counts.max())) if batch else 1
    place = torch.arange(len(rows), device=rows.device) - (counts.cumsum(0) - counts)[rows]
    indices = rows.new_zeros(batch, width).index_put((rows, place), columns)
    return SparseTarget(indices, values.new_zeros(batch, width).index_put((rows, place), values))


def _from_sparse(target: SparseTarget, batch_shape: torch.Size) -> ReadTarget:
    indices, weights = target.indices, target.weights
    if not (_is_strided(indices) and _is_strided(weights)):
        got = (p.layout if isinstance(p, Tensor) else type(p).__name__ for p in (indices, weights))
        raise TypeError(
            "target.indices and target.weights must be dense tensors, got "
            f"{' and '.join(map(str, got))}"
        )
    odd = indices.is_floating_point() or indices.is_complex() or indices.dtype == torch.bool
    if odd or not weights.is_floating_point():
        raise TypeError(
            "target must have integer indices and floating weights, got "
            f"{indices.dtype} and {weights.dtype}"
        )
    has_support = indices.dim() == len(batch_shape) + 1  # shape[:-1] is () even for a scalar
    if indices.shape != weights.shape or not has_support or indices.shape[:-1] != batch_shape:
        raise ValueError(
            f"target.indices and target.weights must have shape {(*batch_shape, 'support')}, got "
            f"{tuple(indices.shape)} and {tuple(weights.shape)}"
        )
    if len(batch_shape) != 1:
        flat = (batch_shape.numel(), indices.shape[-1])
        indices, weights = indices.reshape(flat), weights.reshape(flat)
    return ReadTarget(indices.long(), weights)


def _from_sets(target: SetTarget, batch_shape: torch.Size) -> ReadSets:
    if target.shape != batch_shape:
        raise ValueError(
            f"target must be sets of shape {tuple(batch_shape)}, got a SetTarget of shape "
            f"{tuple(target.shape)}"
        )
    return ReadSets(target.first.reshape(-1), target.last.reshape(-1), target.members)


def _invalid_sets(
    first: Tensor, last: Tensor, members: Tensor | None, labels: int, ignore_index: int | None
) -> Tensor:
    places = labels if members is None else len(members)
    wrong = (first > last) | (first < 0) | (last >= places)
    if members is None:
        return wrong
    named, too_many = ReadSets(first, last, members)._named(labels)
    known = _occurring(named, labels).sum(1)
    return wrong | too_many | (known <= last - first)  # an unknown label, or one named twice


@traceable(
    "check_sets(Tensor first, Tensor last, Tensor? members, int labels, int? ignore_index)",
    _invalid_sets,
)
def _check_sets(
    row: int,
    first: Tensor,
    last: Tensor,
    members: Tensor | None,
    labels: int,
    ignore_index: int | None,
) -> str:
    low, high = int(first[row]), int(last[row])
    if low > high:
        return f"target must allow at least one label per example, got none in example {row}"
    ignoring = "" if ignore_index is None else f" (or ignore_index={ignore_index} alone)"
    if members is not None and not 0 <= low <= high < len(members):
        return (
            f"target must have ranges within its {len(members)} members{ignoring}, got "
            f"{low}..{high} in example {row}"
        )
    if members is not None:
        named = members[low : high + 1].tolist()
        if len(set(named)) < len(named):
            return f"target must name each label once per example, got {named} in example {row}"
        wrong = next(label for label in named if not 0 <= label < labels)
    else:
        wrong = low if low < 0 else high
    return (
        f"target must hold sets of labels in 0..{labels - 1}{ignoring}, got {wrong} in "
        f"example {row}"
    )


def _no_measures(weights: Tensor, allow_empty: bool) -> Tensor:
    wrong = invalid_masses(weights, "target")
    return wrong & (weights != 0).any(1) if allow_empty else wrong


def _named_wrongly(indices: Tensor, weights: Tensor, labels: int) -> tuple[Tensor, Tensor]:
    """Masks of the examples that name unknown labels, and that name one twice, `(batch,)`."""
    used = weights > 0
    unknown = used & ((indices < 0) | (indices >= labels))
    ordered = torch.where(used, indices, -1).sort(dim=1).values
    twice = (ordered[:, 1:] == ordered[:, :-1]) & (ordered[:, 1:] >= 0)
    return unknown.any(1), twice.any(1)


def _invalid(weights: Tensor, indices: Tensor, labels: int, allow_empty: bool) -> Tensor:
    wrong = _no_measures(weights, allow_empty)
    if len(indices) != len(weights):  # shared indices hold every label once
        return wrong
    unknown, twice = _named_wrongly(indices, weights, labels)
    return wrong | unknown | twice


@traceable("check_target(Tensor weights, Tensor indices, int labels, bool allow_empty)", _invalid)
def _check(row: int, weights: Tensor, indices: Tensor, labels: int, allow_empty: bool) -> str:
    one = slice(row, row + 1)
    if _no_measures(weights[one], allow_empty):
        return explain_masses(row, weights, "target")
    unknown, _ = _named_wrongly(indices[one], weights[one], labels)
    expected = f"name labels in 0..{labels - 1}" if unknown else "name each label once per example"
    return f"target must {expected}, got {indices[row].tolist()} in example {row}"
