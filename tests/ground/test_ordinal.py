import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial.distance import cdist

from wassloss.ground import Discrete, Ordinal


@given(st.lists(st.floats(-1e6, 1e6, allow_subnormal=False), min_size=1, max_size=12))
def test_distances_are_those_of_scipy(positions: list[float]) -> None:
    points = np.array(positions)
    metric = Ordinal(points)
    assert metric.dtype == torch.float64
    expected = cdist(points[:, None], points[:, None])
    np.testing.assert_allclose(metric.distance().numpy(), expected, rtol=1e-12, atol=1e-150)
    assert metric.max_cost() == pytest.approx(expected.max(), abs=1e-150)


def test_the_digit_metric_of_the_paper() -> None:
    digits = np.arange(10)
    expected = (abs(digits[:, None] - digits) / 10.0) ** 2
    metric = Ordinal(10, power=2, scale=10)
    np.testing.assert_allclose(metric.cost().numpy(), expected, rtol=1e-6)
    assert metric.max_cost() < 1
    assert torch.equal(Ordinal(10, power=0, scale=10).cost(), Discrete(10).cost())


def test_positions_carry_gradient() -> None:
    positions = torch.tensor([0.0, 1.0, 1.0, 3.0], dtype=torch.float64, requires_grad=True)
    metric = Ordinal(positions, power=0.5)
    assert metric.requires_grad
    (gradient,) = torch.autograd.grad(metric.cost_columns([0, 1]).sum(), positions)
    assert torch.isfinite(gradient).all()
    assert gradient.sum().abs() < 1e-12  # moving all positions together changes nothing
