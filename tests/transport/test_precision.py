"""The precision policy: how many digits a solve needs."""

import math

import pytest
import torch

from wassloss.transport import precision

F32, F64 = torch.float32, torch.float64


def test_single_precision_is_used_where_it_has_the_digits(monkeypatch: pytest.MonkeyPatch) -> None:
    assert precision.products_fit_single(reach=1.0, epsilon=0.5, tol=1e-5)
    assert not precision.products_fit_single(reach=1.0, epsilon=0.5, tol=1e-7)  # rounding
    assert not precision.products_fit_single(reach=1.0, epsilon=1 / 40, tol=1e-3)  # range
    monkeypatch.setattr(torch, "get_float32_matmul_precision", lambda: "high")
    assert not precision.products_fit_single(reach=1.0, epsilon=0.5, tol=1e-5)


def test_rounding_grows_with_the_exponent_and_ends_where_it_overflows() -> None:
    once = precision.rounding_error(1.0, 0.1, F32)
    assert precision.rounding_error(1.0, 0.01, F32) == pytest.approx(10 * once)
    assert precision.rounding_error(1.0, 0.1, F64) < 1e-8 * once
    assert precision.rounding_error(1.0, 1e-39, F32) == math.inf


@pytest.mark.parametrize("dtype", [F32, F64])
def test_the_smallest_mass_is_a_normal_number_that_no_sum_feels(dtype: torch.dtype) -> None:
    smallest = torch.tensor(precision.smallest_mass(dtype), dtype=dtype)
    assert smallest > torch.finfo(dtype).tiny
    assert 1 + smallest == 1
    assert smallest.log().item() == pytest.approx(precision.lowest_log_mass(dtype))
