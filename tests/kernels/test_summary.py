"""Losses of a batch, reduced on their device."""

import math

import pytest
import torch
import triton
from torch import Tensor

from tests.triton_kernels import DEVICE, quiet
from wassloss.kernels.launch import start_kernel
from wassloss.kernels.status import FINE, IGNORED, INVALID, UNCONVERGED
from wassloss.kernels.triton.loss import SUMMED, summarize

pytestmark = quiet


def _summary(value, status, mean, share, worst, finished):  # type: ignore[no-untyped-def]
    summarize(value, status, mean, share, worst, finished)


summary_kernel = triton.jit(_summary)


def summary(value: Tensor, status: Tensor) -> tuple[float, float, int]:
    """Mean, share and worst status, from one program per example."""
    value, status = value.to(DEVICE), status.to(DEVICE)
    mean, share = value.new_empty(()), value.new_empty(())
    worst, finished = torch.zeros((2, 1), dtype=torch.int32, device=DEVICE)
    tensors = value, status, mean, share, worst, finished
    for _ in range(2):  # the second run must find the counters reset
        start_kernel(summary_kernel, len(value), tensors, (), (), {})
        assert int(finished) == 0
    return mean.item(), share.item(), int(worst)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("examples", [1, 21, SUMMED.value + 1])
def test_all_count(examples: int, dtype: torch.dtype) -> None:
    value = torch.randn(examples, dtype=dtype)
    mean, share, worst = summary(value, torch.full((examples,), FINE, dtype=torch.uint8))
    assert mean == pytest.approx(value.mean().item(), rel=1e-5, abs=1e-6)
    assert share == pytest.approx(1 / examples, rel=1e-6)
    assert worst == FINE


def test_ignored_examples_do_not_count() -> None:
    value = torch.tensor([1.0, 0.0, 3.0, 0.0])
    status = torch.tensor([FINE, IGNORED, FINE, IGNORED], dtype=torch.uint8)
    assert summary(value, status) == (2.0, 0.5, IGNORED)


def test_nothing_counts() -> None:
    """The mean is NaN, as in `CrossEntropyLoss`, but the gradient is not."""
    mean, share, worst = summary(torch.zeros(3), torch.full((3,), IGNORED, dtype=torch.uint8))
    assert (share, worst) == (0.0, IGNORED)
    assert math.isnan(mean)


@pytest.mark.parametrize("code", [UNCONVERGED, INVALID])
def test_the_worst_status_is_found_in_any_tile(code: int) -> None:
    status = torch.full((21,), FINE, dtype=torch.uint8)
    status[3], status[19] = IGNORED, code
    assert summary(torch.ones(21), status)[2] == code
