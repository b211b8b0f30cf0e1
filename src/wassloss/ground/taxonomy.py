"""Distances of the classes of a taxonomy, as studies of how grave mistakes are measure them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch

from wassloss.ground._cost import CostKeywords
from wassloss.ground.matrix import Matrix
from wassloss.ground.tree import Tree

if TYPE_CHECKING:
    from typing_extensions import Unpack


def lca_heights(paths: Sequence[Sequence[str]], **cost: Unpack[CostKeywords]) -> Matrix:
    """The height of the lowest common ancestor of each two classes.

    A notion is as high as its farthest class is below it. Path lengths, as :meth:`Tree.from_paths`
    measures, grow where a branch is finely divided; these heights depend on what two classes have
    in common.

    Args:
        paths: of each class, the notions from the top down to it, the class itself last.
        **cost: ``power`` and ``scale``; see :class:`GroundMetric`.

    >>> metric = lca_heights([("animal", "dog", "husky"), ("animal", "dog", "pug"), ("truck",)])
    >>> metric.distance_columns(metric.index("husky"))
    tensor([0., 1., 3.])
    """
    labels = Tree.from_paths(paths).labels
    members: dict[tuple[str, ...], list[int]] = {}
    for label, path in enumerate(paths):
        for depth in range(len(path) + 1):
            members.setdefault(tuple(path[:depth]), []).append(label)
    distance = np.zeros((len(paths), len(paths)))
    for node in sorted(members, key=len):  # those further down overwrite what is above them
        own = members[node]
        distance[np.ix_(own, own)] = max(len(paths[label]) for label in own) - len(node)
    np.fill_diagonal(distance, 0)
    table = torch.from_numpy(distance).to(torch.get_default_dtype())
    return Matrix(table, labels=labels, **cost)
