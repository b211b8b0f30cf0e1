"""Label noise: its rate, its targets, and what it leaves unchanged."""

from typing import Any

import numpy as np
import pytest
import torch

from experiments.corpora.noise import drop_tags, flip_labels, reduce_redundancy
from wassloss import SparseTarget
from wassloss.ground import Discrete, Embedding, Matrix, Ordinal


def tags(n: int, labels: int, most: int = 6) -> SparseTarget:
    """Random sets of one to ``most`` tags, each of mass 1, with padding anywhere."""
    rng = np.random.default_rng(0)
    indices = np.stack([rng.permutation(labels)[:most] for _ in range(n)])
    used = rng.random((n, most)) < 0.6
    used[:, 2] |= ~used.any(1)
    weights = used / used.sum(1, keepdims=True)
    return SparseTarget(torch.from_numpy(indices), torch.from_numpy(weights))


def sets(target: SparseTarget) -> list[set[int]]:
    pairs = zip(target.indices, target.weights > 0, strict=True)
    return [set(row[used].tolist()) for row, used in pairs]


def test_flips_by_radius_and_by_number() -> None:
    classes = torch.full((4000,), 5)
    by_radius = flip_labels(classes, Ordinal(10), 1.0, radius=2)
    counts = torch.bincount(by_radius, minlength=10)
    assert counts.nonzero().squeeze(1).tolist() == [3, 4, 6, 7]
    assert (counts[[3, 4, 6, 7]] - 1000).abs().max() < 4 * np.sqrt(1000)
    nearest = flip_labels(classes, Ordinal(10), 1.0, nearest=3)
    assert set(nearest.tolist()) == {3, 4, 6}  # 3 and 7 tie
    everything = flip_labels(classes, Discrete(10), 1.0, nearest=9)
    assert set(everything.tolist()) == set(range(10)) - {5}


@pytest.mark.parametrize("probability", [0.0, 0.25, 1.0])
def test_flips_as_often_as_asked(probability: float) -> None:
    classes = torch.randint(300, (20_000,))  # more labels than fit in one chunk
    flipped = flip_labels(classes, Ordinal(300), probability, radius=1)
    share = (flipped != classes).double().mean().item()
    assert share == pytest.approx(probability, abs=0.015)
    assert int((flipped - classes).abs().max()) <= 1
    again = flip_labels(classes, Ordinal(300), probability, radius=1)
    assert torch.equal(flipped, again)


def test_noise_does_not_depend_on_power_and_scale() -> None:
    classes = torch.randint(9, (100,))
    plain = flip_labels(classes, Ordinal(9), 0.5, radius=2)
    assert torch.equal(plain, flip_labels(classes, Ordinal(9, power=3, scale=8), 0.5, radius=2))


def test_dropped_tags() -> None:
    target = tags(5000, 20)
    for probability in (0.0, 0.4, 1.0):
        dropped = drop_tags(target, probability, seed=3)
        torch.testing.assert_close(dropped.weights.sum(1), target.weights.sum(1))
        for before, after in zip(sets(target), sets(dropped), strict=True):
            assert after
            assert after <= before
    assert sets(drop_tags(target, 0.0)) == sets(target)
    assert all(len(after) == 1 for after in sets(drop_tags(target, 1.0)))
    many = SparseTarget(torch.arange(50).repeat(400, 1), torch.full((400, 50), 0.02))
    kept = (drop_tags(many, 0.3).weights > 0).double().mean().item()
    assert kept == pytest.approx(0.7, abs=0.015)


def test_the_survivor_is_any_of_the_tags() -> None:
    target = SparseTarget(torch.arange(4).repeat(2000, 1), torch.full((2000, 4), 0.25))
    counts = (drop_tags(target, 1.0).weights > 0).sum(0)
    assert (counts - 500).abs().max() < 4 * np.sqrt(500)


def test_one_tag_of_each_cluster_is_kept() -> None:
    # Two close pairs and a single tag.
    metric = Ordinal([0.0, 1.0, 10.0, 11.0, 30.0])
    target = SparseTarget(torch.arange(5).repeat(1000, 1), torch.full((1000, 5), 0.2))
    reduced = reduce_redundancy(target, metric, threshold=1.3)
    kept = (reduced.weights > 0).double()
    assert torch.equal(kept[:, 0] + kept[:, 1], torch.ones(1000, dtype=torch.float64))
    assert torch.equal(kept[:, 2] + kept[:, 3], torch.ones(1000, dtype=torch.float64))
    assert kept[:, 4].all()
    assert kept[:, 0].mean().item() == pytest.approx(0.5, abs=0.06)
    torch.testing.assert_close(reduced.weights.sum(1), torch.ones(1000))


def test_linkage() -> None:
    chain = Ordinal([0.0, 1.0, 2.0, 3.0])  # each within 1.3 of the next
    target = SparseTarget(torch.arange(4).reshape(1, 4), torch.full((1, 4), 0.25))
    counts = {
        method: int((reduce_redundancy(target, chain, method=method).weights > 0).sum())  # type: ignore[arg-type]
        for method in ("single", "complete")
    }
    assert counts == {"single": 1, "complete": 2}


@pytest.mark.parametrize("threshold", [0.0, 0.8, 1.3, 3.0])
def test_complete_linkage_joins_only_what_is_near(threshold: float) -> None:
    metric = Embedding(torch.randn(30, 4))
    target = tags(200, 30)
    distance = metric.distance()
    for seed in range(2):
        reduced = reduce_redundancy(target, metric, threshold, seed=seed)
        for before, after in zip(sets(target), sets(reduced), strict=True):
            assert after
            assert after <= before
            # Every dropped tag was within the threshold of another tag.
            for gone in before - after:
                assert min(distance[gone, tag] for tag in before - {gone}) <= threshold
    if threshold == 0:
        assert sets(reduced) == sets(target)
    if threshold == 3:  # wider than any distance
        assert all(len(after) == 1 for after in sets(reduced))


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"probability": -0.1, "radius": 1}, "probability must be between 0 and 1, got -0.1"),
        ({"probability": 0.5}, "either nearest or radius"),
        ({"probability": 0.5, "radius": 1, "nearest": 1}, "either nearest or radius"),
        ({"probability": 1.0, "radius": 0.5}, "label 0 has none; widen the radius"),
        ({"probability": 1.0, "nearest": 0}, "nearest must be at least 1"),
    ],
)
def test_bad_flips(keywords: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        flip_labels(torch.tensor([0, 1]), Ordinal(3), **keywords)


def test_bad_noise() -> None:
    with pytest.raises(TypeError, match="classes must be class ids"):
        flip_labels(torch.rand(3), Ordinal(3), 0.5, radius=1)
    with pytest.raises(ValueError, match=r"indices must be in 0\.\.2, got 7"):
        flip_labels(torch.tensor([7]), Ordinal(3), 1.0, radius=1)
    target = tags(3, 10)
    with pytest.raises(ValueError, match="probability must be between 0 and 1"):
        drop_tags(target, 1.5)
    with pytest.raises(ValueError, match="threshold must be a finite number"):
        reduce_redundancy(target, Matrix(1 - torch.eye(10)), -1.0)
    with pytest.raises(ValueError, match="method must be 'complete', 'average' or 'single'"):
        reduce_redundancy(target, Matrix(1 - torch.eye(10)), method="ward")  # type: ignore[arg-type]
