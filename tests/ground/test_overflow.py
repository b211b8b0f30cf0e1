"""Costs that overflow or vanish: errors name power and scale, not derived quantities."""

import pytest
import torch

import wassloss as wl
from wassloss.ground import Embedding, Grid, GroundMetric, Ordinal

LARGE = [Ordinal(5000, power=20), Grid((90, 90), power=30)]  # their median is above 3e38
SMALL = Ordinal(100, power=20)  # only its largest costs are above
TINY = Ordinal(100, power=20, scale=1e6)  # all below 1e-45

OVERFLOW = r"metric must have finite costs in torch.float32, but \(d / scale\) \*\* power overflows"
VANISH = (
    r"costs above 0 in torch.float32, but .* is rounded to 0 for d = .*, power = 20, scale = 1e.06"
)


@pytest.mark.parametrize("metric", LARGE, ids=repr)
@pytest.mark.parametrize(
    "loss",
    [wl.WassersteinLoss, wl.NearestWassersteinLoss, wl.RelaxedWassersteinLoss],
)
def test_costs_that_overflow_fit_in_units_of_their_median(loss: type, metric: GroundMetric) -> None:
    assert loss(metric)(torch.zeros(2, metric.size), torch.tensor([3, 90])).isfinite()
    with pytest.raises(ValueError, match=OVERFLOW):
        loss(metric, normalize_cost=False)(torch.zeros(2, metric.size), torch.tensor([3, 90]))


@pytest.mark.parametrize("metric", LARGE, ids=repr)
def test_typical_costs_that_overflow(metric: GroundMetric) -> None:
    for figure in (metric.median_cost, metric.max_cost):
        with pytest.raises(ValueError, match=OVERFLOW):
            figure()


@pytest.mark.parametrize("epsilon", [0.0, 1.0])
def test_a_table_of_costs_that_overflows(epsilon: float) -> None:
    """Before the first batch, whatever its labels."""
    message = OVERFLOW + r" for d = 99, power = 20, scale = 1; pass scale='max', which keeps"
    for loss in (wl.WassersteinLoss, wl.NearestWassersteinLoss):
        with pytest.raises(ValueError, match=message):
            loss(SMALL, epsilon=epsilon, normalize_cost=False)
    wl.WassersteinLoss(SMALL.with_cost(scale="max"), epsilon=epsilon, normalize_cost=False)


def test_the_advice_helps() -> None:
    for metric in [*LARGE, SMALL]:
        assert metric.with_cost(scale="max").max_cost() == 1
    assert TINY.with_cost(scale="median").median_cost() == 1


def test_costs_that_vanish() -> None:
    for figure in (TINY.median_cost, TINY.max_cost):
        with pytest.raises(ValueError, match=VANISH):
            figure()
    assert wl.WassersteinLoss(TINY).metric.median_cost() == 1
    assert Ordinal([3, 3, 3]).max_cost() == 0  # as the distances are


def test_a_scale_that_costs_cannot_be_divided_by() -> None:
    for scale in (1e-300, 1e-46):
        with pytest.raises(ValueError, match=rf"{OVERFLOW} .*scale = {scale:g}"):
            wl.WassersteinLoss(Ordinal(100, scale=scale), kl_weight=0.0, normalize_cost=False)


@pytest.mark.parametrize("scale", ["max", "median"])
def test_distances_that_overflow(scale: str) -> None:
    far = torch.tensor([[-3e38, 0.0], [3e38, 0.0], [0.0, 3e38]])
    for make in (
        lambda: Ordinal([-3e38, -3e38, 3e38, 3e38], scale=scale),
        lambda: Embedding(far, normalize=False, scale=scale),
    ):
        with pytest.raises(ValueError, match=r"distances must be finite in torch.float32, got inf"):
            make()
    with pytest.raises(ValueError, match=r"distances must be finite in torch.float32, got inf"):
        Embedding(far, normalize=False).max_cost()


def test_half_precision() -> None:
    metric = Ordinal(100, power=5).to(dtype=torch.float16)
    with pytest.raises(ValueError, match=r"finite costs in torch.float16, but"):
        wl.WassersteinLoss(metric, kl_weight=0.0, normalize_cost=False)


def test_an_estimator() -> None:
    pytest.importorskip("sklearn")
    with pytest.raises(ValueError, match=r"finite costs in torch.float64, but .*power = 400"):
        wl.WassersteinClassifier("ordinal", power=400).fit(torch.eye(5), [0, 1, 2, 3, 1000])


def test_functions() -> None:
    h, target = torch.full((2, 100), 0.01), torch.tensor([3, 90])
    for epsilon in (0.0, 1.0):
        with pytest.raises(ValueError, match=f"{OVERFLOW} for power = 20"):
            wl.wasserstein(h, target, SMALL, epsilon=epsilon)
