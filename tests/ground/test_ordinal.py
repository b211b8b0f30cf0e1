from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial.distance import cdist

from wassloss import wasserstein
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


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("power", [1.0, 2.0])
def test_a_line_far_from_zero_is_as_long_in_any_precision(dtype: torch.dtype, power: float) -> None:
    # Seconds since 1970 coincide in single precision, unlike their differences.
    far = Ordinal(torch.tensor([1.7e9, 1.7e9 + 1, 1.7e9 + 4], dtype=torch.float64), power=power)
    h, y = (
        torch.tensor([[0.5, 0.5, 0.0]], dtype=dtype),
        torch.tensor([[0.0, 0.5, 0.5]], dtype=dtype),
    )
    near = Ordinal([0.0, 1.0, 4.0], power=power)
    torch.testing.assert_close(wasserstein(h, y, far), wasserstein(h, y, near))


@pytest.mark.parametrize(
    "positions",
    [
        [2**24, 2**24 + 1],
        [1_700_000_000, 1_700_000_001, 1_700_000_000],
        np.array([2**60, 2**60 + 1]),
        torch.tensor([2**24, 2**24 + 1]),
    ],
)
def test_positions_that_would_coincide_in_this_precision_are_refused(positions: Any) -> None:
    with pytest.raises(ValueError, match=r"positions must stay distinct in torch\.float32"):
        Ordinal(positions)
    Ordinal([7, 7, 9])  # these are meant to coincide


def test_a_dtype_in_which_positions_would_coincide_is_refused() -> None:
    assert Ordinal(256).to(dtype=torch.bfloat16).distance()[254, 255] == 1
    for metric, dtype in (
        (Ordinal(258), torch.bfloat16),
        (Ordinal(np.array([1.7e9, 1.7e9 + 1])), torch.float32),
    ):
        with pytest.raises(ValueError, match=f"positions must stay distinct in {dtype}"):
            metric.to(dtype=dtype)
        assert metric.to("cpu") is metric


def test_names_in_their_order() -> None:
    metric = Ordinal(labels=["poor", "fair", "good"])
    assert metric.distance().tolist() == Ordinal(3).distance().tolist()
    with pytest.raises(TypeError, match="positions or labels must be given"):
        Ordinal()
