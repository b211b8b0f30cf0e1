"""Named notions above labels: the nodes of a tree or a taxonomy."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import SupportsIndex


@dataclass(frozen=True)
class Notions:
    """Named nodes of a directed acyclic graph.

    Attributes:
        names: the name of each node; empty for an unnamed root.
        parents: the parents of each node.
        labels: the node of each label.
        label_names: the names of the labels, if any, which take precedence over those of nodes.
    """

    names: tuple[str, ...]
    parents: tuple[tuple[int, ...], ...]
    labels: tuple[int, ...]
    label_names: tuple[str, ...] | None

    @cached_property
    def shown(self) -> tuple[str, ...]:
        """A unique name for each node: its own name or, if that is not unique, its path."""
        own = dict(zip(self.labels, self.label_names or (), strict=False))
        return tuple(
            own.get(node, name if len(self._named[name]) == 1 else self._path(node))
            for node, name in enumerate(self.names)
        )

    def names_of(self, nodes: Iterable[int]) -> list[str]:
        """Names as in `shown`, except for an unnamed root."""
        return [self.shown[node] for node in nodes if self.shown[node]]

    def find(self, name: str) -> int:
        """Find a node by its name, or by its path of names from the top, joined with ``/``."""
        if name in self._label_nodes:
            return self._label_nodes[name]
        found = self._named.get(name, []) or self._at_path.get(name, [])
        if len(found) == 1:
            return found[0]
        if found:
            paths = " or ".join(repr(self._path(node)) for node in found[:3])
            raise ValueError(f"{name!r} must name one node, got {len(found)}: write {paths}")
        known = dict.fromkeys([*self._label_nodes, *self.shown])
        close = difflib.get_close_matches(name, known)
        hint = f"; did you mean {' or '.join(map(repr, close))}?" if close else ""
        raise ValueError(f"{name!r} is neither a label nor a node above one{hint}")

    def above(self, node: int) -> set[int]:
        """A node and its ancestors."""
        found, waiting = {node}, [node]
        while waiting:
            fresh = set(self.parents[waiting.pop()]) - found
            found |= fresh
            waiting.extend(fresh)
        return found

    def lowest_common(self, nodes: Iterable[int]) -> list[int]:
        """The lowest common ancestors: those that are not above another common ancestor."""
        common = set.intersection(*(self.above(node) for node in nodes))
        higher = {
            up for node in common for parent in self.parents[node] for up in self.above(parent)
        }
        return sorted(common - higher)

    def labels_below(self, node: int) -> list[int]:
        """The labels at or below a node."""
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
            if name:  # the extra leaf of a label at an inner node has no name
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
    """Mixin for metrics with notions above their labels."""

    _notions: Notions | None
    index: Callable[[SupportsIndex | str], int]

    @property
    def nodes(self) -> tuple[str, ...]:
        """Names of all nodes, including labels; a node whose name is not unique has its path."""
        notions = self._known()
        return tuple(notions.names_of(range(len(notions.names))))

    def parents(self, label: SupportsIndex | str) -> list[str]:
        """The parents of a label, or of a node given by its name."""
        notions = self._known()
        return notions.names_of(notions.parents[self._node(label)])

    def lowest_common(self, labels: Sequence[SupportsIndex | str]) -> list[str]:
        """The lowest common ancestors of labels or nodes; in a tree, one (none if unnamed)."""
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
                f"nodes of {self!r} must have names: build it with from_paths, or pass names=[...]"
            )
        return self._notions
