"""Labels in a tree: each edge carries the imbalance of the mass below it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from wassloss.ground import Tree
from wassloss.transport.network_simplex import simplex_plan
from wassloss.transport.problem import Problem
from wassloss.transport.solution import Solution
from wassloss.transport.solver import Solver


@dataclass(frozen=True)
class TreeFlow(Solver):
    """Exact transport in a tree at `power=1`: `Σ_edges length · |h − y below it|`, O(nodes).

    In preorder a subtree is an interval, so the mass below every edge is a difference of two
    prefix sums, and so is the sum over a label's ancestors that its potential needs.
    """

    traceable: ClassVar[bool] = True

    @classmethod
    def applies(cls, problem: Problem) -> bool:
        metric = problem.metric
        return problem.objective.exact and isinstance(metric, Tree) and metric.power == 1

    def solve(self, problem: Problem, start: Tensor | None = None) -> Solution:
        tree = problem.metric
        if not isinstance(tree, Tree):
            raise TypeError(f"metric must be Tree for a problem in a tree, got {tree!r}")
        batch, dtype = problem.batch, problem.log_h.dtype
        length = tree.edge_length.to(dtype) / tree.scale  # (nodes,)
        surplus = length.new_zeros(batch, len(length))
        surplus.index_add_(1, tree.label_position, problem.log_h.exp() - problem.dense_target())

        prefix = torch.cat([surplus.new_zeros(batch, 1), surplus.cumsum(1)], 1)
        below = prefix[:, tree.subtree_end] - prefix[:, :-1]  # (batch, nodes)
        toll = length * below.sign()
        # Add each node's toll to all positions of its subtree, [x, end): a difference array.
        entering = torch.cat([toll, toll.new_zeros(batch, 1)], 1)
        total = entering.index_add(1, tree.subtree_end, -toll).cumsum(1)
        f = total[:, tree.label_position]
        value = (length * below.abs()).sum(1)
        return Solution.exact(problem, value, f, -problem.on_support(f), simplex_plan)
