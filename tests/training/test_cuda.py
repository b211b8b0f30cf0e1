"""Training on a GPU, and as a CUDA graph."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from tests.training.problems import grades, linear, perceptron_without_dropout, tags, wasserstein
from wassloss import ConvergenceWarning
from wassloss.training import DivergedError, TrainingPlan, train

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")

LOSSES = {"cross-entropy": (nn.CrossEntropyLoss, grades), "wasserstein": (wasserstein, tags)}


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


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("optimizer", ["sgd", "adam", "adamw"])
@pytest.mark.parametrize("cuda_graph", [False, True])
def test_a_gpu_trains_as_the_cpu_does(loss: str, optimizer: str, cuda_graph: bool) -> None:
    make_loss, make_data = LOSSES[loss]
    plan = plan_with(optimizer=optimizer)
    model, on_cpu = linear().cuda(), linear()

    def evaluate(model: nn.Module) -> torch.Tensor:
        x, target = make_data()
        return make_loss()(model(x.to(model.linear.weight)).cpu(), target)

    log = train(model, make_loss(), make_data(), plan, evaluate=evaluate, cuda_graph=cuda_graph)
    expected = train(on_cpu, make_loss(), make_data(), plan, evaluate=evaluate)
    assert next(model.parameters()).is_cuda
    close(model, on_cpu)
    assert [(r.step, r.learning_rate) for r in log] == [(r.step, r.learning_rate) for r in expected]
    assert [r.loss for r in log] == pytest.approx([r.loss for r in expected], rel=1e-3)
    assert log[-1].score == pytest.approx(expected[-1].score, rel=1e-3)


@pytest.mark.parametrize("cuda_graph", [False, True])
def test_a_run_on_a_gpu_is_resumed(tmp_path: Path, cuda_graph: bool) -> None:
    half, whole = (plan_with(optimizer="adam", steps=n, schedule="constant") for n in (30, 60))
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
        """Not finite from the sixth step on, not counting the steps of the capture."""

        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(6, 5)
            self.register_buffer("steps", torch.zeros(()))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.steps += 1
            return self.linear(x) + torch.where(self.steps > 5, torch.nan, 0.0)

    plan = plan_with(learning_rate=0.1, steps=20, log_every=10)
    with pytest.raises(DivergedError, match="the loss is not finite at step 6:"):
        train(Poisoned().cuda(), nn.CrossEntropyLoss(), grades(), plan, cuda_graph=True)


def test_what_does_not_converge_inside_a_graph_is_counted_and_said_once() -> None:
    plan = plan_with(learning_rate=0.1)
    loss_fn = wasserstein(epsilon=0.01, max_iterations=1)
    with pytest.warns(ConvergenceWarning, match="did not converge"):
        log = train(linear().cuda(), loss_fn, tags(), plan, cuda_graph=True)
    assert sum(record.unconverged for record in log) > 0
