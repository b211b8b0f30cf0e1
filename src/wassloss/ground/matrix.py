"""Labels with an explicit matrix of distances or costs."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from wassloss._checks import at_least_single
from wassloss.ground._cost import MetricKeywords, cost_of
from wassloss.ground._inputs import Numbers, float_tensor, holds_integers, label_indices, refuse
from wassloss.ground.base import GroundMetric

if TYPE_CHECKING:
    from typing_extensions import Unpack

# Distances are often computed by matrix products, as torch.cdist does beyond 25 rows: the square
# |x|² + |y|² − 2xy has an error of some rounding units of |x|², so distances of nearly equal
# points, the diagonal among them, have an error of its square root. Points that are centred cause
# some 20 units, points ten times as far from the origin as from each other some 300.
_ERROR_OF_SQUARES = 512  # tolerated error, in rounding units of the largest square
_LARGEST_ERROR = 0.01  # relative to the largest distance, or square, in any dtype


class _Table(GroundMetric):
    """A matrix (K, K) whose entry [i, j] is from label i to label j."""

    _LEARNED = "_table"

    def __init__(self, given: Numbers, **keywords: Unpack[MetricKeywords]) -> None:
        (name,) = self._FIELDS
        columns: list[Any] = list(getattr(given, "columns", ()))  # of a data frame
        if columns and all(isinstance(column, str) for column in columns):
            if (rows := list(getattr(given, "index", ()))) != columns:
                raise ValueError(
                    f"{name} must have the same labels in rows and columns, got {rows[:3]} … and "
                    f"{columns[:3]} …"
                )
            if keywords.get("labels") is None:
                keywords["labels"] = columns
        table = float_tensor(name, given, shape="(labels, labels)", differentiable=True)
        if table.shape[0] != table.shape[1]:
            raise ValueError(f"{name} must be square, got shape {tuple(table.shape)}")
        cleaned = self._cleaned(table.detach(), exact=holds_integers(given))
        self._table = table if table.requires_grad else cleaned
        super().__init__(len(table), like=table, **keywords)

    def distance(self) -> Tensor:
        """The matrix itself, before power and scale, shape (K, K)."""
        # Training may make entries negative.
        return self._table.clamp(min=0) if self._table.requires_grad else self._table

    def _cleaned(self, given: Tensor, exact: bool) -> Tensor:
        """Raise negative entries to 0; refuse those that rounding does not explain."""
        least = -_rounding_errors(given, exact)[0] * given.abs().max()
        refuse(self._FIELDS[0], "not be negative", given, given < least)
        return given.clamp(min=0)

    def _distances_between(self, first: Tensor, second: Tensor) -> Tensor:
        return self.distance()[first, second]

    def _max_distance(self) -> Tensor:
        return self.distance().detach().max()

    def _fields(self) -> Mapping[str, Any]:
        return {self._FIELDS[0]: self.distance()}


class Matrix(_Table):
    r"""An explicit matrix of distances.

    .. math:: d(i, j) = D_{ij}

    The triangle inequality is not required: any symmetric dissimilarity will do. For costs that are
    not symmetric, or not 0 on the diagonal, see :class:`Cost`.

    Rounding errors, such as those of ``torch.cdist``, are removed: entries ``D[i, j]`` and
    ``D[j, i]`` are averaged, and the diagonal and entries below 0 are set to 0. A deviation that
    rounding does not explain is refused: more than √eps of the largest distance and as much in its
    square, or any among integers. To learn the distances, pass a tensor that requires grad; keeping
    it symmetric is then up to the caller.

    Args:
        distance: finite, not negative, symmetric, with a zero diagonal, shape (K, K). The columns
            of a pandas data frame name the labels.
        power, scale, labels: see :class:`GroundMetric`.

    >>> Matrix([[0, 1, 4], [1, 0, 2], [4, 2, 0]], power=0.5).cost_columns(0)
    tensor([0., 1., 2.])
    """

    _FIELDS = ("distance",)

    def __init__(self, distance: Numbers, **keywords: Unpack[MetricKeywords]) -> None:
        super().__init__(distance, **keywords)

    def _cleaned(self, given: Tensor, exact: bool) -> Tensor:
        """The nearest matrix of distances; refuse deviations that rounding does not explain."""
        zero, positive = (given.diagonal() == 0).all(), (given >= 0).all()
        if bool(zero & positive) and torch.equal(given, given.T):
            return given
        super()._cleaned(given, exact)
        # In single precision at least, where squares of the largest ratio, 1, and of √eps fit.
        wide = at_least_single(given)
        ratio, (linear, of_squares) = wide / wide.abs().max(), _rounding_errors(given, exact)
        advice = "; wassloss.ground.Cost takes costs of any kind"
        centre = "if it is rounding, the points are far from the origin: subtract their mean first"
        diagonal = torch.diag(ratio.diagonal().square() > of_squares)
        refuse("distance", "be 0 on the diagonal", given, diagonal, f"{advice}; {centre}")
        uneven = (ratio - ratio.T).abs() > linear
        uneven &= (ratio.square() - ratio.T.square()).abs() > of_squares
        if uneven.any():
            i, j = uneven.nonzero()[0].tolist()
            other = f" and distance[{j}, {i}] = {float(given[j, i]):g}"
            refuse("distance", "be symmetric", given, uneven, other + advice)
        # Equal entries keep their bits: half of a tiny number may be rounded.
        even = torch.where(given == given.T, given, given / 2 + given.T / 2)
        return even.clamp_(min=0).fill_diagonal_(0)

    def _distance_columns(self, indices: Tensor) -> Tensor:
        if self._table.requires_grad:  # training may make it asymmetric
            return self.distance()[:, indices].T
        return self._table[indices]  # rows are columns, by symmetry, and contiguous


class Cost(_Table):
    r"""An explicit matrix of non-negative costs.

    .. math:: d(i, j) = C_{ij}, \qquad M_{ij} = (C_{ij} / \text{scale})^{\text{power}}

    :math:`C_{ij}` is the cost of predicting label i when the truth is label j. It may differ from
    :math:`C_{ji}` (missing a disease is worse than suspecting one), and being right may cost
    something too, :math:`C_{ii} > 0`. What other metrics call a distance is :math:`C_{ij}` here.

    The debiased divergence needs a distance and refuses this class, so use :class:`Matrix` if costs
    are symmetric and 0 on the diagonal. To learn the costs, pass a tensor that requires grad;
    entries that training makes negative count as 0.

    Args:
        cost: finite, not negative, shape (K, K).
        power, scale, labels: see :class:`GroundMetric`. The median of
            ``scale="median"`` is over pairs of different labels.

    >>> illness = Cost([[0, 100], [1, 0]], labels=["healthy", "ill"])
    >>> illness.cost_columns(illness.index("ill"))  # predicting healthy, predicting ill
    tensor([100.,   0.])
    """

    _FIELDS = ("cost",)
    is_distance = False

    def __init__(self, cost: Numbers, **keywords: Unpack[MetricKeywords]) -> None:
        super().__init__(cost, **keywords)

    def cost_rows(self, indices: int | Numbers) -> Tensor:
        """Costs from a few chosen labels to every label.

        >>> matrix = Cost([[0, 9], [1, 0]])
        >>> matrix.cost_rows(0), matrix.cost_columns(0)
        (tensor([0., 9.]), tensor([0., 1.]))
        """
        rows = label_indices(indices, self.size, self.device)
        if self.known_costs is not None:
            return self.known_costs.T[rows]
        return cost_of(self.distance()[rows], self.power, self.scale)

    def _distance_columns(self, indices: Tensor) -> Tensor:
        return self.distance()[:, indices].T.contiguous()


def _rounding_errors(given: Tensor, exact: bool) -> tuple[float, float]:
    """The errors of distances and of squares that rounding explains, relative to the largest.

    They are those of the narrowest dtype that holds the numbers, and 0 if ``exact``.
    """
    dtype = given.dtype
    fractions_fit = float(given.abs().max()) < 1 / torch.finfo(dtype).eps
    if exact or (fractions_fit and torch.equal(given, given.round())):  # integers
        return 0.0, 0.0
    if dtype == torch.float64 and torch.equal(given.float().double(), given):
        dtype = torch.float32  # computed in single precision, converted later
    unit = torch.finfo(dtype).eps
    return min(math.sqrt(unit), _LARGEST_ERROR), min(_ERROR_OF_SQUARES * unit, _LARGEST_ERROR)


AnyMetric: TypeAlias = GroundMetric | Tensor | NDArray[Any]


def as_ground_metric(metric: AnyMetric) -> GroundMetric:
    """Return a ground metric unchanged, and a square matrix of distances as a :class:`Matrix`.

    >>> as_ground_metric(np.array([[0.0, 2.0], [2.0, 0.0]]))
    Matrix(2)
    """
    if isinstance(metric, GroundMetric):
        return metric
    if isinstance(metric, Tensor | np.ndarray):
        return Matrix(metric)
    raise TypeError(
        "metric must be a GroundMetric, or a tensor or array of distances of shape "
        f"(labels, labels), got {type(metric).__name__}"
    )
