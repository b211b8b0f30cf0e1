r"""Nested sets of labels: intervals of a line, subtrees of a tree, balls, or any labels.

A family gives each example a chain of sets, from a core to all labels, :math:`S_0 \subset S_1
\subset \dots`. It is described by one number per label, the *mass before it*: the probability of
the largest set of the chain without the label, 0 for the core. The labels whose mass before them is
at most `t` are then a set of the chain, the smallest whose probability exceeds `t`. Such sets grow
with `t`, whatever the numbers: nothing else is needed for :class:`~wassloss.decisions.Guarantee`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from wassloss._checks import check_choice
from wassloss._memory import largest_block, pieces
from wassloss.decisions._argmin import least_expected
from wassloss.ground import Discrete, GroundMetric, Ordinal, Tree

SETS = ("interval", "subtree", "ball", "any")
# A share of the mass is spread evenly, so that labels of no probability enter one by one, too.
_SPREAD = 1e-6
_DIGITS = 12  # of masses: sums that are equal but for rounding tie


class Family(Protocol):
    """A chain of sets for each example."""

    name: str

    def mass_before(self, p: Tensor) -> Tensor:
        """The mass before each label, `(batch, labels)`, of probabilities in double precision."""
        ...

    def word(self, chosen: list[int], names: Sequence[Any]) -> Any:
        """A set in words: labels in increasing order, which have these names."""
        ...


def family_of(metric: GroundMetric, sets: str | None) -> Family:
    """The family that this word names, or the metric's natural one."""
    if sets is None:
        natural = {Ordinal: "interval", Tree: "subtree", Discrete: "any"}
        sets = next((word for kind, word in natural.items() if isinstance(metric, kind)), "ball")
    if sets == "any":
        return AnyLabels()
    if sets == "ball":
        return Balls(metric)
    if sets == "interval" and isinstance(metric, Ordinal):
        return Intervals(metric)
    if sets == "subtree" and isinstance(metric, Tree):
        return Subtrees(metric)
    check_choice("sets", sets, SETS)
    kind = "Ordinal" if sets == "interval" else "Tree"
    raise ValueError(f"sets={sets!r} must come with a metric of kind {kind}, got {metric!r}")


def mass_before(family: Family, p: Tensor) -> Tensor:
    """The mass before each label, in pieces of bounded memory, with equal sums made equal."""
    p = (1 - _SPREAD) * p + _SPREAD / p.shape[1]
    budget = largest_block(p.device)
    parts = [family.mass_before(p[rows]) for rows in pieces(len(p), p.shape[1], budget)]
    return torch.cat([p.new_empty(0, p.shape[1]), *parts]).round(decimals=_DIGITS)


class AnyLabels:
    """The most probable labels: the fewest that have a given mass."""

    name = "any"

    def mass_before(self, p: Tensor) -> Tensor:
        ordered, labels = p.sort(dim=1, descending=True, stable=True)
        return torch.empty_like(p).scatter_(1, labels, _exclusive(ordered))

    def word(self, chosen: list[int], names: Sequence[Any]) -> Any:
        return [names[label] for label in chosen]


@dataclass
class Balls:
    """The labels within a radius of the label of least expected cost."""

    metric: GroundMetric
    name = "ball"

    def mass_before(self, p: Tensor) -> Tensor:
        centre = least_expected(p.to(torch.promote_types(p.dtype, self.metric.dtype)), self.metric)
        centres, place = centre.unique(return_inverse=True)
        costs = self.metric.cost_rows(centres)[place].double()
        costs.scatter_(1, centre[:, None], costs.amin(1, keepdim=True))  # the centre is in
        ordered, labels = costs.sort(dim=1, stable=True)
        nearer = _exclusive(p.gather(1, labels))
        first = torch.searchsorted(ordered, ordered)  # the labels of one distance enter together
        return torch.empty_like(p).scatter_(1, labels, nearer.gather(1, first))

    word = AnyLabels.word


