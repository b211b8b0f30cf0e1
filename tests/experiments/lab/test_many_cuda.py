"""Many models at once on a GPU, and as CUDA graphs."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from experiments.lab.many import train_many
from experiments.lab.many.cuda_graph import GraphSteps
from experiments.lab.many.data import ManyData
from experiments.lab.many.train import choose_steps
from tests.training.problems import grades, linear, tags, wasserstein
from wassloss import ConvergenceWarning
from wassloss.losses.baselines import KLLoss
from wassloss.training import DivergedError, TrainingPlan

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")


def plan_with(**changes: Any) -> TrainingPlan:
    return TrainingPlan(
        **{
            "steps": 60,
            "batch_size": 30,
            "schedule": "cosine",
            "log_every": 7,
            "evaluate_every": 20,
            "checkpoint_every": 20,
        }
        | changes
    )


def close(one: nn.Module, other: nn.Module) -> None:
    torch.testing.assert_close(
        {name: tensor.cpu() for name, tensor in one.state_dict().items()},
        {name: tensor.cpu() for name, tensor in other.state_dict().items()},
        rtol=1e-3,
        atol=1e-4,
    )


@pytest.mark.parametrize("log_every", [7, 20, 50])  # fewer steps than a graph has, as many, more
@pytest.mark.parametrize("nesterov", [False, True])
def test_many_models_on_a_gpu_are_as_on_the_cpu(log_every: int, nesterov: bool) -> None:
    losses = [wasserstein(), nn.CrossEntropyLoss(), wasserstein()]
    xs, ys = zip(*(grades(seed=r) for r in range(3)), strict=True)
    plan = plan_with(learning_rate=0.1, nesterov=nesterov, log_every=log_every)
    models, on_cpu = [linear(r).cuda() for r in range(3)], [linear(r) for r in range(3)]
    settings: Any = {"seeds": [0, 1, 0], "learning_rates": [0.1, 0.2, 0.05]}
    expected = train_many(on_cpu, losses, (xs, ys), plan, **settings)
    result = train_many(models, losses, (xs, ys), plan, **settings)
    assert next(models[0].parameters()).is_cuda
    for model, other in zip(models, on_cpu, strict=True):
        close(model, other)
    torch.testing.assert_close(result.losses, expected.losses, rtol=1e-3, atol=1e-4)


def test_many_models_on_a_gpu_are_replayed_from_a_graph() -> None:
    data, loss = ManyData(grades(), 2), wasserstein().cuda()
    models, penalties = [linear(0).cuda(), linear(1).cuda()], torch.zeros(2).cuda()
    steps = choose_steps(models, [loss, loss], data, plan_with(), penalties)
    assert type(steps) is GraphSteps
    steps.advance(torch.zeros(1, 45, 30).long(), torch.zeros(2).long(), torch.ones(45, 2))
    assert steps._graph is not None
    assert steps.bad.tolist() == [-1, -1]


def test_one_of_many_on_a_gpu_that_diverges_is_named() -> None:
    models = [linear(r).cuda() for r in range(3)]
    plan = plan_with(learning_rate=0.1, log_every=50)
    with pytest.raises(DivergedError, match="the loss of model 1 is not finite at step"):
        train_many(models, wasserstein(), grades(), plan, learning_rates=[0.1, 1e38, 0.1])


def test_many_models_on_a_gpu_resume(tmp_path: Path) -> None:
    loss = wasserstein()
    for iterations in (30, 60):
        models = [linear(r).cuda() for r in range(2)]
        part = plan_with(learning_rate=0.1, steps=iterations, schedule="constant")
        train_many(models, loss, grades(), part, directory=tmp_path, resume=True)
    expected = [linear(r).cuda() for r in range(2)]
    train_many(expected, loss, grades(), plan_with(learning_rate=0.1, schedule="constant"))
    for model, other in zip(models, expected, strict=True):
        close(model, other)


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
@pytest.mark.parametrize("log_every", [7, 60])
def test_many_models_of_any_kind_are_replayed_from_a_graph(optimizer: str, log_every: int) -> None:
    plan = plan_with(optimizer=optimizer, log_every=log_every, evaluate_every=25)
    losses = [wasserstein(), KLLoss(5), wasserstein(epsilon=0.5)]
    settings: Any = {"seeds": [0, 1, 0], "learning_rates": [0.1, 0.2, 0.05]}
    settings["weight_decays"] = [0.1, 0.0, 0.01]
    seen: dict[str, list[tuple[int, float]]] = {"cuda": [], "cpu": []}

    def observe(iteration: int, models: Any) -> None:
        weight = next(models[1].parameters())
        seen[weight.device.type].append((iteration, float(weight.detach().abs().sum())))

    on_cpu, models = [linear(r) for r in range(3)], [linear(r).cuda() for r in range(3)]
    expected = train_many(on_cpu, losses, tags(), plan, observe=observe, **settings)
    result = train_many(models, losses, tags(), plan, observe=observe, cuda_graph=True, **settings)
    for model, other in zip(models, on_cpu, strict=True):
        close(model, other)
    torch.testing.assert_close(result.losses, expected.losses, rtol=1e-3, atol=1e-4)
    assert [i for i, _ in seen["cuda"]] == [25, 50, 60]
    assert [v for _, v in seen["cuda"]] == pytest.approx([v for _, v in seen["cpu"]], rel=1e-3)


def test_many_models_in_a_graph_count_what_did_not_converge_and_name_what_diverged() -> None:
    models, plan = [linear(r).cuda() for r in range(2)], plan_with(learning_rate=0.1)
    loss_fn = wasserstein(epsilon=0.01, max_iterations=1)
    with pytest.warns(ConvergenceWarning, match="did not converge"):
        train_many(models, loss_fn, tags(), plan, cuda_graph=True)
    rates = [0.1, 1e38]
    with pytest.raises(DivergedError, match="the loss of model 1 is not finite at step"):
        train_many(models, KLLoss(5), tags(), plan, learning_rates=rates, cuda_graph=True)
