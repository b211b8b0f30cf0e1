"""Costs in units of the median, and defaults that rely on them."""

from __future__ import annotations

from inspect import signature

import numpy as np
import pytest
import torch

import wassloss as wl
from wassloss.ground import Cost, Discrete, Embedding, Grid, GroundMetric, Matrix, Ordinal, Tree
from wassloss.losses.modules import EPSILON, KL_WEIGHT

METRICS: dict[str, GroundMetric] = {
    "ordinal": Ordinal(7),
    "squares": Ordinal(7, power=2),
    "tree": Tree.from_paths([("a", "x"), ("a", "y"), ("b", "z"), ("b", "w"), ("c",)]),
    "embedding": Embedding(torch.randn(6, 3, generator=torch.Generator().manual_seed(0))),
    "grid": Grid((2, 3)),
    "discrete": Discrete(5),
    "cost": Cost([[0.0, 9.0, 2.0], [1.0, 0.0, 3.0], [4.0, 2.0, 0.0]]),
}
LOSSES = (wl.WassersteinLoss, wl.NearestWassersteinLoss, wl.RelaxedWassersteinLoss)


def some(metric: GroundMetric) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    logits = torch.randn(9, metric.size, dtype=torch.float64, generator=generator)
    return logits, torch.randint(metric.size, (9,), generator=generator)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("name", METRICS)
def test_the_unit_of_a_metric_does_not_matter(name: str, loss: type) -> None:
    metric = METRICS[name]
    logits, ids = some(metric)
    found = loss(metric)(logits, ids)
    torch.testing.assert_close(loss(metric.with_cost(scale=0.037))(logits, ids), found)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("name", METRICS)
def test_the_median_cost_is_one(name: str, loss: type) -> None:
    metric = METRICS[name]
    assert loss(metric).metric.median_cost() == pytest.approx(1.0)
    logits, ids = some(metric)
    by_hand = loss(metric.with_cost(scale="median"), normalize_cost=False)(logits, ids)
    torch.testing.assert_close(loss(metric)(logits, ids), by_hand)
    assert loss(metric, normalize_cost=False).metric.scale == metric.scale


def test_metrics_whose_median_is_zero() -> None:
    mostly = torch.zeros(5, 5)
    mostly[0, 4] = mostly[4, 0] = 8.0
    assert wl.WassersteinLoss(Matrix(mostly)).metric.max_cost() == 1.0
    assert wl.WassersteinLoss(Matrix(torch.zeros(3, 3))).metric.max_cost() == 0.0
    assert wl.WassersteinLoss(Ordinal(1)).metric.size == 1


def test_a_metric_whose_own_costs_overflow() -> None:
    logits, ids = torch.randn(2, 3), torch.tensor([0, 2])
    assert wl.WassersteinLoss(Ordinal([0, 1e4, 2e4], power=13))(logits, ids).isfinite()


def test_a_learned_metric_keeps_the_unit_it_began_with() -> None:
    positions = torch.tensor([[0.0], [1.0], [5.0]], requires_grad=True)
    loss_fn = wl.WassersteinLoss(Embedding(positions, normalize=False))
    before = loss_fn.metric.scale
    loss_fn(torch.zeros(1, 3), torch.tensor([2])).backward()
    assert positions.grad is not None
    assert positions.grad.abs().sum() > 0
    with torch.no_grad():
        positions.mul_(10)
    assert loss_fn.metric.scale == before


def test_the_same_defaults_everywhere() -> None:
    for made in (wl.WassersteinLoss, wl.NearestWassersteinLoss, wl.WassersteinClassifier):
        defaults = signature(made).parameters
        assert defaults["epsilon"].default == EPSILON
        assert defaults["kl_weight"].default == KL_WEIGHT


def test_as_in_the_paper() -> None:
    metric = Ordinal(5, power=3)
    logits, ids = torch.randn(4, 5), torch.randint(5, (4,))
    target = torch.nn.functional.one_hot(ids, 5).float() * 0.6 + 0.08
    paper = wl.WassersteinLoss.as_in_paper(metric, kl_weight=0.3)
    same = wl.WassersteinLoss(
        metric, epsilon=0.02, kl_weight=0.3, scaling_iterations=10, normalize_cost=False
    )
    assert torch.equal(paper(logits, target), same(logits, target))


def test_normalize_cost_must_be_a_flag() -> None:
    with pytest.raises(TypeError, match=r"normalize_cost must be True or False, got 2\.0"):
        wl.WassersteinLoss(Ordinal(3), normalize_cost=2.0)


def test_estimators_do_not_depend_on_the_unit_either() -> None:
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 2)), rng.integers(0, 4, 60)
    fits = [
        wl.WassersteinClassifier(Ordinal(4, scale=s)).fit(X, y).predict_proba(X) for s in (1, 50)
    ]
    np.testing.assert_allclose(*fits, atol=1e-4)


@pytest.mark.parametrize("rows", [40, 4000])
def test_the_penalty_is_divided_by_the_number_of_rows(rows: int) -> None:
    """As for scikit-learn's C, repeating every row halves the penalty."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(rows, 2)), rng.integers(0, 3, rows)
    twice = np.vstack([X, X]), np.hstack([y, y])
    keywords = {"standardize": False, "tol": 1e-7}
    one = wl.WassersteinClassifier(Ordinal(3), alpha=1.0, **keywords).fit(X, y)
    two = wl.WassersteinClassifier(Ordinal(3), alpha=2.0, **keywords).fit(*twice)
    np.testing.assert_allclose(one.predict_proba(X), two.predict_proba(X), atol=1e-5)