@dataclass
class Intervals:
    """Intervals of a line, grown from the most probable label to the more probable neighbour.

    Where probabilities fall off to both sides, these are the shortest intervals of their mass.
    """

    metric: Ordinal
    name = "interval"

    def mass_before(self, p: Tensor) -> Tensor:
        order = self.metric.positions.argsort(stable=True)
        p = p[:, order]
        batch, labels = p.shape
        rows, outside = torch.arange(batch, device=p.device), p.new_full((batch, 1), -1.0)
        walled = torch.cat([outside, p, outside], dim=1)  # no interval grows over the end
        below = torch.cat([outside + 1, p.cumsum(1)], dim=1)
        low = high = p.argmax(1)
        mass = p[rows, low]
        before = torch.zeros_like(p)
        for _ in range(labels - 1):
            left, right = walled[rows, low], walled[rows, high + 2]
            # Of equal neighbours, the one with more beyond it.
            more = below[:, -1] - below[rows, high + 1] > below[rows, low]
            upward = (right > left) | ((right == left) & more)
            low, high = torch.where(upward, low, low - 1), torch.where(upward, high + 1, high)
            before[rows, torch.where(upward, high, low)] = mass
            mass = mass + torch.where(upward, right, left)
        return torch.empty_like(before).index_copy_(1, order, before)

    def word(self, chosen: list[int], names: Sequence[Any]) -> Any:
        along = sorted(chosen, key=self.metric.positions.tolist().__getitem__)
        low, high = names[along[0]], names[along[-1]]
        return low if len(chosen) == 1 else f"{low}..{high}"


class Subtrees:
    """The labels below a node, on the way down from the root to the heavier child each time.

    Every node with more than half of the mass is on this way, so where a set has to be that likely
    it is the deepest node that is.
    """

    name = "subtree"

    def __init__(self, metric: Tree) -> None:
        self.metric = metric
        self.order = metric.label_position.argsort(stable=True)
        self.first, self.last, self.children = _laminar(metric, self.order)

    def mass_before(self, p: Tensor) -> Tensor:
        below = torch.cat([p.new_zeros(len(p), 1), p[:, self.order].cumsum(1)], dim=1)
        first, last, children = (x.to(p.device) for x in (self.first, self.last, self.children))
        mass = below[:, last] - below[:, first]  # (batch, nodes)
        place = torch.arange(p.shape[1], device=p.device)
        widest = torch.arange(int((children[:, 1] - children[:, 0]).max()), device=p.device)
        node = torch.zeros(len(p), dtype=torch.long, device=p.device)  # the root
        before = torch.zeros_like(p)
        while len(widest):
            start, stop = children[node].T[:, :, None]
            offered = start + widest  # (batch, children)
            weight = mass.gather(1, offered.clamp(max=mass.shape[1] - 1))
            most, best = weight.masked_fill(offered >= stop, 0.0).max(1, keepdim=True)
            # A label that is no leaf may itself be likelier than all below it.
            own = mass.gather(1, node[:, None]) - weight.masked_fill(offered >= stop, 0.0).sum(
                1, True
            )
            further = (stop > start) & (most >= own)
            heavier = torch.where(further, start + best, node[:, None])[:, 0]
            if torch.equal(heavier, node):
                break
            left_out = (place >= first[node, None]) & (place < last[node, None])
            left_out &= (place < first[heavier, None]) | (place >= last[heavier, None])
            before = torch.where(left_out, mass.gather(1, heavier[:, None]), before)
            node = heavier
        return torch.empty_like(before).index_copy_(1, self.order.to(p.device), before)

    def word(self, chosen: list[int], names: Sequence[Any]) -> Any:
        if len(chosen) == 1:
            return names[chosen[0]]
        try:
            above = self.metric.lowest_common(chosen)
        except ValueError:  # nodes without names
            return [names[label] for label in chosen]
        return above[0] if above else "any"  # the root of paths has no name


def _laminar(metric: Tree, order: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The different sets of labels below nodes, from the root down.

    Returns:
        For each set where it begins and ends among the labels in preorder, and its children,
        `(sets, 2)`. Children of a set follow one another.
    """
    position = metric.label_position[order].cpu()
    starts = torch.arange(len(metric.subtree_end))
    ends = (torch.searchsorted(position, x.cpu()).tolist() for x in (starts, metric.subtree_end))
    ranges = {(first, last) for first, last in zip(*ends, strict=True) if first < last}
    above: dict[tuple[int, int], tuple[int, int]] = {}
    depth: dict[tuple[int, int], int] = {}
    way: list[tuple[int, int]] = []
    for each in sorted(ranges, key=lambda ends: (ends[0], -ends[1])):
        while way and way[-1][1] < each[1]:
            way.pop()
        if way:
            above[each] = way[-1]
        depth[each] = len(way)
        way.append(each)
    found = sorted(depth, key=lambda each: (depth[each], each))
    place = {each: i for i, each in enumerate(found)}
    children = torch.zeros(len(found), 2, dtype=torch.long)
    for each in found[1:]:
        own = children[place[above[each]]]
        if not own[1]:
            own[0] = place[each]
        own[1] = place[each] + 1
    first, last = torch.tensor(found).T
    return first, last, children


def _exclusive(ordered: Tensor) -> Tensor:
    """The sum of what is before each entry."""
    sums = ordered.cumsum(1)
    return torch.cat([torch.zeros_like(sums[:, :1]), sums[:, :-1]], dim=1)
