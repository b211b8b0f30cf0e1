"""Laws of every ground metric."""

from pathlib import Path

import numpy as np
import pytest
import torch

from tests.ground.instances import Factory, every
from wassloss.ground import GroundMetric
from wassloss.ground._sets import _of_all_columns as least_costs_of_all_columns

pytestmark = pytest.mark.parametrize("factory", every())


def test_columns_are_columns_of_the_full_matrix(factory: Factory) -> None:
    metric = factory(power=1.5, scale=2.0)
    indices = torch.tensor([[2, 0, 1], [1, 1, 0]])
    for columns, full in (
        (metric.distance_columns(indices), metric.distance()),
        (metric.cost_columns(indices), metric.cost()),
    ):
        assert full.shape == (metric.size, metric.size)
        assert columns.shape == (2, 3, metric.size)
        torch.testing.assert_close(columns, full.T[indices])


def test_pairs_are_entries_of_the_full_matrix(factory: Factory) -> None:
    metric = factory(power=1.5, scale=2.0)
    first, second = torch.tensor([[0, 2], [1, 1]]), torch.tensor([1, 2])
    for same in (metric, metric.tabulated()):
        torch.testing.assert_close(same.cost_between(first, second), metric.cost()[first, second])
    every_pair = torch.cartesian_prod(*[torch.arange(metric.size)] * 2).T
    torch.testing.assert_close(
        metric.cost_between(*every_pair), metric.cost().reshape(-1), rtol=1e-6, atol=1e-7
    )
    assert metric.cost_between([], []).shape == (0,)
    assert metric.cost_between(0, 1).shape == ()
    with pytest.raises(ValueError, match=r"first and second must .* got \(2,\) and \(3,\)"):
        metric.cost_between([0, 1], [0, 1, 2])


@pytest.mark.parametrize(
    "indices", [1, [1], np.array([[1, 0]]), np.array(1), torch.tensor(1), [], [[]]]
)
def test_indices_of_any_shape_and_type(factory: Factory, indices: object) -> None:
    metric = factory()
    columns = metric.cost_columns(indices)  # type: ignore[arg-type]
    assert columns.shape == (*np.shape(indices), metric.size)
    assert columns.dtype == metric.dtype


def test_symmetric_with_zero_diagonal(factory: Factory) -> None:
    distance = factory().distance()
    torch.testing.assert_close(distance, distance.T)
    assert (distance.diagonal() == 0).all()
    assert (distance >= 0).all()


def test_satisfies_the_axioms(factory: Factory) -> None:
    report = factory(power=3).check_axioms()
    assert report.ok, report
    assert "(all " in str(report)


@pytest.mark.parametrize("power", [0.0, 0.5, 1.0, 2.0, 13.0])
def test_cost_is_scaled_distance_to_a_power(factory: Factory, power: float) -> None:
    metric = factory(power=power, scale=4.0)
    distance = metric.distance()
    expected = torch.where(distance == 0, 0.0, (distance / 4) ** power)
    torch.testing.assert_close(metric.cost(), expected)


def test_power_zero_is_the_zero_one_metric(factory: Factory) -> None:
    metric = factory(power=0, scale="max")
    expected = 1 - torch.eye(metric.size, dtype=metric.dtype)
    assert torch.equal(metric.cost(), expected)


def test_scale_max_brings_the_largest_cost_to_one(factory: Factory) -> None:
    metric = factory(power=2, scale="max")
    assert metric.scale == pytest.approx(factory().distance().max().item(), rel=1e-6)
    assert metric.cost().max().item() == pytest.approx(1.0)
    assert metric.max_cost() == pytest.approx(1.0)


def test_scale_median_brings_the_median_cost_to_one(factory: Factory) -> None:
    metric = factory(power=2, scale="median")
    off_diagonal = metric.cost()[~torch.eye(metric.size, dtype=torch.bool)]
    assert off_diagonal.median().item() == pytest.approx(1.0)
    assert metric.median_cost() == pytest.approx(1.0)


def test_largest_and_median_cost_are_those_of_the_matrix(factory: Factory) -> None:
    metric = factory(power=3, scale=1.7)
    cost = metric.cost()
    off_diagonal = cost[~torch.eye(metric.size, dtype=torch.bool)]
    assert metric.max_cost() == pytest.approx(cost.max().item(), rel=1e-6)
    assert metric.median_cost() == pytest.approx(off_diagonal.median().item(), rel=1e-6)


