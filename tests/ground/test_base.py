"""Labels, indices, the cost rule's gradient, and what the base class refuses."""

import pytest
import torch

from wassloss.ground import Discrete, Graph, Grid, Matrix, Ordinal
from wassloss.ground._cost import cost_of
from wassloss.ground.matrix import as_ground_metric


@pytest.mark.parametrize("power", [0.0, 0.3, 1.0, 2.0])
def test_gradient_of_the_cost_is_zero_at_zero_and_the_derivative_elsewhere(power: float) -> None:
    distance = torch.tensor([0.0, 0.5, 3.0], dtype=torch.float64, requires_grad=True)
    (gradient,) = torch.autograd.grad(cost_of(distance, power, 2.0).sum(), distance)
    apart = distance.detach()[1:]
    assert gradient[0] == 0
    torch.testing.assert_close(gradient[1:], power / 2 * (apart / 2) ** (power - 1))


def test_cost_is_the_same_with_and_without_gradient() -> None:
    distance = torch.rand(50)
    expected = cost_of(distance, 2.5, 0.3)
    torch.testing.assert_close(cost_of(distance.requires_grad_(), 2.5, 0.3).detach(), expected)


def test_median_beyond_the_exact_size_is_estimated_the_same_way_each_time() -> None:
    size = 4000
    positions = torch.rand(size, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    metric = Ordinal(positions)
    distance = metric.distance()
    exact = distance[~torch.eye(size, dtype=torch.bool)].median().item()
    assert metric.median_cost() == pytest.approx(exact, rel=0.02)
    assert metric.median_cost() == metric.median_cost() == metric.with_cost(scale="median").scale


def test_median_of_very_many_labels_is_that_of_a_million_pairs() -> None:
    metric = Ordinal(1_000_000)  # whole columns would take gigabytes
    assert metric.median_cost() == pytest.approx(1e6 * (1 - 0.5**0.5), rel=0.01)
    assert Discrete(20_000).median_cost() == 1  # pairs of a label with itself do not count


def test_one_label_has_no_cost() -> None:
    for metric in (Discrete(1), Ordinal(1), Grid((1, 1)), Graph([[0]]), Matrix([[0.0]])):
        assert metric.max_cost() == metric.median_cost() == 0.0
        assert metric.cost().tolist() == [[0.0]]
        assert metric.nearest(0, 3) == []


@pytest.mark.parametrize("scale", ["max", "median"])
def test_a_zero_scale_is_refused_with_advice(scale: str) -> None:
    with pytest.raises(ValueError, match=f"scale='{scale}' is 0 over these 3 labels; pass scale="):
        Ordinal([2.0, 2.0, 2.0], scale=scale)  # type: ignore[arg-type]


def test_unknown_name_is_answered_with_close_ones() -> None:
    metric = Ordinal(3, labels=["mild", "moderate", "severe"])
    with pytest.raises(ValueError, match="'moderat' is not among the 3 labels; did you mean 'mode"):
        metric.nearest("moderat", 1)
    with pytest.raises(ValueError, match=r"'zzz' is not among the 3 labels$"):
        metric.index("zzz")
    with pytest.raises(ValueError, match="'mild' is a name, but this metric was built without"):
        Ordinal(3).index("mild")
    with pytest.raises(ValueError, match="label must be between 0 and 2, got -1"):
        metric.index(-1)
    with pytest.raises(TypeError, match=r"label must be a name or an index, got 1\.5"):
        metric.index(1.5)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="k must be at least 1, got 0"):
        metric.nearest("mild", 0)


@pytest.mark.parametrize(
    ("indices", "error", "message"),
    [
        ([0, 3], ValueError, r"indices must be in 0\.\.2, got 3"),
        ([-1], ValueError, r"indices must be in 0\.\.2, got -1"),
        ([0.0], TypeError, "indices must be integers, got torch.float32"),
        ([True], TypeError, "indices must be integers, got torch.bool"),
    ],
)
def test_wrong_indices(indices: list[object], error: type[Exception], message: str) -> None:
    for columns in (Ordinal(3).distance_columns, Ordinal(3).cost_columns):
        with pytest.raises(error, match=message):
            columns(indices)


def test_with_cost_checks_what_it_is_given() -> None:
    with pytest.raises(ValueError, match="power must be a finite number, at least 0, got -1"):
        Ordinal(3).with_cost(power=-1)
    with pytest.raises(ValueError, match="scale must be None, a positive number"):
        Ordinal(3).with_cost(scale=0)


def test_later_changes_to_the_input_do_not_reach_the_metric() -> None:
    positions = torch.tensor([0.0, 1.0, 2.0])
    metric = Ordinal(positions)
    positions[0] = 100
    assert metric.distance()[0, 1] == 1


def test_a_dtype_too_narrow_is_refused() -> None:
    with pytest.raises(ValueError, match=r"got torch.float16"):
        Matrix([[0.0, 1e6], [1e6, 0.0]]).to(dtype=torch.float16)


def test_default_dtype_is_followed_for_integers_and_lists() -> None:
    torch.set_default_dtype(torch.float64)
    try:
        assert Ordinal(3).dtype == Discrete(3).dtype == Ordinal([1.0, 2.0]).dtype == torch.float64
        assert Matrix(torch.tensor([[0, 1], [1, 0]])).dtype == torch.float64
    finally:
        torch.set_default_dtype(torch.float32)
    assert Ordinal(3).dtype == torch.float32


def test_repr_is_compact() -> None:
    assert repr(Ordinal(10, power=2, scale=9)) == "Ordinal(10, power=2, scale=9)"
    assert repr(Ordinal([0, 1, 4.5])) == "Ordinal([0, 1, 4.5])"
    assert repr(Ordinal(range(5, 105))) == "Ordinal([5, 6, ..., 104])"
    assert repr(Grid((2, 3), norm="manhattan")) == "Grid((2, 3), norm='manhattan')"


def test_as_ground_metric() -> None:
    metric = Ordinal(3)
    assert as_ground_metric(metric) is metric
    wrapped = as_ground_metric(metric.distance().double().numpy())
    assert isinstance(wrapped, Matrix)
    assert torch.equal(wrapped.distance(), metric.distance().double())
    with pytest.raises(TypeError, match=r"metric must be a GroundMetric, .* got str"):
        as_ground_metric("ordinal")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"must be square, got shape \(2, 3\)"):
        as_ground_metric(torch.zeros(2, 3))


@pytest.mark.parametrize("norm", ["euclidean", "manhattan"])
def test_many_labels_never_become_a_square_matrix(norm: str) -> None:
    size = 100_000  # the square would take 40 GB
    indices = torch.tensor([0, 99_999, 54_321])
    for metric in (Discrete(size), Ordinal(size), Grid((100, 1000), norm=norm)):  # type: ignore[arg-type]
        columns = metric.with_cost(power=2, scale="max").cost_columns(indices)
        assert columns.shape == (3, size)
        assert (columns.gather(1, indices[:, None]) == 0).all()
        assert columns.max() == 1
