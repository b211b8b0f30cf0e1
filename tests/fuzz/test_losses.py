"""Losses with random inputs: right, refused, or warned about; compiled and composed agree."""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
import torch
from hypothesis import event, given
from torch import Tensor

import wassloss as wl
from tests.evaluators import evaluate_with
from tests.fuzz.cases import FORMS, in_form, log_masses, logits, metrics, unit_of, weights
from tests.fuzz.outcome import Outcome, outcome, too_much
from tests.fuzz.reference import bounds, dense
from tests.losses import per_example
from tests.oracles import INF, Array

TOLERANCE = {torch.float64: 1e-7, torch.float32: 2e-5}
# Relative to the largest cost: from almost exact to almost free.
EPSILONS = [0.0, 1e-6, 1e-3, 0.05, 0.3, 1.0, 30.0, 1e6]
GAMMAS = [1e-3, 0.1, 1.0, 30.0, 1e6, INF]


@contextmanager
def composed() -> Iterator[None]:
    """Without the compiled kernels from logits to loss."""
    with pytest.MonkeyPatch.context() as patch:
        evaluate_with(patch)
        yield


def with_gradient(call: Callable[[Tensor], Tensor], x: Tensor) -> Outcome:
    """Values, and the gradient of their sum."""
    x = x.detach().requires_grad_()

    def both() -> tuple[Tensor, Tensor | None]:
        values = call(x)
        values.sum().backward()
        return values.detach(), x.grad

    return outcome(both)


def working(dtype: torch.dtype) -> torch.dtype:
    return torch.float64 if dtype == torch.float64 else torch.float32


def slack_of(size: float, dtype: torch.dtype, unit: float) -> float:
    """The rounding error of a sum of this size, or of the least mass at the largest cost."""
    return TOLERANCE[working(dtype)] * size + 100 * torch.finfo(working(dtype)).tiny * (1 + unit)


@given(st.data())
def test_balanced_losses(data: st.DataObject) -> None:
    metric = data.draw(metrics(), "metric")
    batch = data.draw(st.integers(0, 3), "batch")
    x = data.draw(logits(metric.size, batch), "logits")
    y = data.draw(weights(metric.size, batch), "weights")
    target = in_form(y, data.draw(st.sampled_from(FORMS), "form"), working(x.dtype))
    largest = unit_of(metric)
    epsilon = largest * data.draw(st.sampled_from(EPSILONS), "epsilon")
    kl_weight = largest * data.draw(st.sampled_from([0.0, 0.1, 100.0]), "kl_weight")
    regularizer = data.draw(st.sampled_from(["plan", "product"]), "regularizer")
    keywords: dict[str, Any] = {
        "epsilon": epsilon,
        "kl_weight": kl_weight,
        "regularizer": regularizer,
        "normalize_target": data.draw(st.booleans(), "normalize"),
    }

    def by_module(x: Tensor) -> Tensor:
        return wl.WassersteinLoss(metric, reduction="none", **keywords, normalize_cost=False)(
            x, target
        )

    def by_function(x: Tensor) -> Tensor:
        return per_example.wasserstein_loss(x, target, metric, **keywords)

    quick = with_gradient(by_function if data.draw(st.booleans()) else by_module, x)
    with composed():
        slow = with_gradient(by_function, x)

    assert quick.refusal == slow.refusal
    if quick.answer is None:
        assert too_much(quick.refusal), quick.refusal
        return
    h, truth = x.double().softmax(1).numpy(), dense(target, metric.size)
    cost = metric.cost().double().numpy()
    kl = [divergence(x[b], truth[b]) if kl_weight else (0.0, 0.0) for b in range(batch)]
    known = [bounds(h[b], truth[b], cost, epsilon, regularizer=regularizer) for b in range(batch)]
    most = torch.finfo(x.dtype).max / 10  # a gradient may overflow half precision
    for found in (quick, slow):
        values, gradient = found.answer
        for value, transport, (divergence_, size) in zip(values.tolist(), known, kl, strict=True):
            if math.isinf(divergence_):
                assert value == INF
                continue
            assert math.isfinite(value)
            event(f"bounds are tight: {transport.tight}")
            slack = slack_of(transport.size + kl_weight * size, x.dtype, largest)
            above = kl_weight * divergence_
            assert found.doubtful or (
                transport.low - slack <= value - above <= transport.high + slack
            )
        # Adding a constant to all logits has no effect, up to rounding.
        sizes = torch.tensor(
            [part.size + kl_weight * (1 + size) for part, (_, size) in zip(known, kl, strict=True)],
            dtype=torch.float64,
        )
        assert (gradient.isfinite().all(1) | (sizes > most)).all()
        rounding = max(10 * torch.finfo(x.dtype).eps, TOLERANCE[working(x.dtype)])
        off = gradient.double().sum(1).abs()
        least = 10 * torch.finfo(working(x.dtype)).tiny  # masses are no smaller
        assert ((off <= rounding * sizes + least) | (sizes > most)).all()
    if epsilon >= 0.05 * largest and not (quick.doubtful or slow.doubtful):
        # Below, potentials (not plans) are poorly determined: anything between them is right.
        scale = 1e-3 * (largest + epsilon + kl_weight)
        torch.testing.assert_close(quick.answer[1], slow.answer[1], rtol=1e-2, atol=scale)


