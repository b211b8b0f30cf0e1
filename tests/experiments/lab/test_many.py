"""Models trained together end where each would have ended alone."""

from typing import Any

import pytest
import torch
from torch import nn

import wassloss as wl
from experiments.lab.many import OneLabelLoss, train_linear, train_many
from experiments.lab.many import train as many
from experiments.lab.many.compiled import CompiledSteps
from experiments.lab.many.one_label import CROSS_ENTROPY, loss_and_gradient
from experiments.lab.many.orders import Orders
from tests.losses.per_example import wasserstein_loss
from tests.problems import (
    LABELS,
    grades,
    linear,
    perceptron,
    tags,
    wasserstein,
)
from wassloss.losses.baselines import KLLoss

STEPS = 60
SEEDS, RATES, PENALTIES = [0, 1, 0, 5], [0.2, 0.1, 0.05, 0.3], [0.0005, 0.1, 0.0, 0.01]


def alone(model: nn.Module, loss: Any, data: Any, r: int) -> None:
    """Train a model by a plain loop."""
    x, target = data
    weights = [p for p in model.parameters() if p.dim() == 2]
    biases = [p for p in model.parameters() if p.dim() == 1]
    groups = [{"params": weights, "weight_decay": 2 * PENALTIES[r]}, {"params": biases}]
    optimizer = torch.optim.SGD(groups, lr=RATES[r], momentum=0.7)
    for rows in Orders(len(x), 30, [SEEDS[r]]).next(STEPS)[0]:
        optimizer.zero_grad()
        loss(model(x[rows]), target[rows]).backward()
        optimizer.step()


def options(models: int) -> dict[str, Any]:
    each = {"rates": RATES[:models], "penalties": PENALTIES[:models], "seeds": SEEDS[:models]}
    return {"iterations": STEPS, "batch_size": 30, **each}


def close(one: nn.Module, other: nn.Module, rtol: float = 1e-4, atol: float = 1e-5) -> None:
    torch.testing.assert_close(
        dict(one.state_dict()), dict(other.state_dict()), rtol=rtol, atol=atol
    )


def of(loss: wl.WassersteinLoss, epsilon: float, kl_weight: float = 0.0) -> OneLabelLoss:
    return OneLabelLoss(loss.metric.cost_columns(torch.arange(LABELS)), epsilon, kl_weight)


def mixture() -> list[tuple[Any, OneLabelLoss]]:
    """Losses of several kinds, strengths and metrics, as modules and as numbers."""
    line, vectors = wl.ground.Ordinal(LABELS, power=2), torch.randn(LABELS, 2)
    directed = wl.ground.Cost(torch.rand(LABELS, LABELS))
    losses = [
        (wl.WassersteinLoss(line, epsilon=0.7, kl_weight=0.2, normalize_cost=False), (0.7, 0.2)),
        (
            wl.WassersteinLoss(directed, epsilon=0.0, kl_weight=1.0, normalize_cost=False),
            (0.0, 1.0),
        ),
        (
            wl.WassersteinLoss(
                wl.ground.Embedding(vectors), epsilon=1.0, kl_weight=0.0, normalize_cost=False
            ),
            (1.0, 0.0),
        ),
    ]
    return [(nn.CrossEntropyLoss(), CROSS_ENTROPY), *((x, of(x, *n)) for x, n in losses)]


