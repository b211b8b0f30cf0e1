"""The kernel exp(−M/ε) of a table of costs; on a GPU if there is one, else interpreted."""

import pytest
import torch

from tests.triton_kernels import DEVICE, quiet
from wassloss.kernels.triton.gibbs import gibbs_kernel

pytestmark = quiet


@pytest.mark.parametrize("given", [torch.float32, torch.float64])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_exponentials_are_those_of_double_precision(dtype, given):
    cost = torch.rand(30, 97, dtype=given, device=DEVICE) * 5  # more than one tile, and not full
    expected = (cost.double() / -0.02).exp()
    torch.testing.assert_close(
        gibbs_kernel(cost, 0.02, -600.0, dtype), expected.to(dtype), rtol=1e-7, atol=0
    )


def test_entries_below_the_range_are_zero():
    found = gibbs_kernel(torch.tensor([0.0, 1.0, 2.0], device=DEVICE), 0.01, -150.0, torch.float64)
    assert found[0] == 1
    assert found[1] > 0
    assert found[2] == 0


def test_transposed_table():
    cost = torch.rand(5, 3, device=DEVICE)
    found = gibbs_kernel(cost.T, 0.5, -600.0, torch.float32)
    torch.testing.assert_close(found, (cost.T / -0.5).exp())


def test_empty_table():
    assert gibbs_kernel(torch.empty(0, 4, device=DEVICE), 1.0, -600.0, torch.float32).shape == (
        0,
        4,
    )