def divergence(x: Tensor, y: Array) -> tuple[float, float]:
    """`KL(y ‖ softmax(x))`, and the size of its terms."""
    y, log_h = y / y.sum(), x.double().log_softmax(0).numpy()
    positive = y > 0
    log_y = np.log(y[positive])
    terms = y[positive] * (log_y - log_h[positive])
    return float(terms.sum()), float(1 + abs(terms).sum() + abs(y[positive] * log_y).sum())


@given(st.data())
def test_relaxed_losses(data: st.DataObject) -> None:
    metric = data.draw(metrics(), "metric")
    batch = data.draw(st.integers(0, 3), "batch")
    log_h = data.draw(log_masses(metric.size, batch), "log_h")
    total = data.draw(st.sampled_from([1.0, 1e-3, 1e3, 1e-12, 1e12]), "mass")
    y = total * data.draw(weights(metric.size, batch), "weights")
    target = in_form(y, data.draw(st.sampled_from(FORMS), "form"), working(log_h.dtype))
    largest = unit_of(metric)
    epsilon = largest * data.draw(st.sampled_from(EPSILONS[1:]), "epsilon")
    gamma = [largest * data.draw(st.sampled_from(GAMMAS), "gamma") for _ in range(2)]
    if gamma == [INF, INF]:
        gamma[0] = largest
    regularizer = data.draw(st.sampled_from(["plan", "product"]), "regularizer")
    keywords: dict[str, Any] = {"epsilon": epsilon, "gamma": gamma, "regularizer": regularizer}

    def loss(x: Tensor) -> Tensor:
        loss_fn = wl.RelaxedWassersteinLoss(
            metric, kl_weight=0, reduction="none", normalize_cost=False, **keywords
        )
        values: Tensor = loss_fn(x, target)
        return values

    found = with_gradient(loss, log_h)
    if found.answer is None:
        assert too_much(found.refusal), found.refusal
        return
    values, gradient = found.answer
    h, truth = log_h.double().exp().numpy(), dense(target, metric.size)
    cost = metric.cost().double().numpy()
    for b in range(batch):
        known = bounds(h[b], truth[b], cost, epsilon, (gamma[0], gamma[1]), regularizer)
        event(f"bounds are tight: {known.tight}")
        value, slack = float(values[b]), slack_of(known.size, log_h.dtype, largest)
        assert math.isfinite(value)
        assert found.doubtful or known.low - slack <= value <= known.high + slack
        # In the log of a mass it has the size of the value, which creating mass may increase.
        steep = max(known.size, abs(known.high)) > torch.finfo(log_h.dtype).max / 10
        assert gradient[b].isfinite().all() or steep


@given(st.data())
def test_losses_of_sets(data: st.DataObject) -> None:
    metric = data.draw(metrics(), "metric")
    batch = data.draw(st.integers(1, 3), "batch")
    x = data.draw(logits(metric.size, batch), "logits")
    y = data.draw(weights(metric.size, batch), "weights")
    target = wl.SetTarget(torch.from_numpy(y > 0))
    if data.draw(st.booleans(), "ranges"):
        ends = [sorted(data.draw(st.tuples(*[st.integers(0, metric.size - 1)] * 2))) for _ in y]
        target = wl.SetTarget.from_ranges(*zip(*ends, strict=True), metric.label_order)
    largest = unit_of(metric)
    kl_weight = largest * data.draw(st.sampled_from([0.0, 0.1, 100.0]), "kl_weight")
    keywords: dict[str, Any] = {
        "epsilon": largest * data.draw(st.sampled_from(EPSILONS), "epsilon"),
        "kl_weight": kl_weight,
        "softening": largest * data.draw(st.sampled_from([0.0, 0.3]), "softening"),
    }

    def loss(x: Tensor) -> Tensor:
        module = wl.WassersteinLoss(metric, reduction="none", **keywords, normalize_cost=False)
        return module(x, target)

    quick = with_gradient(loss, x)
    with composed():
        slow = with_gradient(loss, x)
    assert quick.refusal == slow.refusal
    if quick.answer is None:
        assert too_much(quick.refusal), quick.refusal
        return
    logs = 10 + 2 * float(x[x.isfinite()].abs().max())
    size = 1 + (kl_weight + keywords["epsilon"]) * logs
    slack = slack_of(size + largest, x.dtype, largest)
    for found, expected in zip(quick.answer, slow.answer, strict=True):
        one, other = found.double(), expected.double()
        assert torch.equal(one.isfinite(), other.isfinite())
        close = torch.isclose(one, other, rtol=1e-3 if x.dtype.itemsize < 8 else 1e-9, atol=slack)
        assert (close | ~one.isfinite()).all(), (one, other)
