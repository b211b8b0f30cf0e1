import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from scipy.sparse.csgraph import floyd_warshall

from tests.ground.instances import FACTORIES
from wassloss.ground import Graph, Ordinal


@st.composite
def connected_graphs(draw: st.DrawFn) -> np.ndarray:
    n = draw(st.integers(1, 10))
    lengths = np.zeros((n, n))
    tree = [(i, draw(st.integers(0, i - 1))) for i in range(1, n)]
    more = draw(st.lists(st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)), max_size=10))
    for i, j in tree + more:
        lengths[i, j] = lengths[j, i] = draw(st.sampled_from([0.25, 1.0, 2.0, 7.5]))
    return lengths


@given(connected_graphs(), st.sampled_from([np.asarray, sparse.csr_array, sparse.coo_matrix]))
def test_distances_are_those_of_scipy(lengths: np.ndarray, form: type) -> None:
    metric = Graph(form(lengths))
    expected = floyd_warshall(lengths - np.diag(np.diag(lengths)), directed=False)
    np.testing.assert_array_equal(metric.distance().numpy(), expected)
    assert metric.max_cost() == expected.max()


def test_a_path_is_a_line_however_long() -> None:
    size = 100_000
    chain = sparse.diags_array([np.ones(size - 1)] * 2, offsets=[-1, 1], format="csr")
    columns = Graph(chain.astype(np.float32)).distance_columns([0, size // 2, 0])
    assert torch.equal(columns, Ordinal(size).distance_columns([0, size // 2, 0]))


def test_the_given_matrix_is_left_alone() -> None:
    given_matrix = sparse.csr_array(np.array([[5.0, 1.0], [1.0, 0.0]]))
    metric = Graph(given_matrix)
    given_matrix.data[:] = 100
    assert metric.distance().tolist() == [[0, 1], [1, 0]]


def test_integers_are_lengths_in_the_default_dtype() -> None:
    adjacency = sparse.csr_array(np.array([[0, 2], [2, 0]]))
    assert Graph(adjacency).dtype == torch.float32
    assert Graph(np.array([[False, True], [True, False]])).distance()[0, 1] == 1


def test_parts_without_a_path_are_named() -> None:
    two_parts = [[0, 1, 0], [1, 0, 0], [0, 0, 0]]
    with pytest.raises(ValueError, match="no path between labels 0 and 2"):
        Graph(two_parts)
    with pytest.raises(ValueError, match="no path between labels 'a' and 'c'"):
        Graph(sparse.csr_array(np.array(two_parts)), labels=["a", "b", "c"])


def test_pairs_in_several_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    # A ring of 6 labels, two columns per block: pairs keep their order.
    monkeypatch.setattr("wassloss._memory.LARGEST_COLUMNS", 12)
    metric = FACTORIES["graph"]()
    first, second = torch.randint(6, (2, 50))
    torch.testing.assert_close(metric.cost_between(first, second), metric.cost()[first, second])
