"""The base class of ground metrics: distances between labels, and transport costs."""

from __future__ import annotations

import copy
import math
import os
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal, SupportsIndex

import torch
from torch import Tensor

from wassloss._checks import at_least_single, can_read_values, check_count, check_strength
from wassloss.files import write_npz
from wassloss.ground import storage
from wassloss.ground._cost import (
    CostsByTile,
    Scale,
    blocks,
    check_scale,
    cost_of,
    finite_distance,
    held_cost,
    overflow,
)
from wassloss.ground._inputs import Numbers, check_labels, find_label, label_indices
from wassloss.ground._sets import between_ends, least_costs
from wassloss.ground.axioms import AxiomReport, axiom_report
from wassloss.ground.words import read_sets
from wassloss.sets import SetTarget

if TYPE_CHECKING:
    from typing_extensions import Self

_EXACT_MEDIAN = 2048  # most labels for which the median is over all pairs
_MEDIAN_COLUMNS = 256  # beyond, over pairs of this many evenly spaced labels with all labels
_WHOLE_COLUMNS, _MEDIAN_ROWS = 2**14, 2**12  # beyond the first, with the second number of labels


class GroundMetric(ABC):
    r"""K labels, the distance between any two, and the cost of moving mass between them.

    .. math:: M_{ij} = (d(i, j) / \text{scale})^{\text{power}},
        \qquad M_{ij} = 0 \text{ where } d(i, j) = 0

    so that ``power=0`` is the 0-1 metric for any distances. The main operation is
    :meth:`cost_columns`, the costs from all labels to a few. Sparse targets need nothing else, and
    only ``Matrix`` and ``Cost`` store a K x K matrix for it.

    Mass moves from label i of the prediction to label j of the target. Only ``Cost`` depends on
    that direction: all others are distances, symmetric and 0 from a label to itself.

    Ground metrics are immutable: :meth:`to` and :meth:`with_cost` return another one. They copy
    their inputs, except tensors that require grad. Treat the tensors they return as read-only.

    Args:
        power: exponent of the cost, at least 0.
        scale: divisor of distances: a number, the largest distance (``"max"``, which keeps costs
            in [0, 1] so that no power overflows), or the median distance between two different
            labels (``"median"``, exact up to 2048 labels, and beyond estimated from 256 evenly
            spaced labels). ``None`` is 1. It is computed once, on construction.
        labels: a name for each label.
    """

    _FIELDS: ClassVar[tuple[str, ...]]  # array arguments of the constructor, stored in files
    _OPTIONAL: ClassVar[tuple[str, ...]] = ()  # further ones that files may lack
    _LEARNED: ClassVar[str | None] = None  # the attribute that may require a gradient
    is_distance: ClassVar[bool] = True
    """Whether costs are symmetric, and 0 from a label to itself."""
    known_costs: Tensor | None = None
    """All costs if the metric is ``tabulated``, shape (K, K): row j is ``cost_columns(j)``."""
    largest_known_cost: float | None = None
    """The largest of ``known_costs``, if the metric is ``tabulated``."""
    label_order: Tensor | None = None
    """The labels in an order in which the metric's natural sets (intervals, subtrees) are ranges,
    shape (K,); None for numerical order."""
    _recast_costs: Tensor | None = None  # known_costs in another dtype

    def __init_subclass__(cls) -> None:
        if cls.__module__.startswith("wassloss.ground.") and "_FIELDS" in vars(cls):
            storage.KINDS[cls.__name__] = cls

    def __init__(
        self,
        size: int,
        *,
        like: Tensor,
        power: float = 1.0,
        scale: Scale = None,
        labels: Sequence[str] | None = None,
    ) -> None:
        # Subclasses set their tensors first, because a scale of "max" needs distances.
        self._anchor = like.new_zeros(())  # holds device and dtype
        self._size = size
        self._labels = check_labels(labels, size)
        self._power = check_strength("power", power)
        self._scale = self._resolved(check_scale(scale))

    @property
    def size(self) -> int:
        """The number of labels, K."""
        return self._size

    @property
    def power(self) -> float:
        """The exponent of the cost."""
        return self._power

    @property
    def scale(self) -> float:
        """The positive divisor of distances."""
        return self._scale

    @property
    def labels(self) -> tuple[str, ...] | None:
        """The labels' names, if any."""
        return self._labels

    @property
    def device(self) -> torch.device:
        """The device on which distances are computed."""
        return self._anchor.device

    @property
    def dtype(self) -> torch.dtype:
        """The floating-point type of distances and costs."""
        return self._anchor.dtype

    @property
    def requires_grad(self) -> bool:
        """Whether distances are differentiable in a tensor of the constructor."""
        # By name: torch.compile cannot look through vars(self) before torch 2.13.
        return self._LEARNED is not None and bool(getattr(self, self._LEARNED).requires_grad)

    def distance_columns(self, indices: int | Numbers) -> Tensor:
        """Distances from every label to a few chosen ones.

        Args:
            indices: integers of any shape, each in 0..K-1.

        Returns:
            Shape ``(*indices.shape, K)``: entry ``[..., i]`` is from label ``i`` to
            ``indices[...]``.

        >>> from wassloss.ground import Ordinal
        >>> Ordinal(4).distance_columns([3, 1])
        tensor([[3., 2., 1., 0.],
                [1., 0., 1., 2.]])
        """
        checked = label_indices(indices, self._size, self.device)
        columns = self._distance_columns(checked.reshape(-1))
        return columns.reshape(*checked.shape, self._size)

    def cost_columns(self, indices: int | Numbers) -> Tensor:
        """Costs from every label to a few chosen ones; shapes as in ``distance_columns``.

        >>> from wassloss.ground import Ordinal
        >>> Ordinal(4, power=2, scale="max").cost_columns(3)
        tensor([1.0000, 0.4444, 0.1111, 0.0000])
        """
        return self.unchecked_cost_columns(label_indices(indices, self._size, self.device))

    def unchecked_cost_columns(self, indices: Tensor) -> Tensor:
        """``cost_columns`` for int64 indices that are known to be in range and on this device."""
        if self.known_costs is not None:
            return self.known_costs[indices]
        columns = self._cost_columns(indices.reshape(-1))
        return columns.reshape(*indices.shape, self._size)

    def cost_rows(self, indices: int | Numbers) -> Tensor:
        """Costs from a few chosen labels to all: the costs of a decision, for each true label.

        For distances these equal ``cost_columns``; for :class:`Cost` they may differ.
        """
        return self.cost_columns(indices)

    def cost_between(self, first: int | Numbers, second: int | Numbers) -> Tensor:
        """Costs of chosen pairs of labels, without computing whole columns.

        Args:
            first: labels from which mass moves, integers of any shape, each in 0..K-1.
            second: labels to which it moves, of a shape that broadcasts with that of ``first``.

        >>> from wassloss.ground import Ordinal
        >>> Ordinal(4, power=2).cost_between([[0], [1]], [2, 3])
        tensor([[4., 9.],
                [1., 4.]])
        """
        one = label_indices(first, self._size, self.device)
        other = label_indices(second, self._size, self.device)
        try:
            one, other = torch.broadcast_tensors(one, other)
        except RuntimeError:
            raise ValueError(
                "first and second must have shapes that broadcast, got "
                f"{tuple(one.shape)} and {tuple(other.shape)}"
            ) from None
        if self.known_costs is not None:
            return self.known_costs[other, one]
        flat = self._distances_between(one.reshape(-1), other.reshape(-1))
        return cost_of(flat, self._power, self._scale).reshape(one.shape)

    def distance(self) -> Tensor:
        """All distances, shape (K, K): entry ``[i, j]`` is that from label i to label j."""
        return self._distance_columns(torch.arange(self._size, device=self.device))

    def cost(self) -> Tensor:
        """All costs, shape (K, K): entry ``[i, j]`` is that from label i to label j."""
        return cost_of(self.distance(), self._power, self._scale)

    def costs_to_sets(self, allowed: Tensor) -> Tensor:
        """Costs from every label to the nearest label of each set.

        Args:
            allowed: a mask of the labels in each set, shape (n, K), with at least one per row.

        Returns:
            Shape (n, K).

        >>> from wassloss.ground import Ordinal
        >>> Ordinal(5).costs_to_sets(torch.tensor([[False, True, True, False, False]]))
        tensor([[1., 0., 0., 1., 2.]])
        """
        return least_costs(self, allowed)

    def costs_to_ranges(self, first: Tensor, last: Tensor) -> Tensor | None:
        """``costs_to_sets`` for ranges of ``label_order``, given their ends, inclusive, shape (n,).

        This needs only one or two cost columns per set. Returns None if the ends do not determine
        the costs.
        """
        ends = self.nearest_ends(first, last)
        if ends is None:
            return None
        before, after = ends
        column = self.unchecked_cost_columns(before)
        other = column if after is before else self.unchecked_cost_columns(after)
        if self.label_order is None:
            return between_ends(column, other, first, last)
        order = self.label_order
        found = between_ends(column[:, order], other[:, order], first, last)
        place = torch.empty_like(order).scatter_(0, order, torch.arange(len(order)).to(order))
        return found[:, place]

    def nearest_ends(self, first: Tensor, last: Tensor) -> tuple[Tensor, Tensor] | None:
        """The label in each range that is nearest to all labels before it, and to all after it.

        Args:
            first: first places of ranges of ``label_order``, shape (n,).
            last: their last places, inclusive, shape (n,).

        Returns:
            Two tensors of labels, shape (n,), or the same tensor twice if they are equal; None if
            no such labels exist.
        """
        return None

    def orders_ranges_of(self, members: Tensor | None) -> bool:
        """Whether ``members``, or numerical order if None, is the order ``label_order``."""
        if members is self.label_order:
            return True
        if members is None or self.label_order is None or not can_read_values():
            return False
        return torch.equal(members, self.label_order)

    def axis_costs(self) -> tuple[Tensor, ...] | None:
        """Costs along each axis, (cells, cells), if labels form a grid and costs add up over axes.

        Returns None for other costs. Labels are numbered in row-major order.
        """
        return None

    def costs_by_tile(self) -> CostsByTile:
        """Return how a kernel computes a tile of costs: its name and its inputs per label."""
        return "rows", self.unchecked_cost_columns, None

    def max_cost(self) -> float:
        """The largest cost."""
        return held_cost(self._max_distance(), self._power, self._scale)

    def median_cost(self) -> float:
        """The (lower) median cost as in ``scale="median"``; 0 if there is only one label."""
        return held_cost(self._median_distance(), self._power, self._scale)

    def index(self, label: SupportsIndex | str) -> int:
        """The index of a label, given by its name or index."""
        return find_label(label, self._labels, self._size)

    def nearest(self, label: SupportsIndex | str, k: int) -> list[tuple[str | int, float]]:
        """The ``k`` labels nearest to ``label``, excluding itself, with their distances to it.

        Ties go to the smaller index; the list is shorter if there are fewer labels.

        >>> from wassloss.ground import Ordinal
        >>> Ordinal([1, 2, 4], labels=["good", "fair", "poor"]).nearest("poor", 2)
        [('fair', 2.0), ('good', 3.0)]
        """
        k = check_count("k", k)
        origin = self.index(label)
        distances, order = self.distance_columns(origin).detach().sort(stable=True)
        near = zip(order[: k + 1].tolist(), distances[: k + 1].tolist(), strict=True)
        found = [(self._name(i), d) for i, d in near if i != origin]
        return found[:k]

    def within(self, label: SupportsIndex | str, radius: float) -> list[str | int]:
        """The labels within a distance of ``label``, including itself, in the order of labels.

        The result can be passed to :meth:`target`.

        >>> from wassloss.ground import Ordinal
        >>> Ordinal([1, 2, 4], labels=["good", "fair", "poor"]).within("fair", 1)
        ['good', 'fair']
        """
        near = self.distance_columns(self.index(label)).detach() <= check_strength("radius", radius)
        return [self._name(i) for i in near.nonzero()[:, 0].tolist()]

    def target(self, sets: Iterable[Any]) -> SetTarget:
        """Parse names, lists and intervals of labels to a target of a loss.

        Args:
            sets: for each example a label, by name or number; or a list of labels, any of which
                may be the true one; or None for an example that does not count. A bar separates
                alternatives in one string, as in ``"cat|dog"``. :class:`Tree` and the metric of
                :func:`taxonomy` also accept inner nodes, and :class:`Ordinal` accepts intervals
                such as ``"3..5"``, ``">=4"`` and ``"<2"``.

        >>> from wassloss.ground import Ordinal, Tree
        >>> tree = Tree.from_paths([("animal", "dog"), ("animal", "cat"), ("plant", "rose")])
        >>> tree.target(["cat", "animal", "cat|rose"]).lists()
        [[1], [0, 1], [1, 2]]
        >>> Ordinal(6).target(["3", "3..5", ">=4", "<2", [0, 5]]).lists()
        [[3], [3, 4, 5], [4, 5], [0, 1], [0, 5]]
        """
        return read_sets(sets, self._size, self.label_order, self._ranges_of, self.device)

    def _ranges_of(self, label: SupportsIndex | str) -> list[tuple[int, int]]:
        """Parse a word or a number to ranges of ``label_order``."""
        if isinstance(label, str) and (self._labels is None or label not in self._labels):
            return self._ranges_of_word(label)
        place = self._place_of(self.index(label))
        return [(place, place)]

    def _ranges_of_word(self, word: str) -> list[tuple[int, int]]:
        """Parse a word that is not a label's name; raises a ValueError unless overridden."""
        raise AssertionError(f"{self.index(word)} is the label of {word!r}")

    def _place_of(self, label: int) -> int:
        order = self.label_order
        return label if order is None else int((order == label).nonzero()[0])

    def check_axioms(self) -> AxiomReport:
        """Check the axioms of the *distance*: symmetry, 0 only on the diagonal, triangles.

        ``d ** power`` with ``power > 1`` need not satisfy the triangle inequality, and transport
        does not require it. With a metric and power 1, the Wasserstein distance is itself a metric.
        At most 256 labels are checked, always the same ones.

        >>> from wassloss.ground import Matrix
        >>> print(Matrix([[0, 1, 5], [1, 0, 1], [5, 1, 0]]).check_axioms())
        not a metric (all 3 labels checked)
          symmetric: yes
          zero diagonal: yes
          distinct labels apart: yes
          triangle inequality: no, d(0, 2) exceeds d(0, 1) + d(1, 2) by 3
        """
        return axiom_report(self)

    def with_cost(
        self,
        *,
        power: float | None = None,
        scale: float | Literal["max", "median", "keep"] | None = "keep",
    ) -> Self:
        """Return a metric with another power or scale; ``power=None`` keeps the power.

        >>> from wassloss.ground import Ordinal
        >>> Ordinal(10, scale="max").with_cost(power=2)
        Ordinal(10, power=2, scale=9)
        """
        other = self._with_table(None, None)
        if power is not None:
            other._power = check_strength("power", power)
        if scale != "keep":
            other._scale = self._resolved(check_scale(scale))
        return other

    def in_medians(self) -> Self:
        """Return a metric with costs in units of the median cost between two different labels.

        Losses and estimators use these units. If the median is 0, the unit is the largest cost.

        >>> from wassloss.ground import Ordinal
        >>> Ordinal(10, power=2).in_medians()
        Ordinal(10, power=2, scale=3)
        """
        unit = finite_distance(self._median_distance()) or finite_distance(self._max_distance())
        return self.with_cost(scale=unit or None)

    def tabulated(self) -> Self:
        """Return a metric with all K x K costs precomputed, for many calls at moderate K.

        >>> from wassloss.ground import Ordinal
        >>> Ordinal(3).tabulated().cost_columns(2)
        tensor([2., 1., 0.])
        """
        every = self._distance_columns(torch.arange(self._size, device=self.device))
        costs = cost_of(every, self._power, self._scale).detach()
        largest = float(costs.max())
        if not math.isfinite(largest):
            raise overflow(costs.dtype, self._power, self._scale, float(self._max_distance()))
        return self._with_table(costs, largest)

    def known_costs_in(self, dtype: torch.dtype) -> Tensor | None:
        """``known_costs`` in another floating dtype, converted once."""
        costs = self.known_costs
        if costs is None or costs.dtype == dtype:
            return costs
        if self._recast_costs is None or self._recast_costs.dtype != dtype:
            self._recast_costs = costs.to(dtype)
        return self._recast_costs

    def to(
        self, device: torch.device | str | None = None, dtype: torch.dtype | None = None
    ) -> Self:
        """Move or convert the metric; returns self if device and dtype do not change."""
        if dtype is not None and not dtype.is_floating_point:
            raise TypeError(f"dtype must be a floating-point type, got {dtype}")
        if self._anchor.to(device=device, dtype=dtype) is self._anchor:
            return self
        other = copy.copy(self)
        other._recast_costs = None
        for name, value in vars(other).items():
            if isinstance(value, GroundMetric):
                setattr(other, name, value.to(device, dtype))
            elif isinstance(value, Tensor):
                kind = dtype if value.is_floating_point() else None
                moved = value.to(device=device, dtype=kind)
                if not torch.isfinite(moved).all():
                    raise ValueError(f"dtype must hold all values of {self!r}, got {dtype}")
                setattr(other, name, moved)
        return other

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the metric to an .npz file, atomically; :meth:`load` reads it."""
        write_npz(path, storage.to_arrays(self))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read a metric that :meth:`save` wrote; ``GroundMetric.load`` reads any kind.

        Raises:
            ValueError: if the file is damaged, holds something else, or requires pickle; the
                message names the file and the problem.

        >>> import tempfile
        >>> from wassloss.ground import GroundMetric, Ordinal
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     Ordinal(5, power=2, labels=list("abcde")).save(f"{folder}/grades.npz")
        ...     GroundMetric.load(f"{folder}/grades.npz")
        Ordinal(5, power=2)
        """
        found = storage.load(path)
        if not isinstance(found, cls):
            raise ValueError(
                f"{os.fspath(path)} is not a saved {cls.__name__}: it holds a "
                f"{type(found).__name__}; GroundMetric.load reads any metric"
            )
        return found

    def __repr__(self) -> str:
        power = f", power={self._power:g}" if self._power != 1 else ""
        scale = f", scale={self._scale:g}" if self._scale != 1 else ""
        return f"{type(self).__name__}({self._summary()}{power}{scale})"

    def _with_labels(self, labels: Sequence[str]) -> Self:
        """Return a metric with other names for the labels."""
        other = copy.copy(self)
        other._labels = check_labels(labels, self._size)
        return other

    def _with_table(self, costs: Tensor | None, largest: float | None) -> Self:
        other = copy.copy(self)
        other.known_costs, other._recast_costs, other.largest_known_cost = costs, None, largest
        return other

    @abstractmethod
    def _distance_columns(self, indices: Tensor) -> Tensor:
        """Distances of shape (n, K) for checked int64 indices of shape (n,)."""

    def _cost_columns(self, indices: Tensor) -> Tensor:
        """Costs of shape (n, K); overridden if they are cheaper to compute than distances."""
        return cost_of(self._distance_columns(indices), self._power, self._scale)

    def _distances_between(self, first: Tensor, second: Tensor) -> Tensor:
        """Distances (n,) of checked pairs; overridden if a pair is cheaper than a column."""
        chosen, place = second.unique(return_inverse=True)
        found = self._anchor.new_empty(len(first))
        start = 0
        for block in blocks(chosen, self._size):
            own = (place >= start) & (place < start + len(block))
            found[own] = self._distance_columns(block)[place[own] - start, first[own]]
            start += len(block)
        return found

    def _fields(self) -> Mapping[str, Any]:
        """The arrays named in ``_FIELDS``, from which ``_from_fields`` builds an equal metric."""
        return {name: getattr(self, name) for name in self._FIELDS}

    @classmethod
    def _from_fields(cls, fields: Mapping[str, Any], **common: Any) -> Self:
        return cls(**fields, **common)

    def _summary(self) -> str:
        return str(self._size)

    @torch.no_grad()
    def _max_distance(self) -> Tensor:
        """The largest distance, a detached scalar; overridden if the structure gives it."""
        every = torch.arange(self._size, device=self.device)
        largest = [self._distance_columns(b).max() for b in blocks(every, self._size)]
        return torch.stack(largest).max()

    @torch.no_grad()
    def _median_distance(self) -> Tensor:
        """The lower median distance between different labels, detached; 0 for one label."""
        if self._size == 1:
            return self._anchor
        chosen = every = torch.arange(self._size, device=self.device)
        if self._size > _EXACT_MEDIAN:
            chosen = every[:_MEDIAN_COLUMNS] * self._size // _MEDIAN_COLUMNS
        if self._size > _WHOLE_COLUMNS:
            others = every[:_MEDIAN_ROWS] * self._size // _MEDIAN_ROWS
            pairs = torch.cartesian_prod(others, chosen)
            apart = self._distances_between(*pairs[pairs[:, 0] != pairs[:, 1]].T)
        else:
            columns = [self._distance_columns(block) for block in blocks(chosen, self._size)]
            apart = torch.cat(columns)[every != chosen[:, None]]
        # Some devices lack a median in half precision, and float32 represents its values exactly.
        return at_least_single(apart).median().to(self.dtype)

    def _resolved(self, scale: float | Literal["max", "median"]) -> float:
        if not isinstance(scale, str):
            return scale
        value = finite_distance(self._max_distance() if scale == "max" else self._median_distance())
        if value > 0:
            return value
        advice = "pass scale='max' or a number" if scale == "median" else "pass scale=None"
        raise ValueError(f"scale={scale!r} is 0 over these {self._size} labels; {advice}")

    def _name(self, index: int) -> str | int:
        return index if self._labels is None else self._labels[index]
