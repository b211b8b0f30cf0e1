"""Models trained together on a GPU, in CUDA graphs, end where they would on the CPU."""

from typing import Any

import pytest
import torch
from torch import nn

from experiments.lab.many import train_linear, train_many
from experiments.lab.many.one_label import CROSS_ENTROPY, OneLabelLoss
from tests.problems import LABELS, grades, linear, tags, wasserstein
from wassloss import ConvergenceWarning
from wassloss.losses.baselines import KLLoss

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")

GIVEN: dict[str, Any] = {
    "iterations": 300,  # more than fit in one transfer to the device
    "batch_size": 30,
    "rates": [0.1, 0.2, 0.05],
    "penalties": [0.1, 0.0, 0.01],
    "seeds": [0, 1, 0],
}


def close(models: list[nn.Module], others: list[nn.Module]) -> None:
    for one, other in zip(models, others, strict=True):
        torch.testing.assert_close(
            {name: tensor.cpu() for name, tensor in one.state_dict().items()},
            dict(other.state_dict()),
            rtol=1e-3,
            atol=1e-4,
        )


def test_linear_models() -> None:
    distance = torch.arange(LABELS).sub(torch.arange(LABELS).unsqueeze(1)).abs().float()
    losses = [OneLabelLoss(distance, 0.5), CROSS_ENTROPY, OneLabelLoss(distance, 0.0, 1.0)]
    features, ids = zip(*(grades(seed=r) for r in range(3)), strict=True)
    models, on_cpu = [linear(r).cuda() for r in range(3)], [linear(r) for r in range(3)]
    train_linear(models, losses, features, ids, **GIVEN)
    train_linear(on_cpu, losses, features, ids, **GIVEN)
    close(models, on_cpu)


@pytest.mark.parametrize("cuda_graph", [False, True])
def test_other_models(cuda_graph: bool) -> None:
    losses = [wasserstein(), KLLoss(LABELS), wasserstein(epsilon=0.5)]
    seen: dict[str, list[int]] = {"cuda": [], "cpu": []}

    def observe(iteration: int, models: Any) -> None:
        seen[next(models[1].parameters()).device.type].append(iteration)

    given = {**GIVEN, "observe": observe, "every": 125}
    on_cpu, models = [linear(r) for r in range(3)], [linear(r).cuda() for r in range(3)]
    train_many(on_cpu, losses, *tags(), **given)
    train_many(models, losses, *tags(), **given, cuda_graph=cuda_graph)
    close(models, on_cpu)
    assert seen["cuda"] == seen["cpu"] == [125, 250, 300]


def test_a_model_that_diverges_is_named() -> None:
    given, (x, y) = GIVEN | {"rates": [0.1, 1e38, 0.1]}, grades()
    models = [linear(r).cuda() for r in range(3)]
    with pytest.raises(FloatingPointError, match="the loss of model 1 is not finite at step"):
        train_linear(models, [CROSS_ENTROPY] * 3, [x] * 3, [y] * 3, **given)
    with pytest.raises(FloatingPointError, match="the loss of model 1 is not finite at step"):
        train_many(models, [KLLoss(LABELS)] * 3, *tags(), **given, cuda_graph=True)


def test_what_does_not_converge_in_a_graph_is_counted() -> None:
    models = [linear(r).cuda() for r in range(3)]
    loss_fn = wasserstein(epsilon=0.01, max_iterations=1)
    with pytest.warns(ConvergenceWarning, match="solves did not converge"):
        train_many(models, [loss_fn] * 3, *tags(), **GIVEN, cuda_graph=True)
