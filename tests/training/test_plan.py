"""Plans, schedules and optimisers."""

import json
from typing import Any

import pytest
import torch
from torch import nn

from tests.training.problems import grades, linear
from wassloss.training import (
    SGD,
    Adam,
    AdamW,
    Constant,
    Cosine,
    Sampler,
    Step,
    TrainingPlan,
    WarmUp,
    train,
)


def test_the_default_is_the_papers_recipe() -> None:
    plan = TrainingPlan()
    assert (plan.iterations, plan.batch_size, plan.weight_penalty) == (100_000, 100, 0.0005)
    assert plan.optimizer == SGD(momentum=0.7)
    assert plan.schedule == Constant()


@pytest.mark.parametrize("momentum", [0.0, 0.7])
def test_training_is_algorithm_two_with_its_penalty(momentum: float) -> None:
    """Written out by hand: the gradient of the batch's loss plus c Σ‖θ‖², biases apart."""
    x, y = grades()
    plan = TrainingPlan(
        iterations=30, batch_size=16, optimizer=SGD(0.3, momentum), weight_penalty=0.05, seed=3
    )
    model, by_hand = linear().double(), linear().double()
    train(model, nn.CrossEntropyLoss(), (x.double(), y), plan)

    sampler = Sampler(len(x), 16, seed=3)
    velocity = [torch.zeros_like(p) for p in by_hand.parameters()]
    for _ in range(30):
        rows = sampler.next()
        loss = nn.functional.cross_entropy(by_hand(x[rows].double()), y[rows])
        loss = loss + 0.05 * by_hand.linear.weight.square().sum()
        gradients = torch.autograd.grad(loss, list(by_hand.parameters()))
        with torch.no_grad():
            for v, g, p in zip(velocity, gradients, by_hand.parameters(), strict=True):
                v.mul_(momentum).add_(g)
                p.sub_(0.3 * v)
    torch.testing.assert_close(model.state_dict(), by_hand.state_dict())


def test_the_penalty_of_adam_is_in_its_gradient_and_of_adamw_beside_it() -> None:
    weight = nn.Parameter(torch.full((1, 1), 2.0))
    weight.grad = torch.zeros_like(weight)
    AdamW(lr=0.1).build([weight], weight_penalty=0.25).step()
    assert weight.item() == pytest.approx(2 - 0.1 * 2 * 0.25 * 2)
    Adam(lr=0.1).build([weight], weight_penalty=0.25).step()
    assert weight.item() == pytest.approx(1.9 - 0.1)  # a step of Adam is lr long at first


def test_schedules() -> None:
    plan = TrainingPlan(iterations=100, optimizer=SGD(lr=2.0), schedule=Cosine(final=0.1))
    assert plan.learning_rate(0) == 2
    assert plan.learning_rate(100) == pytest.approx(0.2)
    rates = [plan.learning_rate(i) for i in range(101)]
    assert rates == sorted(rates, reverse=True)
    both = WarmUp(10, then=Step(every=20, ratio=0.5))
    assert [both.factor(i, 100) for i in (0, 9, 10, 29, 30, 50)] == [0.1, 1, 1, 1, 0.5, 0.25]
    assert WarmUp(10, then=Cosine()).factor(100, 100) == pytest.approx(0)


def test_the_learning_rate_is_the_schedules() -> None:
    """Where it is zero, nothing moves: after the first two steps here."""
    x, y = grades()
    plan = TrainingPlan(
        iterations=6, log_every=1, optimizer=SGD(lr=1.0, momentum=0), schedule=Step(2, ratio=0.0)
    )
    long, short = linear(), linear()
    result = train(long, nn.CrossEntropyLoss(), (x, y), plan)
    train(short, nn.CrossEntropyLoss(), (x, y), TrainingPlan(iterations=2, optimizer=SGD(1.0, 0)))
    assert torch.equal(long.linear.weight, short.linear.weight)
    assert [record.lr for record in result.log] == [1, 1, 0, 0, 0, 0]


def test_a_plan_is_json() -> None:
    plan = TrainingPlan(optimizer=Adam(), schedule=WarmUp(5, then=Cosine()))
    config = plan.config()
    assert json.loads(json.dumps(config)) == config
    assert config["optimizer"]["kind"] == "Adam"
    assert config["schedule"]["then"]["kind"] == "Cosine"


def test_what_may_change_on_resume() -> None:
    config = TrainingPlan().config()
    TrainingPlan(iterations=7, log_every=3, patience=4).check_continues(config)
    with pytest.raises(ValueError, match=r"plan must have the run's own batch_size, 100, .* got 7"):
        TrainingPlan(batch_size=7).check_continues(config)
    with pytest.raises(ValueError, match="run's own optimizer"):
        TrainingPlan(optimizer=SGD(lr=0.2)).check_continues(config)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: TrainingPlan(iterations=0), "iterations must be at least 1, got 0"),
        (lambda: TrainingPlan(patience=0), "patience must be at least 1, got 0"),
        (lambda: TrainingPlan(weight_penalty=-1), "weight_penalty must be a finite number"),
        (lambda: TrainingPlan(seed=-1), r"seed must be in 0..2\*\*63 - 1, got -1"),
        (lambda: SGD(lr=0), "lr must be positive, got 0"),
        (lambda: SGD(lr=float("nan")), "lr must be a finite number"),
        (lambda: SGD(momentum=1), "momentum must be at least 0 and less than 1, got 1"),
        (lambda: SGD(momentum=0, nesterov=True), "momentum must be positive where nesterov"),
        (lambda: Adam(betas=(0.9, 1.0)), "betas must be at least 0 and less than 1"),
        (lambda: Step(every=0), "every must be at least 1, got 0"),
    ],
)
def test_wrong_numbers(make: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


def test_wrong_kinds() -> None:
    with pytest.raises(TypeError, match=r"optimizer must be one .* such as SGD\(lr=0.1\), got"):
        TrainingPlan(optimizer="sgd")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"schedule must be one .* such as Cosine\(\)"):
        TrainingPlan(schedule=Cosine)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="model must have parameters to train"):
        SGD().build(nn.ReLU().parameters(), 0.0)
