"""Targets whose labels get other numbers."""

from __future__ import annotations

from torch import Tensor

from wassloss.targets import SparseTarget, Target, is_dense


def relabelled(target: Target, place: Tensor, labels: int) -> tuple[Target, Tensor]:
    """A target with label i moved to ``place[i]``, or taken away where that is -1.

    Args:
        target: over as many labels as ``place`` has.
        place: the new number of each label, all different but for -1.
        labels: how many there are afterwards.

    Returns:
        The target, and a mask `(n,)` of the examples that still have a label; the others' targets
        are not to be used.
    """
    if isinstance(target, SparseTarget):
        used = target.weights > 0
        moved = place[target.indices.masked_fill(~used, 0)]
        stays = used & (moved >= 0)
        return SparseTarget(moved.masked_fill(~stays, 0), target.weights * stays), stays.any(1)
    if is_dense(target):
        kept = (place >= 0).nonzero().squeeze(1)
        moved = target.new_zeros(len(target), labels).index_copy(1, place[kept], target[:, kept])
        return moved, (moved > 0).any(1)
    ids = place[target]
    return ids, ids >= 0
