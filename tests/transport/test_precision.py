"""The precision policy: how many digits a solve needs."""

import math

import pytest
import torch

import wassloss as wl
from tests.evaluators import without_native
from wassloss import _checks
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


@pytest.mark.parametrize("dtype", [F32, F64])
def test_the_inverse_overflows_where_the_dtype_says_so(dtype: torch.dtype) -> None:
    edge = 1 / torch.finfo(dtype).max
    for value in (0.0, edge / 4, 0.9 * edge, 1.2 * edge, 1.0, math.inf):
        inverse = 1 / torch.tensor(value, dtype=F64).to(dtype)
        # For numbers that are denormal, or that the dtype rounds to 0.
        assert _checks.inverse_overflows(value, dtype) == bool(inverse.isinf())


@pytest.mark.parametrize("compiled", [True, False], ids=["compiled", "torch"])
@pytest.mark.parametrize("regularizer", ["plan", "product"])
def test_the_potential_of_no_mass_may_be_beyond_single_precision(
    regularizer: str, compiled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not compiled:
        without_native(monkeypatch)
    unit, h = 1e31, torch.tensor([[0.0, 0.4, 0.7, 0.0], [1.0, 0.0, 0.0, 2.0]])
    y = torch.tensor([[3.0, 0.0, 2.5, 0.0], [0.1, 0.3, 0.2, 0.0]])

    def solved(dtype: torch.dtype, unit: float) -> wl.transport.Solution:
        metric = wl.ground.Ordinal([0.0, unit, 2 * unit, 5 * unit])
        keywords = {"epsilon": 2 * unit, "gamma": (0.5 * unit, 3 * unit)}
        return wl.solve(h.to(dtype), y.to(dtype), metric, regularizer=regularizer, **keywords)

    found, expected = solved(F32, unit), solved(F64, 1.0)
    assert found.converged.all()
    torch.testing.assert_close((found.value / unit).double(), expected.value, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(found.plan().double(), expected.plan(), rtol=1e-4, atol=1e-5)
    for side in (0, 1):
        slope = (found.gradient(side) / unit).double()
        assert slope.isfinite().all()
        some = (h, y)[side] > 0
        torch.testing.assert_close(slope[some], expected.gradient(side)[some], rtol=1e-4, atol=1e-4)
