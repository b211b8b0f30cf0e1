"""Values with their gradients, without a graph: those of autograd, for every kind of target."""

from typing import Any

import pytest
import torch

import wassloss as wl

LABELS, BATCH = 6, 5
CLASS_IDS = torch.arange(BATCH)
FEW = wl.SparseTarget(
    torch.tensor([[0, 2], [1, 3], [2, 4], [3, 5], [4, 0]]), torch.full((5, 2), 0.5)
)
DENSE = torch.linspace(1, 2, BATCH * LABELS).reshape(BATCH, LABELS).softmax(1)


@pytest.mark.parametrize("target", [CLASS_IDS, FEW, DENSE], ids=["class ids", "few", "dense"])
@pytest.mark.parametrize(
    "keywords", [{}, {"epsilon": 0}, {"scaling_iterations": 10}, {"debiased": True}], ids=str
)
def test_they_are_those_of_autograd(target: Any, keywords: dict[str, Any]) -> None:
    loss_fn = wl.WassersteinLoss(wl.ground.Ordinal(LABELS), reduction="none", **keywords)
    logits = torch.randn(BATCH, LABELS, dtype=torch.float64, requires_grad=True)
    with torch.no_grad():
        values, gradient = loss_fn.value_and_gradient(logits, target)
    expected = loss_fn(logits, target)
    torch.testing.assert_close(values, expected.detach())
    torch.testing.assert_close(gradient, torch.autograd.grad(expected.sum(), logits)[0])
    assert not values.requires_grad
    assert not gradient.requires_grad


def test_labels_in_another_dimension() -> None:
    loss_fn = wl.WassersteinLoss(wl.ground.Ordinal(LABELS), reduction="none")
    logits = torch.randn(2, LABELS, 3, requires_grad=True)
    target = torch.randint(LABELS, (2, 3))
    values, gradient = loss_fn.value_and_gradient(logits, target)
    expected = loss_fn(logits, target)
    torch.testing.assert_close(values, expected.detach())
    torch.testing.assert_close(gradient, torch.autograd.grad(expected.sum(), logits)[0])


def test_relaxed_losses() -> None:
    loss_fn = wl.RelaxedWassersteinLoss(wl.ground.Ordinal(LABELS), reduction="none")
    log_h = torch.randn(BATCH, LABELS, dtype=torch.float64, requires_grad=True)
    values, gradient = loss_fn.value_and_gradient(log_h, DENSE.double())
    expected = loss_fn(log_h, DENSE.double())
    torch.testing.assert_close(values, expected.detach())
    torch.testing.assert_close(gradient, torch.autograd.grad(expected.sum(), log_h)[0])
