r"""Nested sets of labels: intervals of a line, subtrees of a tree, balls, or any labels.

A family assigns each example a chain of sets, from a core to all labels, :math:`S_0 \subset S_1
\subset \dots`. One number per label describes it, the *mass before it*: the probability of the
largest set of the chain without the label, which is 0 for labels of the core. The labels whose mass
before them is at most `t` form a set of the chain, the smallest whose probability exceeds `t`.
These sets grow with `t` for any numbers, which is all that
:class:`~wassloss.decisions.Guarantee` requires.
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
# Share of the mass that is spread evenly, so that labels of probability 0 enter one by one, too.
_SPREAD = 1e-6
_DIGITS = 12  # masses are rounded to these decimals, so that sums equal up to rounding tie


class Family(Protocol):
    """A chain of sets for each example."""

    name: str

    def mass_before(self, p: Tensor) -> Tensor:
        """The mass before each label, `(batch, labels)`, of probabilities in double precision."""
        ...

    def word(self, chosen: list[int], names: Sequence[Any]) -> Any:
        """Format a set, given its labels in increasing order and the names of all labels."""
        ...


def family_of(metric: GroundMetric, sets: str | None) -> Family:
    """The family of a name, by default the natural one for the metric."""
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
    raise ValueError(f"metric must be a {kind} for sets={sets!r}, got {metric!r}")


def mass_before(family: Family, p: Tensor) -> Tensor:
    """The mass before each label, in pieces of bounded memory; equal sums tie despite rounding."""
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
        # The centre is always in the ball, whatever the cost of being right.
        costs.scatter_(1, centre[:, None], costs.amin(1, keepdim=True))
        ordered, labels = costs.sort(dim=1, stable=True)
        nearer = _exclusive(p.gather(1, labels))
        first = torch.searchsorted(ordered, ordered)  # labels at equal distance enter together
        return torch.empty_like(p).scatter_(1, labels, nearer.gather(1, first))

    word = AnyLabels.word


@dataclass
class Intervals:
    """Intervals of a line that grow from the most probable label to the more probable neighbour.

    For unimodal probabilities, these are the shortest intervals of their mass.
    """

    metric: Ordinal
    name = "interval"

    def mass_before(self, p: Tensor) -> Tensor:
        order = self.metric.positions.argsort(stable=True)
        p = p[:, order]
        batch, labels = p.shape
        rows, outside = torch.arange(batch, device=p.device), p.new_full((batch, 1), -1.0)
        walled = torch.cat([outside, p, outside], dim=1)  # intervals stop at both ends
        below = torch.cat([outside + 1, p.cumsum(1)], dim=1)
        low = high = p.argmax(1)
        mass = p[rows, low]
        before = torch.zeros_like(p)
        for _ in range(labels - 1):
            left, right = walled[rows, low], walled[rows, high + 2]
            # On a tie, grow to the side with more mass beyond the interval.
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
    """The labels below a node, on the path from the root that follows the heaviest child.

    The path contains every node with more than half of the mass. For such masses, a set is
    therefore the deepest node that has the mass.
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
            # A label at an inner node may itself be more probable than the labels below it.
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
    """The distinct sets of labels below nodes, from the root down.

    Returns:
        The first label of each set in preorder and one past its last, `(sets,)`; and the range of
        its children, which are consecutive sets, `(sets, 2)`.
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
    """The exclusive cumulative sum over labels."""
    sums = ordered.cumsum(1)
    return torch.cat([torch.zeros_like(sums[:, :1]), sums[:, :-1]], dim=1)
