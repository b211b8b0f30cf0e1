"""KL on softened labels, alone and with transport."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional

import wassloss as wl
from tests.evaluators import evaluate_with, evaluation, needs_native
from wassloss import SparseTarget
from wassloss.losses.evaluators.native import NativeEvaluator

K, BATCH = 6, 5
METRIC = wl.ground.Embedding(torch.randn(K, 2, generator=torch.Generator().manual_seed(0)))
TARGETS: dict[str, Any] = {
    "ids": torch.tensor([0, 2, 5, 3, 1]),
    "few": SparseTarget(
        torch.tensor([[0, 3, -1], [1, 2, 5], [4, 0, 0], [5, 1, 2], [3, 0, 1]]),
        torch.tensor([[0.5, 0.5, 0], [0.2, 0.3, 0.5], [1, 0, 0], [0.1, 0.1, 0.8], [0.6, 0.4, 0]]),
    ),
    "dense": torch.rand(BATCH, K, generator=torch.Generator().manual_seed(2)).softmax(1),
}
KINDS = (wl.WassersteinLoss, wl.NearestWassersteinLoss)


def some_logits() -> Tensor:
    generator = torch.Generator().manual_seed(3)
    return torch.randn(BATCH, K, dtype=torch.float64, generator=generator)


def shares(target: Any) -> np.ndarray:
    if isinstance(target, SparseTarget):
        rows = np.zeros((BATCH, K))
        for row, ids, weights in zip(rows, target.indices, target.weights, strict=True):
            for i, weight in zip(ids.tolist(), weights.tolist(), strict=True):
                if weight > 0:
                    row[i] += weight
        return rows
    return target.numpy() if target.is_floating_point() else np.eye(K)[target.numpy()]


def by_hand(logits: Tensor, target: Any, softening: float, nearest: bool) -> np.ndarray:
    cost = METRIC.in_medians().cost().double().numpy()
    y, log_h = shares(target), logits.log_softmax(1).numpy()
    if nearest:
        far = np.array([cost[:, row > 0].min(1) for row in y])
        soft = np.exp(-far / softening)
        soft /= soft.sum(1, keepdims=True)
    else:
        table = np.exp(-cost / softening)
        soft = y @ (table / table.sum(0)).T
    return (soft * (np.log(soft) - log_h)).sum(1)


@pytest.mark.parametrize("loss", KINDS)
@pytest.mark.parametrize("name", TARGETS)
def test_alone(name: str, loss: type) -> None:
    logits, target = some_logits(), TARGETS[name]
    alone = loss(METRIC, kl_weight=2.0, softening=0.3, transport_weight=0.0, reduction="none")
    expected = 2 * by_hand(logits, target, 0.3, nearest=loss is wl.NearestWassersteinLoss)
    np.testing.assert_allclose(alone(logits, target), expected, rtol=1e-5)


@pytest.mark.parametrize("weight", [1.0, 0.4])
@pytest.mark.parametrize("loss", KINDS)
@pytest.mark.parametrize("name", TARGETS)
def test_the_sum_is_the_sum_of_its_parts(name: str, loss: type, weight: float) -> None:
    logits, target = some_logits().requires_grad_(), TARGETS[name]
    keywords: dict[str, Any] = {"epsilon": 0.3, "reduction": "none"}
    both = loss(METRIC, kl_weight=0.7, softening=0.2, transport_weight=weight, **keywords)
    w = loss(METRIC, kl_weight=0.0, **keywords)
    kl = loss(METRIC, kl_weight=0.7, softening=0.2, transport_weight=0.0, **keywords)
    whole, parts = both(logits, target), weight * w(logits, target) + kl(logits, target)
    torch.testing.assert_close(whole, parts)
    (own,) = torch.autograd.grad(whole.sum(), logits)
    (other,) = torch.autograd.grad(parts.sum(), logits)
    torch.testing.assert_close(own, other, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("loss", KINDS)
@pytest.mark.parametrize("name", TARGETS)
def test_gradients_are_those_of_finite_differences(name: str, loss: type) -> None:
    finely = {"tol": 1e-11} if loss is wl.WassersteinLoss else {}
    loss_fn, target = loss(METRIC, epsilon=0.3, softening=0.2, **finely), TARGETS[name]
    logits = some_logits().requires_grad_()
    assert torch.autograd.gradcheck(lambda x: loss_fn(x, target), logits, atol=1e-5)


def with_gradient(loss_fn: Any, logits: Tensor, target: Any) -> tuple[Tensor, Tensor]:
    x = logits.clone().requires_grad_()
    values = loss_fn(x, target)
    return values, torch.autograd.grad(values.sum(), x)[0]


@needs_native
@pytest.mark.parametrize("weight", [1.0, 0.3, 0.0])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
@pytest.mark.parametrize("loss", KINDS)
@pytest.mark.parametrize("name", ["ids", "few"])
def test_compiled_and_composed_agree(
    name: str, loss: type, dtype: torch.dtype, weight: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    few = TARGETS[name] if name == "ids" else SparseTarget(
        TARGETS[name].indices, 3 * TARGETS[name].weights
    )  # fmt: skip
    own = {"normalize_target": True} if loss is wl.WassersteinLoss else {}
    classes = torch.linspace(1, 2, K)
    keywords: dict[str, Any] = {"transport_weight": weight, "weight": classes, **own}
    loss_fn = loss(METRIC, softening=0.2, reduction="none", **keywords)
    logits = 5 * some_logits().to(dtype)
    found = with_gradient(loss_fn, logits, few)
    assert evaluation(NativeEvaluator, logits.to(found[0].dtype), few, loss_fn.spec)
    evaluate_with(monkeypatch)
    loss_fn = loss(METRIC, softening=0.2, reduction="none", **keywords)
    for one, other in zip(found, with_gradient(loss_fn, logits, few), strict=True):
        torch.testing.assert_close(one, other, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("loss", KINDS)
def test_many_labels_and_impossible_ones(loss: type, monkeypatch: pytest.MonkeyPatch) -> None:
    labels = 1100  # several blocks of the compiled pass
    logits = torch.randn(3, labels, generator=torch.Generator().manual_seed(4))
    logits[0, 1000:] = -torch.inf
    few = SparseTarget(torch.tensor([[5, 80], [300, 301], [900, 1099]]), torch.full((3, 2), 0.5))
    loss_fn = loss(wl.ground.Ordinal(labels), softening=0.001, reduction="none")
    found = [with_gradient(loss_fn, logits, target) for target in (few, few.indices[:, 0])]
    evaluate_with(monkeypatch)
    loss_fn = loss(wl.ground.Ordinal(labels), softening=0.001, reduction="none")
    for got, target in zip(found, (few, few.indices[:, 0]), strict=True):
        for one, other in zip(got, with_gradient(loss_fn, logits, target), strict=True):
            assert one.isfinite().all()
            torch.testing.assert_close(one, other, atol=1e-5, rtol=1e-5)


def test_costs_on_demand() -> None:
    logits, ids = some_logits(), TARGETS["ids"]
    tabulated = wl.WassersteinLoss(METRIC, softening=0.2)
    on_demand = wl.WassersteinLoss(METRIC, softening=0.2)
    on_demand.metric = METRIC.in_medians()
    assert on_demand.metric.known_costs is None
    torch.testing.assert_close(on_demand(logits, ids), tabulated(logits, ids))


@pytest.mark.parametrize("softening", [1e-3, 1e-300])
def test_tiny_softening_has_no_effect(softening: float) -> None:
    logits, ids = some_logits(), TARGETS["ids"]
    loss_fn = wl.WassersteinLoss(METRIC, kl_weight=1, softening=softening, transport_weight=0)
    torch.testing.assert_close(loss_fn(logits, ids), functional.cross_entropy(logits, ids))


def test_large_logits_do_not_cancel() -> None:
    logits, ids = torch.tensor([[1e4, -0.5], [0.25, 1e4]]), torch.tensor([0, 1])
    metric = wl.ground.Ordinal(2)
    keywords = {"kl_weight": 1.0, "softening": 0.1, "transport_weight": 0.0, "reduction": "none"}
    for target in (ids, wl.SetTarget.from_ranges(ids, ids)):
        found = wl.WassersteinLoss(metric, **keywords)(logits, target)
        exact = wl.WassersteinLoss(metric, **keywords)(logits.double(), target)
        torch.testing.assert_close(found, exact.float())


def test_without_transport_or_softening_it_is_cross_entropy() -> None:
    logits, ids = some_logits(), TARGETS["ids"]
    loss_fn = wl.WassersteinLoss(METRIC, kl_weight=1, transport_weight=0)
    torch.testing.assert_close(loss_fn(logits, ids), functional.cross_entropy(logits, ids))


def test_ignored_examples_do_not_count() -> None:
    logits = torch.cat([some_logits(), torch.full((1, K), torch.nan)]).requires_grad_()
    ids = torch.cat([TARGETS["ids"], torch.tensor([-100])])
    loss_fn = wl.WassersteinLoss(METRIC, softening=0.2)
    loss = loss_fn(logits, ids)
    torch.testing.assert_close(loss, loss_fn(logits[:-1], ids[:-1]))
    loss.backward()
    assert logits.grad is not None
    assert logits.grad[-1].abs().sum() == 0
    assert logits.grad.isfinite().all()


def test_without_kl_it_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    evaluate_with(monkeypatch)
    logits, ids = some_logits(), TARGETS["ids"]
    logits[:, 4] = -torch.inf  # which gives an infinite KL to softened labels
    found = [wl.WassersteinLoss(METRIC, kl_weight=0, softening=s)(logits, ids) for s in (0.5, 0.0)]
    torch.testing.assert_close(*found)


@pytest.mark.parametrize("keyword", ["softening", "transport_weight"])
def test_strengths_are_checked(keyword: str) -> None:
    with pytest.raises(ValueError, match=f"{keyword} must be"):
        wl.WassersteinLoss(METRIC, **{keyword: -1.0})


@pytest.mark.parametrize("loss", KINDS)
@pytest.mark.parametrize("name", ["ids", "few"])
def test_a_learned_metric_softens_too(name: str, loss: type) -> None:
    points = torch.randn(K, 2, dtype=torch.float64, requires_grad=True)
    logits = some_logits().double()

    def loss_of(points: Tensor) -> Tensor:
        metric = wl.ground.Embedding(points)
        return loss(metric, softening=0.3, normalize_cost=False)(logits, TARGETS[name])

    assert torch.autograd.gradcheck(loss_of, points, rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize("name", ["ids", "few", "dense"])
def test_mixed_precision_does_not_round_softened_labels(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    evaluate_with(monkeypatch)
    target = TARGETS.get(name, torch.rand(5, K).softmax(1))
    logits = torch.randn(len(target), K)
    loss_fn = wl.WassersteinLoss(METRIC, softening=0.2)
    expected = loss_fn(logits, target)
    with torch.autocast("cpu", torch.bfloat16):
        torch.testing.assert_close(loss_fn(logits, target), expected, rtol=1e-6, atol=1e-6)
