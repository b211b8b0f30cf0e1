"""Models: their outputs, and their reconstruction from descriptions."""

import json
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import wassloss as wl
from wassloss.models import MLP, Linear, LogMass, MeasureModel, build

MODELS: list[Any] = [
    Linear(4, 3),
    Linear(4, 3, bias=False),
    MLP(4, [8, 5], 3),
    MLP(4, [], 3),
    MeasureModel(4, 3),
    MeasureModel(4, 3, hidden_layer_sizes=[6]),
]


@pytest.mark.parametrize("model", MODELS, ids=lambda model: str(model.config()))
def test_a_model_is_built_again_from_json(model: nn.Module) -> None:
    again = build(json.loads(json.dumps(model.config())), model.state_dict())  # type: ignore[operator]
    x = torch.randn(7, 4)
    assert type(again) is type(model)
    assert again(x).shape == (7, 3)
    torch.testing.assert_close(again.eval()(x), model.eval()(x))


def test_the_linear_model_is_linear() -> None:
    model = Linear(4, 3)
    x = torch.randn(5, 4)
    torch.testing.assert_close(model(x), x @ model.linear.weight.T + model.linear.bias)


def test_a_perceptron_without_hidden_layers_is_linear() -> None:
    linear, mlp = Linear(4, 3), MLP(4, [], 3)
    mlp.load_state_dict({f"layers.0.{k}": v for k, v in linear.linear.state_dict().items()})
    x = torch.randn(5, 4)
    torch.testing.assert_close(mlp(x), linear(x))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_log_mass_is_the_log_of_softplus(dtype: torch.dtype) -> None:
    z = torch.linspace(-30, 50, 161, dtype=dtype)
    expected = nn.functional.softplus(z.double(), threshold=100).log().to(dtype)
    torch.testing.assert_close(LogMass()(z), expected)


def test_log_mass_is_finite_with_its_gradient_everywhere() -> None:
    z = torch.tensor([-1e4, -100.0, -15.0, 0.0, 15.0, 1e4], requires_grad=True)
    LogMass()(z).sum().backward()
    assert LogMass()(z).isfinite().all()
    assert z.grad is not None
    assert z.grad.isfinite().all()
    torch.testing.assert_close(z.grad[:2], torch.ones(2))  # softplus is exp far below 0
    x = torch.linspace(-20, 20, 9, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(LogMass(), x)


def test_the_measure_model_learns_a_total_mass() -> None:
    model = MeasureModel(2, 5)
    x = torch.randn(64, 2)
    target = 3 * torch.rand(64, 5)
    loss_fn = wl.RelaxedWassersteinLoss(wl.ground.Ordinal(5), kl_weight=1.0, normalize_cost=False)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)

    def totals() -> Tensor:
        return model(x).exp().sum(1).mean()

    for _ in range(100):
        optimizer.zero_grad()
        loss_fn(model(x), target).backward()
        optimizer.step()
    assert totals().item() == pytest.approx(7.5, rel=0.2)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({}, "config must have a kind among Linear, MLP, MeasureModel, got None"),
        ({"kind": "os.system"}, "got 'os.system'"),
        (
            {"kind": "MLP", "features": 3},
            "MLP.__init__.* 'hidden_layer_sizes' and 'labels'",
        ),
        ({"kind": "Linear", "features": 0, "labels": 2}, "features must be at least 1"),
        (
            {"kind": "MLP", "features": 2, "hidden_layer_sizes": 3, "labels": 2},
            "hidden_layer_sizes must be a sequence",
        ),
    ],
)
def test_wrong_descriptions(config: dict[str, Any], message: str) -> None:
    with pytest.raises((ValueError, TypeError), match=message):
        build(config, {})


def test_wrong_arguments() -> None:
    with pytest.raises(TypeError, match="hidden_layer_sizes must be an integer, got 'a'"):
        MLP(4, ["a"], 2)  # type: ignore[list-item]
    with pytest.raises(ValueError, match="labels must be at least 1, got 0"):
        MeasureModel(4, 0)
