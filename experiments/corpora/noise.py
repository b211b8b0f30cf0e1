"""Degrade labels: flip them to neighbours, drop tags, or thin out near-synonyms."""

from __future__ import annotations

from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.spatial.distance import squareform
from torch import Tensor

from experiments.lab.checks import check_count, check_seed
from wassloss import SparseTarget
from wassloss.ground import GroundMetric

_CHUNK = 256  # number of labels whose distances are in memory at once
_ROWS = 64  # examples processed together


def flip_labels(
    classes: Tensor,
    metric: GroundMetric,
    probability: float,
    *,
    nearest: int | None = None,
    radius: float | None = None,
    seed: int = 0,
) -> Tensor:
    """Flip each label with some probability to one of its neighbours, all equally likely.

    Neighbours are either the ``nearest`` labels, of this number, or those within ``radius``, in
    distances of the metric (not costs: ``power`` and ``scale`` have no effect).

    Args:
        classes: class ids `(n,)`.
        metric: ground metric of the labels.
        probability: of a flip, independently for each example.
        nearest: number of neighbours of a label; ties go to the smaller label.
        radius: largest distance of a neighbour.
        seed: of the random draw.

    Returns:
        Class ids `(n,)`.

    >>> import torch, wassloss as wl
    >>> flip_labels(torch.zeros(5, dtype=torch.long), wl.ground.Ordinal(9), 1.0, radius=2, seed=3)
    tensor([1, 1, 1, 2, 1])
    """
    _check_probability(probability)
    if classes.dim() != 1 or classes.is_floating_point() or classes.dtype == torch.bool:
        raise TypeError(
            f"classes must be class ids of shape (n,), got {classes.dtype} of shape "
            f"{tuple(classes.shape)}"
        )
    if (nearest is None) == (radius is None):
        raise ValueError(f"give either nearest or radius, got {nearest} and {radius}")
    rng = np.random.default_rng(check_seed("seed", seed))
    # Draw for every example, so that the flips of one label do not depend on another's neighbours.
    flips = rng.random(len(classes)) < probability
    picks = rng.random(len(classes))
    flipped = classes.clone()
    rows = torch.from_numpy(np.flatnonzero(flips))
    rows = rows[classes[rows].argsort(stable=True)]  # by label
    present, counts = classes[rows].unique(return_counts=True)
    each = iter(rows.split(counts.tolist()))
    for labels in present.split(_CHUNK):
        distances = metric.distance_columns(labels).detach().cpu()  # (chunk, labels)
        for label, row in zip(labels.tolist(), distances, strict=True):
            near = _neighbours(label, row, nearest, radius)
            own = next(each)
            chosen = (picks[own.numpy()] * len(near)).astype(np.int64)
            flipped[own] = near[torch.from_numpy(chosen)].to(flipped.dtype)
    return flipped


def _neighbours(label: int, distances: Tensor, nearest: int | None, radius: float | None) -> Tensor:
    if nearest is not None:
        order = distances.sort(stable=True).indices
        near = order[order != label][: check_count("nearest", nearest)]
    else:
        near = (distances <= (radius or 0.0)).nonzero().squeeze(1)
        near = near[near != label]
    if len(near) == 0:
        raise ValueError(
            f"every label to be flipped must have a neighbour, but label {label} has none; widen "
            "the radius"
        )
    return near


def drop_tags(target: SparseTarget, probability: float, *, seed: int = 0) -> SparseTarget:
    """Drop each tag with some probability, to simulate incomplete tagging.

    An example that would lose all its tags keeps a random one, because an example without tags
    carries no information. The remaining weights are scaled to the example's mass.

    >>> import torch, wassloss as wl
    >>> tags = wl.SparseTarget(torch.tensor([[0, 1, 2, 3]]), torch.full((1, 4), 0.25))
    >>> drop_tags(tags, 0.5, seed=1).weights
    tensor([[0.3333, 0.3333, 0.0000, 0.3333]])
    """
    _check_probability(probability)
    rng = np.random.default_rng(check_seed("seed", seed))
    used = (target.weights > 0).numpy()
    kept = used & (rng.random(used.shape) >= probability)
    survivor = np.where(used, rng.random(used.shape), -1.0).argmax(1)
    lost = np.flatnonzero(used.any(1) & ~kept.any(1))
    kept[lost, survivor[lost]] = True
    return _keeping(target, kept)


def reduce_redundancy(
    target: SparseTarget,
    metric: GroundMetric,
    threshold: float = 1.3,
    *,
    method: Literal["complete", "average", "single"] = "complete",
    seed: int = 0,
) -> SparseTarget:
    """Keep one random tag of each cluster of near-synonyms, as a single annotator might.

    The tags of an example are clustered by their distance, and one tag of each cluster is drawn
    (the paper, appendix: "a threshold of semantic distance 1.3"). The paper does not name the
    linkage. The default, complete linkage, matches its words: any two tags of a cluster are within
    the threshold of each other. The others chain tags through intermediate ones, and 1.3 is wide
    (the median distance of two tags of Flickr8k is 1.29): of 8.1 tags per photograph, single
    linkage leaves 1.0, average linkage 1.3, complete linkage 2.2.

    Args:
        target: tags.
        metric: ground metric of the tags.
        threshold: distance up to which tags count as the same.
        method: linkage.
        seed: of the random draw.

    Returns:
        The remaining tags, scaled to the mass of each example.
    """
    if not 0 <= threshold < np.inf:
        raise ValueError(f"threshold must be a finite number, at least 0, got {threshold}")
    if method not in ("complete", "average", "single"):
        raise ValueError(f"method must be 'complete', 'average' or 'single', got {method!r}")
    rng = np.random.default_rng(check_seed("seed", seed))
    indices, used = target.indices.numpy(), (target.weights > 0).numpy()
    kept = np.zeros_like(used)
    for rows in np.array_split(np.arange(len(used)), -(-len(used) // _ROWS)):
        tags = np.unique(indices[rows][used[rows]])
        distances = metric.distance_columns(tags).detach()[:, torch.from_numpy(tags)]
        table = (distances + distances.T).double().numpy() / 2
        for row in rows:
            places = np.flatnonzero(used[row])
            own = np.searchsorted(tags, indices[row, places])
            clusters = _clusters(table[np.ix_(own, own)], threshold, method)
            order = rng.permutation(len(places))
            _, first = np.unique(clusters[order], return_index=True)
            kept[row, places[order[first]]] = True
    return _keeping(target, kept)


def _clusters(distances: NDArray[np.float64], threshold: float, method: str) -> NDArray[np.int32]:
    if len(distances) < 2:
        return np.zeros(len(distances), dtype=np.int32)
    joined = linkage(squareform(distances, checks=False), method)
    clusters: NDArray[np.int32] = fcluster(joined, threshold, "distance")
    return clusters


def _keeping(target: SparseTarget, kept: NDArray[np.bool_]) -> SparseTarget:
    weights = target.weights * torch.from_numpy(kept)
    left, before = weights.sum(1, keepdim=True), target.weights.sum(1, keepdim=True)
    scaled = torch.where(left > 0, weights * (before / left), weights)
    return SparseTarget(target.indices, scaled)


def _check_probability(probability: float) -> None:
    if not 0 <= probability <= 1:
        raise ValueError(f"probability must be between 0 and 1, got {probability}")
