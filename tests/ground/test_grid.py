import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial.distance import cdist

from wassloss.ground import Grid, Ordinal


@given(
    st.lists(st.integers(1, 4), min_size=1, max_size=4),
    st.sampled_from([("euclidean", "euclidean"), ("manhattan", "cityblock")]),
    st.data(),
)
def test_distances_are_those_of_scipy(
    shape: list[int], norm: tuple[str, str], data: st.DataObject
) -> None:
    axes = len(shape)
    widths = data.draw(st.lists(st.floats(0.1, 10), min_size=axes, max_size=axes))
    metric = Grid(shape, norm=norm[0], spacing=np.array(widths))  # type: ignore[arg-type]
    cells = np.stack(np.unravel_index(np.arange(metric.size), shape), axis=1) * np.array(widths)
    expected = cdist(cells, cells, norm[1])
    np.testing.assert_allclose(metric.distance().numpy(), expected, rtol=1e-12)
    assert metric.max_cost() == pytest.approx(expected.max())
    assert metric.shape == tuple(shape)


def test_a_grid_of_one_axis_is_a_line() -> None:
    assert torch.equal(Grid((6,), spacing=2.0).distance(), 2 * Ordinal(6).distance())


def test_one_spacing_serves_all_axes() -> None:
    metric = Grid((2, 2), spacing=np.float32(3))
    assert metric.spacing.tolist() == [3.0, 3.0]
    assert metric.norm == "euclidean"


def test_half_precision_does_not_overflow_in_the_squares() -> None:
    metric = Grid((400, 2)).to(dtype=torch.float16)
    assert metric.distance_columns(0)[-2:].tolist() == [399.0, 399.0]
