"""Notions above labels: the nodes of a tree or of a taxonomy, by name."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import SupportsIndex


@dataclass(frozen=True)
class Notions:
    """Nodes with names, each below some others.

    Attributes:
        names: of each node; empty for a root without one.
        parents: the nodes directly above each.
        labels: the node of each label.
        label_names: the labels' own names, if any; they go before those of nodes.
    """

    names: tuple[str, ...]
    parents: tuple[tuple[int, ...], ...]
    labels: tuple[int, ...]
    label_names: tuple[str, ...] | None

    @cached_property
    def shown(self) -> tuple[str, ...]:
        """A name for each node that no other has: its own, or its path where others share it."""
        own = dict(zip(self.labels, self.label_names or (), strict=False))
        return tuple(
            own.get(node, name if len(self._named[name]) == 1 else self._path(node))
            for node, name in enumerate(self.names)
        )

    def names_of(self, nodes: Iterable[int]) -> list[str]:
        """Names as in `shown`, but for a root without one."""
        return [self.shown[node] for node in nodes if self.shown[node]]

    def find(self, name: str) -> int:
        """The node of a name, or of a path of names from the top, joined with ``/``."""
        if name in self._label_nodes:
            return self._label_nodes[name]
        found = self._named.get(name, []) or self._at_path.get(name, [])
        if len(found) == 1:
            return found[0]
        if found:
            paths = " or ".join(repr(self._path(node)) for node in found[:3])
            raise ValueError(
                f"{name!r} must be one node, got the name of {len(found)}: say {paths}"
            )
        known = dict.fromkeys([*self._label_nodes, *self.shown])
        close = difflib.get_close_matches(name, known)
        hint = f"; did you mean {' or '.join(map(repr, close))}?" if close else ""
        raise ValueError(f"{name!r} is neither a label nor a node above one{hint}")

    def above(self, node: int) -> set[int]:
        """A node and all those above it."""
        found, waiting = {node}, [node]
        while waiting:
            fresh = set(self.parents[waiting.pop()]) - found
            found |= fresh
            waiting.extend(fresh)
        return found

    def lowest_common(self, nodes: Iterable[int]) -> list[int]:
        """The nodes above all of these without another such node below them."""
        common = set.intersection(*(self.above(node) for node in nodes))
        higher = {
            up for node in common for parent in self.parents[node] for up in self.above(parent)
        }
        return sorted(common - higher)

    def labels_below(self, node: int) -> list[int]:
        """The labels at a node and below it."""
        return [label for label, own in enumerate(self.labels) if node in self.above(own)]

    @cached_property
    def _label_nodes(self) -> dict[str, int]:
        return dict(zip(self.label_names or (), self.labels, strict=False))

    @cached_property
    def _named(self) -> dict[str, list[int]]:
        found: dict[str, list[int]] = {}
        for node, name in enumerate(self.names):
            found.setdefault(name, []).append(node)
        return found

    @cached_property
    def _at_path(self) -> dict[str, list[int]]:
        found: dict[str, list[int]] = {}
        for node, name in enumerate(self.names):
            if name:  # a label that is an inner node may have a leaf of its own, without a name
                found.setdefault(self._path(node), []).append(node)
        return found

    def _path(self, node: int) -> str:
        """Names from the top down, by the first parent of each."""
        names = [self.names[node]]
        while self.parents[node]:
            node = self.parents[node][0]
            names.append(self.names[node])
        return "/".join(name for name in reversed(names) if name)


class Hierarchy:
    """What metrics with notions above their labels share."""

    _notions: Notions | None
    index: Callable[[SupportsIndex | str], int]

    @property
    def nodes(self) -> tuple[str, ...]:
        """Names of all nodes, labels among them; the path where a name occurs more than once."""
        notions = self._known()
        return tuple(notions.names_of(range(len(notions.names))))

    def parents(self, label: SupportsIndex | str) -> list[str]:
        """The nodes directly above a label, or above a node given by its name."""
        notions = self._known()
        return notions.names_of(notions.parents[self._node(label)])

    def lowest_common(self, labels: Sequence[SupportsIndex | str]) -> list[str]:
        """The lowest nodes above all of these labels or nodes: in a tree, one or its root."""
        nodes = [self._node(label) for label in labels]
        if not nodes:
            raise ValueError("labels must hold at least one label, got none")
        notions = self._known()
        return notions.names_of(notions.lowest_common(nodes))

    def _node(self, label: SupportsIndex | str) -> int:
        notions = self._known()
        if isinstance(label, str):
            return notions.find(label)
        return notions.labels[self.index(label)]

    def _known(self) -> Notions:
        if self._notions is None:
            raise ValueError(
                f"nodes of {self!r} have no names: build it with from_paths, or with names=[...]"
            )
        return self._notions
