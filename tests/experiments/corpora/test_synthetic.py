"""Synthetic data has the requested distribution."""

import numpy as np
import pytest
import torch
from scipy.spatial.distance import pdist, squareform

from experiments.corpora.synthetic import lattice, random_histograms, random_metric


@pytest.mark.parametrize("noise", [0.0, 0.3, 0.9, 1.0])
def test_lattice_labels_are_flipped_to_neighbours_as_often_as_asked(noise: float) -> None:
    data = lattice(4, noise, train=2000, test=10, spread=0.05)
    train = data.part("train")
    assert data.metric is not None
    assert isinstance(train.target, torch.Tensor)
    near = train.features.round().long()  # Gaussians are narrow, so this is the vertex
    true = near[:, 0] * 4 + near[:, 1]
    distance = data.metric.distance()[true, train.target]
    assert set(distance.tolist()) <= {0.0, 1.0}
    share = (distance > 0).double().mean().item()
    assert share == pytest.approx(noise, abs=4 * np.sqrt(0.25 / len(train)))
    if noise == 1.0:  # a corner has 2 neighbours, an inner vertex 4, all equally likely
        for vertex, neighbours in ((0, [1, 4]), (5, [1, 4, 6, 9])):
            counts = torch.bincount(train.target[true == vertex], minlength=16)
            assert counts.nonzero().squeeze(1).tolist() == neighbours
            expected = 2000 / len(neighbours)
            assert (counts[neighbours] - expected).abs().max() < 4 * np.sqrt(expected)


def test_lattice_test_labels_are_true() -> None:
    test = lattice(3, 0.9, spread=0.05).part("test")
    near = test.features.round().long()
    assert isinstance(test.target, torch.Tensor)
    assert torch.equal(near[:, 0] * 3 + near[:, 1], test.target)


def test_lattice_spread_and_seeds() -> None:
    wide = lattice(3, 0.0, train=5000, test=1, spread=0.5)
    own = wide.features - torch.stack([wide.target // 3, wide.target % 3], 1)  # type: ignore[operator]
    assert own.std(0).tolist() == pytest.approx([0.5, 0.5], rel=0.02)
    assert own.mean(0).tolist() == pytest.approx([0, 0], abs=0.02)
    same, other = lattice(3, 0.5, seed=1), lattice(3, 0.5, seed=2)
    assert torch.equal(same.features, lattice(3, 0.5, seed=1).features)
    assert torch.equal(same.target, lattice(3, 0.5, seed=1).target)  # type: ignore[arg-type]
    assert not torch.equal(same.features, other.features)
    # Noise levels share their points, so that a curve over them is smooth.
    assert torch.equal(same.features, lattice(3, 0.9, seed=1).features)


def test_histograms_are_uniform_on_the_simplex() -> None:
    h = random_histograms(20_000, 3)
    torch.testing.assert_close(h.sum(1), torch.ones(20_000, dtype=torch.float64))
    # Under the uniform law, P(h_1 > a) = (1 - a)^(K - 1).
    for a in (0.1, 0.5, 0.8):
        assert (h[:, 0] > a).double().mean().item() == pytest.approx((1 - a) ** 2, abs=0.015)
    assert not torch.equal(h, random_histograms(20_000, 3, seed=1))


def test_random_costs_are_gaussian_distances_over_their_median() -> None:
    metric = random_metric(100, seed=3)
    points = np.random.default_rng(3).standard_normal((100, 10))
    M = squareform(pdist(points))
    np.testing.assert_allclose(metric.cost().numpy(), M / np.median(M), rtol=1e-12)
    assert random_metric(1).size == 1


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"side": 0, "noise": 0.1}, "side must be at least 1"),
        ({"side": 3, "noise": 1.1}, "probability must be between 0 and 1, got 1.1"),
        ({"side": 3, "noise": 0.1, "train": 0}, "train must be at least 1"),
        ({"side": 3, "noise": 0.1, "spread": 0.0}, "spread must be positive"),
    ],
)
def test_bad_lattice(keywords: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        lattice(**keywords)  # type: ignore[arg-type]