def test_with_cost_equals_building_with_it(factory: Factory) -> None:
    metric = factory(power=2, scale="max")
    built = factory(power=0.5, scale="max")
    torch.testing.assert_close(metric.with_cost(power=0.5).cost(), built.cost())
    torch.testing.assert_close(metric.with_cost(scale=None).cost(), factory(power=2).cost())
    assert metric.with_cost(scale="median").scale == pytest.approx(factory(scale="median").scale)
    assert metric.power == 2


def test_save_and_load_round_trip(factory: Factory, tmp_path: Path) -> None:
    size = factory().size
    metric = factory(power=2, scale="median", labels=[f"läbel {i}" for i in range(size)])
    metric.save(tmp_path / "metric.npz")
    loaded = GroundMetric.load(tmp_path / "metric.npz")
    assert type(loaded) is type(metric)
    assert repr(loaded) == repr(metric)
    assert (loaded.power, loaded.scale, loaded.labels) == (2, metric.scale, metric.labels)
    assert loaded.dtype == metric.dtype
    assert torch.equal(loaded.distance(), metric.distance())


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_to_another_dtype(factory: Factory, dtype: torch.dtype, tmp_path: Path) -> None:
    metric = factory(power=2, scale="max")
    other = metric.to(dtype=dtype)
    assert other.dtype == other.cost().dtype == dtype
    assert type(other) is type(metric)
    eps = max(torch.finfo(dtype).eps, torch.finfo(metric.dtype).eps)
    torch.testing.assert_close(other.cost().double(), metric.cost().double(), rtol=0, atol=8 * eps)
    assert other.with_cost(scale="median").median_cost() == pytest.approx(1, abs=eps)
    other.save(tmp_path / "metric.npz")
    assert torch.equal(GroundMetric.load(tmp_path / "metric.npz").cost(), other.cost())


def test_to_the_same_is_itself(factory: Factory) -> None:
    metric = factory()
    assert metric.to() is metric
    assert metric.to("cpu", metric.dtype) is metric
    with pytest.raises(TypeError, match=r"dtype must be a floating-point type, got torch.int64"):
        metric.to(dtype=torch.int64)


def test_nearest_agrees_with_sorting_the_matrix(factory: Factory) -> None:
    metric = factory()
    for origin in range(metric.size):
        distances = metric.distance()[:, origin].tolist()
        order = sorted(set(range(metric.size)) - {origin}, key=lambda i: (distances[i], i))
        expected = [(i, pytest.approx(distances[i])) for i in order]
        assert metric.nearest(origin, metric.size + 5) == expected
        assert metric.nearest(origin, 1) == expected[:1]


def test_labels_name_indices(factory: Factory) -> None:
    names = [f"label {i}" for i in range(factory().size)]
    metric = factory(labels=np.array(names))
    assert metric.labels == tuple(names)
    assert [metric.index(name) for name in names] == list(range(metric.size))
    assert metric.index(1) == 1
    assert metric.nearest("label 0", 1)[0][0] in names[1:]
    assert factory().labels is None


def test_attributes_are_read_only(factory: Factory) -> None:
    metric = factory()
    for name in ("size", "power", "scale", "labels", "device", "dtype", "requires_grad"):
        with pytest.raises(AttributeError):
            setattr(metric, name, 1)


def test_costs_to_a_set_are_the_least_of_its_columns(factory: Factory) -> None:
    metric = factory(power=1.5, scale=2.0)
    allowed = torch.rand(20, metric.size, generator=torch.Generator().manual_seed(0)) < 0.4
    allowed[torch.arange(20), torch.arange(20) % metric.size] = True
    columns = metric.cost().T
    expected = torch.stack([columns[row].amin(0) for row in allowed])
    torch.testing.assert_close(metric.costs_to_sets(allowed), expected)
    torch.testing.assert_close(metric.tabulated().costs_to_sets(allowed), expected)
    with_shapes_alone = least_costs_of_all_columns(metric, allowed)
    torch.testing.assert_close(with_shapes_alone, expected)


def test_ranges_have_the_costs_of_their_labels_or_none(factory: Factory) -> None:
    metric = factory(power=1.5, scale=2.0)
    first, last = torch.triu_indices(metric.size, metric.size)
    order = torch.arange(metric.size) if metric.label_order is None else metric.label_order
    columns = metric.cost().T
    for a, b in zip(first, last, strict=True):
        found = metric.costs_to_ranges(a[None], b[None])
        if found is not None:
            torch.testing.assert_close(found[0], columns[order[a : b + 1]].amin(0))