@pytest.mark.parametrize("compiled", [True, False])
def test_linear_models_are_as_one_by_one(compiled: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if compiled:
        pytest.importorskip("numba")
    else:
        monkeypatch.setattr(CompiledSteps, "applies", lambda steps: False)
    torch.manual_seed(0)
    losses = mixture()
    features, ids = zip(*(grades(seed=r) for r in range(4)), strict=True)
    models = [linear(r) for r in range(4)]
    train_linear(models, [loss for _, loss in losses], features, ids, **options(4))
    for r, (loss, _) in enumerate(losses):
        expected = linear(r)
        alone(expected, loss, (features[r], ids[r]), r)
        close(models[r], expected)


@pytest.mark.parametrize("make", [linear, perceptron])
def test_other_models_and_targets_are_as_one_by_one(make: Any) -> None:
    shared = wasserstein()
    losses = [shared, KLLoss(LABELS), shared, wasserstein(epsilon=0.5)]
    models = [make(r) for r in range(4)]
    train_many(models, losses, *tags(), **options(4))
    for r, loss in enumerate(losses):
        expected = make(r)
        alone(expected, loss, tags(), r)
        close(models[r], expected, rtol=1e-3, atol=1e-4)


def test_loss_and_gradient_are_those_of_the_wasserstein_loss() -> None:
    torch.manual_seed(0)
    metric = wl.ground.Ordinal(LABELS, power=2).to(dtype=torch.float64)
    theta = torch.randn(2, 3, LABELS, dtype=torch.float64, requires_grad=True)
    x, ids = torch.randn(2, 7, 3, dtype=torch.float64), torch.randint(LABELS, (2, 7))
    epsilon, kl = (torch.tensor(v).double().view(-1, 1, 1) for v in ([0.3, 1.0], [0.0, 0.5]))
    found = loss_and_gradient(theta.detach(), x, ids, metric.cost()[ids], epsilon, kl)
    expected = torch.stack([
        wasserstein_loss(
            x[r] @ theta[r], ids[r], metric, epsilon=float(epsilon[r]), kl_weight=float(kl[r])
        ).mean()
        for r in range(2)
    ])  # fmt: skip
    torch.testing.assert_close(found.loss, expected)
    (gradient,) = torch.autograd.grad(expected.sum(), theta)
    torch.testing.assert_close(found.gradient, gradient)


def test_threads_change_nothing() -> None:
    pytest.importorskip("numba")
    x, y = grades()
    trained = []
    before = torch.get_num_threads()
    for threads in (1, 3):
        models = [linear(r) for r in range(4)]
        torch.set_num_threads(threads)
        try:
            train_linear(models, [CROSS_ENTROPY] * 4, [x] * 4, [y] * 4, **options(4))
        finally:
            torch.set_num_threads(before)
        trained.append(models)
    for one, other in zip(*trained, strict=True):
        close(one, other, rtol=0, atol=0)


def test_models_are_shown_on_the_way() -> None:
    seen = {}

    def observe(iteration: int, models: Any) -> None:
        seen[iteration] = models[1].linear.weight.detach().clone()

    models = [linear(r) for r in range(2)]
    train_many(models, [wasserstein()] * 2, *tags(), **options(2), observe=observe, every=25)
    assert list(seen) == [25, 50, 60]
    short = [linear(r) for r in range(2)]
    train_many(short, [wasserstein()] * 2, *tags(), **options(2) | {"iterations": 25})
    torch.testing.assert_close(seen[25], short[1].linear.weight)
    torch.testing.assert_close(seen[60], models[1].linear.weight)


def test_rows_are_drawn_in_portions(monkeypatch: pytest.MonkeyPatch) -> None:
    models, others = [linear(0), linear(1)], [linear(0), linear(1)]
    (x, y), losses = grades(), [CROSS_ENTROPY] * 2
    train_linear(models, losses, [x] * 2, [y] * 2, **options(2))
    monkeypatch.setattr(many, "ROWS_AT_ONCE", 500)  # 8 steps of 30 examples in 2 orders
    train_linear(others, losses, [x] * 2, [y] * 2, **options(2))
    for one, other in zip(models, others, strict=True):
        close(one, other, rtol=0, atol=0)


def test_a_model_that_diverges_is_named() -> None:
    x, y = grades()
    given = options(2) | {"rates": [0.1, 1e38]}
    with pytest.raises(FloatingPointError, match=r"the loss of model 1 is not finite at step \d"):
        train_linear([linear(), linear()], [CROSS_ENTROPY] * 2, [x] * 2, [y] * 2, **given)
    with pytest.raises(FloatingPointError, match=r"the loss of model 1 is not finite at step \d"):
        train_many([linear(), linear()], [KLLoss(LABELS)] * 2, *tags(), **given)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"rates": [0.1, -1.0]}, "rates must be finite and at least 0, got -1.0"),
        ({"penalties": [0.1, float("nan")]}, "penalties must be finite"),
        ({"seeds": [0, -1]}, r"seeds must be in 0..2\*\*63 - 1, got -1"),
        ({"iterations": 0}, "iterations must be at least 1, got 0"),
    ],
)
def test_bad_input(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        train_many([linear(), linear()], [wasserstein()] * 2, *tags(), **options(2) | change)
