"""Synthetic data: the paper's noisy lattice, and random transport problems."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from experiments.corpora.noise import flip_labels
from experiments.lab.checks import check_count, check_seed
from experiments.lab.dataset import Dataset
from wassloss.ground import Embedding, Grid


def lattice(
    side: int,
    noise: float,
    *,
    train: int = 100,
    test: int = 100,
    spread: float = 0.2,
    seed: int = 0,
) -> Dataset:
    """Classes on a square lattice, some training labels flipped to a neighbour (paper, figure 2).

    Each vertex of a ``side`` × ``side`` lattice is a class, whose examples are drawn around it from
    an isotropic Gaussian in the plane. A training label is flipped with probability ``noise`` to
    one of the adjacent vertices, all equally likely; test labels are true. The suggested ground
    metric is the distance in the plane, with neighbours at distance 1.

    The paper takes ``side`` from 3 to 7 and ``noise`` from 0.1 to 0.9, ten times each. It states
    neither the number of examples nor the width of the Gaussians: the defaults are ours.

    Args:
        side: vertices along a side.
        noise: probability of a flip.
        train: training examples per class.
        test: test examples per class.
        spread: standard deviation of the Gaussians.
        seed: of all random numbers; different seeds give independent data.

    >>> data = lattice(3, noise=0.5)
    >>> data
    Dataset('lattice', 1800 examples, 2 features, 9 labels, 900 train, 900 test)
    """
    side = check_count("side", side)
    train, test = check_count("train", train), check_count("test", test)
    if not 0 < spread < np.inf:
        raise ValueError(f"spread must be positive, got {spread}")
    metric = Grid((side, side))
    positions, flips = np.random.SeedSequence(check_seed("seed", seed)).spawn(2)
    true = torch.arange(side * side).repeat_interleave(train + test)
    vertices = torch.stack([true // side, true % side], 1)  # (examples, 2)
    rng = np.random.default_rng(positions)
    offsets = torch.from_numpy(rng.standard_normal(vertices.shape, dtype=np.float32))
    in_train = torch.arange(len(true)) % (train + test) < train
    target = true.clone()
    if side > 1:
        flip_seed = int(flips.generate_state(1)[0])
        target[in_train] = flip_labels(true[in_train], metric, noise, radius=1.0, seed=flip_seed)
    return Dataset(
        vertices + spread * offsets,
        target,
        parts={"train": in_train, "test": ~in_train},
        metric=metric,
        name="lattice",
        provenance=(
            f"made by synthetic.lattice({side}, noise={noise:g}, train={train}, test={test}, "
            f"spread={spread:g}, seed={seed})"
        ),
    )


def random_histograms(n: int, size: int, *, seed: int = 0) -> Tensor:
    """Histograms drawn uniformly from the simplex, float64 `(n, size)`.

    This follows section 5 of Cuturi, *Sinkhorn Distances* (NIPS 2013), as do the paper's figures of
    relaxed transport, with ``size=256``.

    >>> random_histograms(2, 256).sum(1)
    tensor([1., 1.], dtype=torch.float64)
    """
    n, size = check_count("n", n), check_count("size", size)
    # Exponential variables divided by their sum are uniform on the simplex.
    masses = np.random.default_rng(check_seed("seed", seed)).standard_exponential((n, size))
    return torch.from_numpy(masses / masses.sum(1, keepdims=True))


def random_metric(size: int, *, seed: int = 0) -> Embedding:
    """Distances between Gaussian points, divided by their median, in float64.

    Section 5 of Cuturi (2013) takes ``size`` points from a spherical Gaussian in ``size / 10``
    dimensions and divides their distances by ``median(M(:))``, the median of all entries of the
    matrix, including the zero diagonal. It does not say how ``size / 10`` is rounded; here it is
    rounded down, to at least 1. Nor does it say whether distances are squared; here they are not,
    because the text speaks of distance matrices.

    >>> metric = random_metric(256)
    >>> round(float(metric.cost().numpy().mean()), 1)
    1.0
    """
    size = check_count("size", size)
    points = np.random.default_rng(check_seed("seed", seed)).standard_normal(
        (size, max(1, size // 10))
    )
    distances = Embedding(points, normalize=False).distance().numpy()
    median = float(np.median(distances))
    return Embedding(points, normalize=False, scale=median if median > 0 else None)
