"""Matrices that users computed in floating point: rounding is removed, mistakes are errors."""

import numpy as np
import pytest
import torch
from scipy.spatial.distance import pdist, squareform
from sklearn.metrics import pairwise_distances
from torch import Tensor

from tests.sampling import one_in
from wassloss.ground import Matrix
from wassloss.ground.matrix import as_ground_metric

KINDS = ("normal", "clusters", "duplicates", "one far away", "wide range", "integers")
FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


def points(kind: str, rows: int, features: int, seed: int = 0) -> Tensor:
    """Vectors of about unit spread around the origin, in double precision."""
    rng = np.random.default_rng([seed, rows, features])
    x = rng.normal(size=(rows, features))
    if kind == "clusters":
        x = rng.normal(size=(rows, features))[rng.integers(0, 1 + rows // 10, rows)] + 1e-3 * x
    elif kind == "duplicates":
        x = x[rng.integers(0, 1 + rows // 4, rows)]
        x[0] += 1.0  # at least two different vectors
    elif kind == "one far away":
        x[-1] += 30.0
    elif kind == "wide range":
        x *= 10.0 ** rng.uniform(-4, 1, (rows, 1))
    elif kind == "integers":
        x = np.round(3 * x)
        x[0] += 1.0
    return torch.from_numpy(x)


def check_clean(matrix: Matrix, given: Tensor) -> None:
    """Check for a distance matrix that differs from the input by rounding only."""
    kept = matrix.distance()
    assert kept.dtype == given.dtype
    assert torch.equal(kept, kept.T)
    assert bool((kept.diagonal() == 0).all())
    assert bool((kept >= 0).all())
    largest = given.double().abs().max()
    tolerance = 0.1 if torch.finfo(given.dtype).bits == 16 else 0.01
    assert (kept.double() - given.double()).abs().max() <= tolerance * largest


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("offset", [0.0, 1.0, 3.0])
@pytest.mark.parametrize("unit", [1e-6, 1.0, 1e6])
def test_distances_of_any_points(kind: str, offset: float, unit: float) -> None:
    # cdist uses differences up to 25 rows, and matrix products for more.
    for rows in (2, 3, 25, 26, 60, 300):
        for features in (1, 2, 50, 768):
            x = (unit * (points(kind, rows, features) + offset)).float()
            given = torch.cdist(x, x)
            check_clean(Matrix(given), given)
            wide = torch.cdist(x.double(), x.double())
            check_clean(Matrix(wide), wide)


@pytest.mark.parametrize("kind", one_in(3, KINDS))
def test_distances_of_many_points(kind: str) -> None:
    x = points(kind, 1500, 16).float()
    given = torch.cdist(x, x)
    check_clean(Matrix(given), given)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("kind", KINDS)
def test_distances_in_any_precision(kind: str, dtype: torch.dtype) -> None:
    x = points(kind, 200, 8).float()
    given = torch.cdist(x, x).to(dtype)
    check_clean(Matrix(given), given)
    metric = as_ground_metric(given)
    assert isinstance(metric, Matrix)
    check_clean(metric, given)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_products_in_half_precision(dtype: torch.dtype) -> None:
    x = points("normal", 60, 8).to(dtype)
    given = torch.cdist(x, x)
    check_clean(Matrix(given), given)


@pytest.mark.parametrize("kind", KINDS)
def test_distances_of_other_libraries(kind: str) -> None:
    x = points(kind, 100, 5).numpy()
    for values in (x, x.astype(np.float32)):
        for metric in ("euclidean", "sqeuclidean", "cosine", "manhattan"):
            if metric == "cosine" and not values.any(1).all():
                continue
            given = pairwise_distances(values, metric=metric)
            check_clean(Matrix(given), torch.from_numpy(given))
        given = squareform(pdist(values))
        check_clean(Matrix(given), torch.from_numpy(given))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("offset", [0.0, 3.0])
def test_squared_distances_by_products_may_be_slightly_negative(
    dtype: torch.dtype, offset: float
) -> None:
    x = (points("duplicates", 300, 20) + offset).to(dtype)
    norms = x.square().sum(1)
    given = norms[:, None] + norms - 2 * x @ x.T
    check_clean(Matrix(given), given)
    tiny = torch.tensor([[0.0, -1e-5, 1.0], [-2e-5, 0.0, 1.0], [1.0, 1.0, 1e-5]])
    assert Matrix(tiny).cost().tolist() == [[0, 0, 1], [0, 0, 1], [1, 1, 0]]
    assert bool(Matrix(tiny, power=0.5).cost().isfinite().all())


def test_nearly_parallel_vectors_have_cosines_of_rounding() -> None:
    x = torch.nn.functional.normalize(points("normal", 50, 16).float() + 30.0)
    given = 1 - x @ x.T
    assert given.max() < 1e-2
    check_clean(Matrix(given), given)


def test_single_precision_stored_in_double() -> None:
    x = points("clusters", 100, 8).float()
    for given in (torch.cdist(x, x).double(), torch.cdist(x, x).numpy().astype(np.float64)):
        check_clean(Matrix(given), torch.as_tensor(given))
    # Deviations of this size in numbers that need double precision are not rounding.
    wide = torch.cdist(x.double(), x.double())
    wide[3, 3] = 1e-4
    with pytest.raises(ValueError, match=r"be 0 on the diagonal, got distance\[3, 3\] = 0.0001"):
        Matrix(wide)


@pytest.mark.parametrize("offset", [10.0, 100.0, 1e4])
def test_points_far_from_the_origin_work_or_are_refused_with_advice(offset: float) -> None:
    x = points("normal", 100, 8).float() + offset
    try:
        matrix = Matrix(torch.cdist(x, x))
    except ValueError as error:
        assert "subtract their mean" in str(error)  # noqa: PT017
    else:
        truth = torch.cdist(x.double(), x.double())
        assert (matrix.distance() - truth).abs().max() <= 0.01 * truth.max()
    centred = x - x.mean(0)
    Matrix(torch.cdist(centred, centred))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_parameter_is_used_as_it_stands(dtype: torch.dtype) -> None:
    x = points("duplicates", 60, 8).to(dtype)
    given = torch.cdist(x, x).requires_grad_()
    matrix = Matrix(given)
    assert torch.equal(matrix.distance(), given)
    squares = x.square().sum(1)
    negative = (squares[:, None] + squares - 2 * x @ x.T).requires_grad_()
    matrix = Matrix(negative, power=1.5)
    with torch.no_grad():
        assert bool(matrix.cost_columns([0, 1]).isfinite().all())
    costs = matrix.cost()
    costs.sum().backward()
    assert bool((costs >= 0).all())
    assert negative.grad is not None
    assert bool(negative.grad.isfinite().all())


@pytest.mark.parametrize(
    ("entry", "value", "message"),
    [
        ((1, 1), 0.02, r"be 0 on the diagonal, got distance\[1, 1\] = 0.02; .*Cost"),
        ((1, 2), -0.02, r"not be negative, got distance\[1, 2\] = -0.02"),
        ((1, 2), 1.02, r"be symmetric, got distance\[1, 2\] = 1.02 and .* = 1; .*Cost"),
    ],
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_more_than_rounding_is_an_error(
    entry: tuple[int, int], value: float, message: str, dtype: torch.dtype
) -> None:
    distance = (1 - torch.eye(4)).to(dtype)
    distance[entry] = value
    with pytest.raises(ValueError, match=f"distance must {message}"):
        Matrix(distance)
    with pytest.raises(ValueError, match=f"distance must {message}"):
        Matrix(distance.requires_grad_())


def test_integers_have_no_rounding() -> None:
    metres = [[0, 5_000_000, 4_000_000], [5_000_100, 0, 3_000_000], [4_000_000, 3_000_000, 0]]
    floats = np.array(metres, dtype=np.float64)
    for given in (metres, np.array(metres), torch.tensor(metres), floats, torch.tensor(floats)):
        with pytest.raises(ValueError, match="distance must be symmetric"):
            Matrix(given)
    symmetric = np.maximum(metres, np.transpose(metres))
    assert Matrix(symmetric).distance().tolist() == symmetric.tolist()


def test_exact_input_keeps_its_bits() -> None:
    tiny = torch.tensor([[0.0, 6e-8], [6e-8, 0.0]], dtype=torch.float16)  # halving would lose it
    assert torch.equal(Matrix(tiny).distance(), tiny)
