"""The scores that are shown for each kind of target."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import wassloss as wl
from wassloss.app import score_kinds

LINE, PLAIN = wl.ground.Ordinal(6), wl.ground.Discrete(6)
TREE = wl.ground.Tree.from_paths([(str(i % 2), str(i)) for i in range(6)])
IDS = torch.tensor([0, 5, 2])
TAGS = torch.tensor([[1, 0, 1, 0, 0, 0], [0, 1, 0, 0, 0, 0], [1, 1, 1, 0, 0, 0]])
SHARES = torch.softmax(torch.randn(3, 6, generator=torch.Generator().manual_seed(0)), 1)


def sparse(weights: Any) -> wl.SparseTarget:
    return wl.SparseTarget(torch.arange(6).expand(3, 6), weights)


@pytest.mark.parametrize(
    ("target", "metric", "kind"),
    [
        (IDS, LINE, score_kinds.ORDERED),
        (IDS, PLAIN, score_kinds.ONE),
        *(
            (form(TAGS), LINE, score_kinds.TAGS)
            for form in (torch.Tensor.bool, torch.Tensor.double)
        ),
        (sparse(TAGS / TAGS.sum(1, keepdim=True)), LINE, score_kinds.TAGS),
        (TAGS.float().to_sparse(), LINE, score_kinds.TAGS),
        (SHARES, LINE, score_kinds.DISTRIBUTION),
        (sparse(SHARES), PLAIN, score_kinds.DISTRIBUTION),
        (2 * SHARES, LINE, score_kinds.DISTRIBUTION),  # in another unit
        (torch.tensor([[1.0], [2.0], [9.0]]) * SHARES, LINE, score_kinds.DISTRIBUTION),
        (IDS, TREE, score_kinds.ONE),
    ],
)
def test_each_kind_has_its_scores(target: Any, metric: Any, kind: str) -> None:
    assert score_kinds.kind_of(target, metric) == kind
    logits = torch.randn(3, 6, dtype=torch.float64)
    for name, score in score_kinds.shown_for(kind, metric).items():
        found = score.function(logits, target, metric)
        assert found.shape == (() if score.pooled else (3,)), name


def test_few_labels_have_no_tenth_guess() -> None:
    assert "mean_distance_of_5" in score_kinds.shown_for(score_kinds.ONE, PLAIN)
    assert "mean_distance_of_10" not in score_kinds.shown_for(score_kinds.ONE, PLAIN)


def test_grave_mistakes_are_those_across_the_tree() -> None:
    assert "grave" not in score_kinds.shown_for(score_kinds.ONE, PLAIN)
    guesses = torch.eye(6)[[0, 1, 2]]  # right, across, a sibling
    found = score_kinds.SCORES["grave"].function(guesses, torch.tensor([0, 0, 0]), TREE)
    assert found.tolist() == [0, 1, 0]


def test_the_distance_between_distributions() -> None:
    logits = torch.randn(3, 6, dtype=torch.float64)
    found = score_kinds.SCORES["transport"].function(logits, 2 * SHARES.double(), LINE)
    gap = (logits.softmax(1) - SHARES.double()).cumsum(1).abs().sum(1)
    np.testing.assert_allclose(found, gap, rtol=1e-5)
