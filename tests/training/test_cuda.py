"""Training on a GPU, and as a CUDA graph."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from tests.training.problems import (
    Stream,
    grades,
    linear,
    perceptron_without_dropout,
    tags,
    wasserstein,
)
from wassloss import ConvergenceWarning
from wassloss.losses.baselines import KLLoss
from wassloss.training import (
    SGD,
    Adam,
    AdamW,
    Constant,
    Cosine,
    DivergedError,
    TrainingPlan,
    train,
    train_many,
)
from wassloss.training.many.cuda_graph import GraphSteps as ManyGraphSteps
from wassloss.training.many.data import ManyData
from wassloss.training.many.train import choose_steps

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")

LOSSES = {"cross-entropy": (nn.CrossEntropyLoss, grades), "wasserstein": (wasserstein, tags)}


def plan_with(optimizer: Any, **changes: Any) -> TrainingPlan:
    return TrainingPlan(
        **{
            "iterations": 60,
            "batch_size": 30,
            "optimizer": optimizer,
            "schedule": Cosine(0.1),
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


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("optimizer", [SGD(0.1), Adam(0.01), AdamW(0.01)], ids=str)
@pytest.mark.parametrize("cuda_graph", [False, True])
def test_a_gpu_trains_as_the_cpu_does(loss: str, optimizer: Any, cuda_graph: bool) -> None:
    make_loss, make_data = LOSSES[loss]
    plan = plan_with(optimizer)
    model, on_cpu = linear().cuda(), linear()
    result = train(
        model, make_loss(), make_data(), plan, validation=make_data(), cuda_graph=cuda_graph
    )
    expected = train(on_cpu, make_loss(), make_data(), plan, validation=make_data())
    assert next(model.parameters()).is_cuda
    close(model, on_cpu)
    assert [(r.iteration, r.lr) for r in result.log] == [(r.iteration, r.lr) for r in expected.log]
    assert [r.loss for r in result.log] == pytest.approx([r.loss for r in expected.log], rel=1e-3)
    assert result.score == pytest.approx(expected.score, rel=1e-3)


@pytest.mark.parametrize("cuda_graph", [False, True])
def test_a_run_on_a_gpu_is_resumed(tmp_path: Path, cuda_graph: bool) -> None:
    half, whole = (plan_with(Adam(0.01), iterations=n, schedule=Cosine(1.0)) for n in (30, 60))
    model, straight = perceptron_without_dropout().cuda(), perceptron_without_dropout().cuda()
    train(model, wasserstein(), tags(), half, directory=tmp_path, cuda_graph=cuda_graph)
    model = perceptron_without_dropout(seed=9).cuda()
    train(
        model, wasserstein(), tags(), whole, directory=tmp_path, resume=True, cuda_graph=cuda_graph
    )
    train(straight, wasserstein(), tags(), whole, cuda_graph=cuda_graph)
    close(model, straight)


def test_a_graph_says_when_the_loss_was_not_finite() -> None:
    class Poisoned(nn.Module):
        """Not finite from the sixth step on, counting the recording's own steps out."""

        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(6, 5)
            self.register_buffer("steps", torch.zeros(()))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.steps += 1
            return self.linear(x) + torch.where(self.steps > 5, torch.nan, 0.0)

    plan = plan_with(SGD(0.1), iterations=20, log_every=10)
    with pytest.raises(DivergedError, match="the loss is not finite at iteration 6:"):
        train(Poisoned().cuda(), nn.CrossEntropyLoss(), grades(), plan, cuda_graph=True)


def test_a_graph_refuses_streams() -> None:
    with pytest.raises(ValueError, match=r"cuda_graph needs data as tensors"):
        train(linear().cuda(), nn.CrossEntropyLoss(), Stream(grades(), 30), cuda_graph=True)


@pytest.mark.parametrize("log_every", [7, 20, 50])  # fewer steps than a graph has, as many, more
@pytest.mark.parametrize("nesterov", [False, True])
def test_many_models_on_a_gpu_are_as_on_the_cpu(log_every: int, nesterov: bool) -> None:
    losses = [wasserstein(), nn.CrossEntropyLoss(), wasserstein()]
    xs, ys = zip(*(grades(seed=r) for r in range(3)), strict=True)
    plan = plan_with(SGD(0.1, nesterov=nesterov), log_every=log_every)
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
    steps = choose_steps(models, [loss, loss], data, plan_with(SGD()), penalties)
    assert type(steps) is ManyGraphSteps
    steps.advance(torch.zeros(1, 45, 30).long(), torch.zeros(2).long(), torch.ones(45, 2))
    assert steps._graph is not None
    assert steps.bad.tolist() == [-1, -1]


def test_one_of_many_on_a_gpu_that_diverges_is_named() -> None:
    models = [linear(r).cuda() for r in range(3)]
    plan = plan_with(SGD(0.1), log_every=50)
    with pytest.raises(DivergedError, match="the loss of model 1 is not finite at iteration"):
        train_many(models, wasserstein(), grades(), plan, learning_rates=[0.1, 1e38, 0.1])


def test_many_models_on_a_gpu_resume(tmp_path: Path) -> None:
    loss = wasserstein()
    for iterations in (30, 60):
        models = [linear(r).cuda() for r in range(2)]
        part = plan_with(SGD(0.1), iterations=iterations, schedule=Constant())
        train_many(models, loss, grades(), part, directory=tmp_path, resume=True)
    expected = [linear(r).cuda() for r in range(2)]
    train_many(expected, loss, grades(), plan_with(SGD(0.1), schedule=Constant()))
    for model, other in zip(models, expected, strict=True):
        close(model, other)


def test_what_does_not_converge_inside_a_graph_is_counted_and_said_once() -> None:
    plan = plan_with(SGD(0.1))
    loss_fn = wasserstein(epsilon=0.01, max_iterations=1)
    with pytest.warns(ConvergenceWarning, match="did not converge"):
        result = train(linear().cuda(), loss_fn, tags(), plan, cuda_graph=True)
    assert sum(record.unconverged for record in result.log) > 0


@pytest.mark.parametrize("optimizer", [SGD(0.1), Adam(0.01)], ids=str)
@pytest.mark.parametrize("log_every", [7, 60])
def test_many_models_of_any_kind_are_replayed_from_a_graph(optimizer: Any, log_every: int) -> None:
    plan = plan_with(optimizer, log_every=log_every, evaluate_every=25)
    losses = [wasserstein(), KLLoss(5), wasserstein(epsilon=0.5)]
    settings: Any = {"seeds": [0, 1, 0], "learning_rates": [0.1, 0.2, 0.05]}
    settings["weight_penalties"] = [0.1, 0.0, 0.01]
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
    models, plan = [linear(r).cuda() for r in range(2)], plan_with(SGD(0.1))
    loss_fn = wasserstein(epsilon=0.01, max_iterations=1)
    with pytest.warns(ConvergenceWarning, match="did not converge"):
        train_many(models, loss_fn, tags(), plan, cuda_graph=True)
    rates = [0.1, 1e38]
    with pytest.raises(DivergedError, match="the loss of model 1 is not finite at iteration"):
        train_many(models, KLLoss(5), tags(), plan, learning_rates=rates, cuda_graph=True)
