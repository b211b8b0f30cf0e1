"""Plans, schedules and optimisers."""

import json
from typing import Any

import pytest
import torch
from torch import nn

from tests.training.problems import grades, linear
from wassloss.training import TrainingPlan, train
from wassloss.training.batches import Sampler


def test_the_default_is_the_papers_recipe() -> None:
    plan = TrainingPlan()
    assert (plan.steps, plan.batch_size, plan.weight_decay) == (100_000, 100, 2 * 0.0005)
    assert (plan.optimizer, plan.momentum, plan.schedule) == ("sgd", 0.7, "constant")


@pytest.mark.parametrize("momentum", [0.0, 0.7])
def test_training_is_algorithm_two_with_its_penalty(momentum: float) -> None:
    """Written out by hand: the gradient of the batch's loss plus ½ weight_decay Σ‖θ‖²."""
    x, y = grades()
    plan = TrainingPlan(
        steps=30, batch_size=16, learning_rate=0.3, momentum=momentum, weight_decay=0.1, seed=3
    )
    model, by_hand = linear().double(), linear().double()
    train(model, nn.CrossEntropyLoss(), (x.double(), y), plan)

    sampler = Sampler(len(x), 16, seed=3)
    velocity = [torch.zeros_like(p) for p in by_hand.parameters()]
    for rows in sampler.rows(0, 30):
        loss = nn.functional.cross_entropy(by_hand(x[rows].double()), y[rows])
        loss = loss + 0.05 * by_hand.linear.weight.square().sum()
        gradients = torch.autograd.grad(loss, list(by_hand.parameters()))
        with torch.no_grad():
            for v, g, p in zip(velocity, gradients, by_hand.parameters(), strict=True):
                v.mul_(momentum).add_(g)
                p.sub_(0.3 * v)
    torch.testing.assert_close(model.state_dict(), by_hand.state_dict())


def test_the_decay_of_adam_is_in_its_gradient_and_that_of_adamw_is_not() -> None:
    weight = nn.Parameter(torch.full((1, 1), 2.0))
    weight.grad = torch.zeros_like(weight)
    keywords: Any = {"learning_rate": 0.1, "weight_decay": 0.5}
    TrainingPlan(optimizer="adamw", **keywords).build_optimizer([weight]).step()
    assert weight.item() == pytest.approx(2 - 0.1 * 0.5 * 2)
    TrainingPlan(optimizer="adam", **keywords).build_optimizer([weight]).step()
    assert weight.item() == pytest.approx(1.9 - 0.1)  # the first step of Adam has length lr


def test_optimizers_are_torchs() -> None:
    model = linear()
    sgd = TrainingPlan(momentum=0.9).build_optimizer(model.parameters())
    assert isinstance(sgd, torch.optim.SGD)
    assert sgd.defaults["momentum"] == 0.9
    adam = TrainingPlan(optimizer="adam").build_optimizer(model.parameters())
    assert isinstance(adam, torch.optim.Adam)
    assert [group["weight_decay"] for group in adam.param_groups] == [0.001, 0.0]
    with pytest.raises(ValueError, match="model must have parameters to train"):
        TrainingPlan().build_optimizer(nn.ReLU().parameters())


def test_schedules() -> None:
    plan = TrainingPlan(steps=100, learning_rate=2.0, schedule="cosine")
    rates = [plan.learning_rate_at(i) for i in range(101)]
    assert rates == sorted(rates, reverse=True)
    assert (rates[0], rates[50], rates[100]) == (2, pytest.approx(1), pytest.approx(0))
    assert TrainingPlan().learning_rate_at(50_000) == 0.1


def test_the_learning_rate_is_the_schedules() -> None:
    """Torch's own scheduler, stepped by hand, gives the same weights."""
    x, y = grades()
    plan = TrainingPlan(steps=12, batch_size=200, log_every=1, learning_rate=0.5, schedule="cosine")
    model, by_hand = linear().double(), linear().double()
    log = train(model, nn.CrossEntropyLoss(), (x.double(), y), plan)
    optimizer = plan.build_optimizer(by_hand.parameters())
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 12)
    rates = []
    for _ in range(12):
        optimizer.zero_grad()
        nn.functional.cross_entropy(by_hand(x.double()), y).backward()
        rates.append(scheduler.get_last_lr()[0])
        optimizer.step()
        scheduler.step()
    assert [record.learning_rate for record in log] == pytest.approx(rates)
    torch.testing.assert_close(model.state_dict(), by_hand.state_dict())


def test_a_plan_is_json() -> None:
    plan = TrainingPlan(optimizer="adam", schedule="cosine")
    config = plan.config()
    assert json.loads(json.dumps(config)) == config
    assert TrainingPlan(**config).config() == config
    assert (config["optimizer"], config["learning_rate"]) == ("adam", 0.01)


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"steps": 0}, "steps must be at least 1, got 0"),
        ({"weight_decay": -1}, "weight_decay must be a finite number"),
        ({"seed": -1}, r"seed must be in 0..2\*\*63 - 1, got -1"),
        ({"learning_rate": 0}, "learning_rate must be positive, got 0"),
        ({"learning_rate": float("nan")}, "learning_rate must be a finite number"),
        ({"momentum": 1}, "momentum must be at least 0 and less than 1, got 1"),
        ({"optimizer": "SGD"}, "optimizer must be 'sgd', 'adam' or 'adamw', got 'SGD'"),
        ({"schedule": "step"}, "schedule must be 'constant' or 'cosine', got 'step'"),
    ],
)
def test_wrong_plans(keywords: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        TrainingPlan(**keywords)
