r"""What rounding does to a matrix of distances, told apart from what is wrong with it.

Distances are often computed by matrix products, as ``torch.cdist`` does beyond 25 rows: the square
:math:`|x|^2 + |y|^2 - 2 x^\top y` has an error of some rounding units of :math:`|x|^2`, so that
distances of nearly equal points, the diagonal among them, have an error of its square root.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from wassloss.ground._arrays import first_index

_LARGEST_ERROR = 0.01  # of the largest distance, however few digits the numbers have
# Errors of squares that are forgiven, in rounding units of the largest square. Points that are
# centred cause some 20, points ten times as far from the origin as from each other some 300.
_ERROR_OF_SQUARES = 512
_LARGEST_ERROR_OF_SQUARES = 0.01

_COSTS = "wassloss.ground.Cost takes costs of any kind"
_CENTRE = "if it is rounding, the points are far from the origin: subtract their mean first"


def check_distances(name: str, given: Tensor, exact: bool) -> None:
    """Refuse a square matrix that is further from a distance matrix than rounding takes it.

    Args:
        name: the user's name for the matrix, for error messages.
        given: finite, shape (K, K).
        exact: whether the numbers were never rounded.

    Raises:
        ValueError: an entry is negative, the diagonal is not 0, or the matrix is not symmetric.
    """
    if _is_clean(given):
        return
    # In single precision at least, where squares of the largest ratio, 1, and of √eps fit.
    wide = given.to(torch.promote_types(given.dtype, torch.float32))
    ratio = wide / wide.abs().max()
    unit = _rounding_unit(given, exact)
    linear = min(math.sqrt(unit), _LARGEST_ERROR)
    of_squares = min(_ERROR_OF_SQUARES * unit, _LARGEST_ERROR_OF_SQUARES)

    check_not_negative(name, given, exact)
    diagonal = torch.diag(ratio.diagonal().square() > of_squares)
    _refuse(name, "be 0 on the diagonal", given, diagonal, f"; {_COSTS}; {_CENTRE}")
    uneven = (ratio - ratio.T).abs() > linear
    uneven &= (ratio.square() - ratio.T.square()).abs() > of_squares
    _refuse(name, "be symmetric", given, uneven, f"; {_COSTS}")


def check_not_negative(name: str, given: Tensor, exact: bool) -> None:
    """Refuse entries below 0 by more than rounding.

    Raises:
        ValueError: there is one.
    """
    linear = min(math.sqrt(_rounding_unit(given, exact)), _LARGEST_ERROR)
    least = -linear * float(given.abs().max())
    _refuse(name, "not be negative", given, given < least, "")


def cleaned(given: Tensor) -> Tensor:
    """The nearest symmetric matrix with a zero diagonal and no negative entry."""
    if _is_clean(given):
        return given
    # Equal entries keep their bits: half of a tiny number may be rounded.
    even = torch.where(given == given.T, given, given / 2 + given.T / 2)
    return even.clamp_(min=0).fill_diagonal_(0)


def _is_clean(given: Tensor) -> bool:
    zero, positive = (given.diagonal() == 0).all(), (given >= 0).all()
    return bool(zero & positive) and torch.equal(given, given.T)


def _rounding_unit(given: Tensor, exact: bool) -> float:
    """The relative rounding error of the numbers, by the least precision that holds them."""
    dtype = given.dtype
    fractions_fit = float(given.abs().max()) < 1 / torch.finfo(dtype).eps
    if exact or (fractions_fit and torch.equal(given, given.round())):  # integers
        return 0.0
    if dtype == torch.float64 and torch.equal(given.float().double(), given):
        dtype = torch.float32  # computed in single precision, converted later
    return torch.finfo(dtype).eps


def _refuse(name: str, expected: str, given: Tensor, wrong: Tensor, advice: str) -> None:
    if wrong.any():
        i, j = first_index(wrong)
        got = f"{name}[{i}, {j}] = {float(given[i, j]):g}"
        if expected == "be symmetric":
            got += f" and {name}[{j}, {i}] = {float(given[j, i]):g}"
        raise ValueError(f"{name} must {expected}, got {got}{advice}")
