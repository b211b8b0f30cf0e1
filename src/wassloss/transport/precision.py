"""The precision policy: how many digits a solve has and needs, and when to use a wider dtype."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache

import torch
from torch import Tensor

from wassloss import _checks

# A sum over the kernel as a matrix product: each sum has a term of at least e^{−max M/ε} next to
# its largest factor, so below these exponents whatever underflows is less than 1e-46 of the sum
# (1e-11 in single precision).
LARGEST_EXPONENT = {torch.float64: 600.0, torch.float32: 60.0}
# Factors whose logarithm is further below the largest of their row are raised to this: it changes
# no sum within the range above, and products stay clear of denormal numbers, which are slow.
LEAST_LOG_FACTOR = {torch.float64: -690.0, torch.float32: -85.0}
# Below these exponents, factors need not be scaled by the largest of their row. A plain update
# gives potentials (in units of ε) that differ by at most `max M/ε` beyond what the logarithms of
# the masses do, and those are kept above `LEAST_LOG_MASS`: both together stay clear of the 708 (87
# in single precision) where exponentials overflow.
LARGEST_PLAIN_EXPONENT = {torch.float64: 300.0, torch.float32: 30.0}
LEAST_LOG_MASS = {torch.float64: -350.0, torch.float32: -45.0}


_ROUNDED_SUMS = 4.0  # units of rounding in a marginal, and in the two logarithms of an update


def tolerance(tol: float | None, dtype: torch.dtype) -> float:
    """The tolerance requested or, by default, the largest that does not affect training."""
    if tol is not None:
        return tol
    return 1e-8 if dtype == torch.float64 else 1e-5


def smallest_mass(dtype: torch.dtype) -> float:
    """The stand-in for a mass of zero: negligible in every sum, but with a finite logarithm."""
    return math.e * torch.finfo(dtype).tiny


@cache
def lowest_log_mass(dtype: torch.dtype) -> float:
    """The logarithm of `smallest_mass`."""
    return math.log(smallest_mass(dtype))


def negligible_exponent(dtype: torch.dtype) -> float:
    """The logarithm of a term that adds nothing to a sum whose largest term is 1.

    Smaller terms are raised to it: times a mass, they would be denormal numbers, which are slow.
    """
    return 0.5 * math.log(torch.finfo(dtype).tiny)


def rounding_error(reach: float, epsilon: float, dtype: torch.dtype) -> float:
    """The marginal error that rounding `M/ε` alone can cause: an error `δ` is a factor `e^δ`.

    Potentials are rounded too, hence `reach` (see `Problem.reach`). However small they are, sums
    of masses are rounded.
    """
    if _checks.inverse_overflows(epsilon, dtype):
        return math.inf
    return torch.finfo(dtype).eps * max(0.5 * reach / epsilon, _ROUNDED_SUMS)


def can_widen(x: Tensor) -> bool:
    """Whether there is a wider dtype: not beyond float64, and not on mps."""
    return x.dtype != torch.float64 and x.device.type != "mps"


def needs_double(x: Tensor, reach: Callable[[], float], epsilon: float, tol: float) -> bool:
    """Whether rounding alone would keep the error above `tol` in the dtype of `x`.

    `reach` is called only if there is a wider dtype, because on a GPU it synchronises.
    """
    return can_widen(x) and rounding_error(reach(), epsilon, x.dtype) > tol


def products_fit_single(reach: float, epsilon: float, tol: float) -> bool:
    """Whether products in single precision have the range and the digits for a problem.

    An iteration rounds both potentials (of size `reach/ε` in units of `ε`), their sum and two
    logarithms. Each changes masses by that size times the unit roundoff; half the tolerance is left
    for the rest. False if `torch.set_float32_matmul_precision` allows less precise products.
    """
    exponent = reach / epsilon
    rounding = _ROUNDED_SUMS * torch.finfo(torch.float32).eps / 2 * max(exponent, 1.0)
    exact_products = torch.get_float32_matmul_precision() == "highest"
    within = exponent <= LARGEST_PLAIN_EXPONENT[torch.float32]
    return exact_products and within and rounding <= tol / 2
