import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse.csgraph import floyd_warshall

from wassloss.ground import Tree
from wassloss.ground.tree import minimum_table, range_minimum


@st.composite
def trees(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray]:
    """Parents and edge lengths of a tree whose nodes are in no particular order."""
    n = draw(st.integers(1, 14))
    parents = [-1] + [draw(st.integers(0, i - 1)) for i in range(1, n)]
    lengths = [draw(st.sampled_from([0.0, 0.25, 1.0, 3.5])) for _ in range(n)]
    number = draw(st.permutations(range(n)))
    shuffled_parents, shuffled_lengths = np.empty(n, dtype=np.int64), np.empty(n)
    for node in range(n):
        shuffled_parents[number[node]] = -1 if parents[node] == -1 else number[parents[node]]
        shuffled_lengths[number[node]] = lengths[node]
    return shuffled_parents, shuffled_lengths


def path_lengths(parents: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    n = len(parents)
    adjacency = np.full((n, n), np.inf)  # in a dense graph inf stands for no edge, and 0 is an edge
    for node, parent in enumerate(parents):
        if parent != -1:
            adjacency[node, parent] = adjacency[parent, node] = lengths[node]
    np.fill_diagonal(adjacency, 0)
    through = adjacency
    for k in range(n):
        through = np.minimum(through, through[:, k, None] + through[None, k, :])
    return through


@given(trees())
def test_distances_are_path_lengths(tree: tuple[np.ndarray, np.ndarray]) -> None:
    parents, lengths = tree
    n = len(parents)
    expected = path_lengths(parents, lengths)
    metric = Tree(parents, lengths, nodes=np.arange(n))
    np.testing.assert_array_equal(metric.distance().numpy(), expected)
    assert metric.max_cost() == expected.max()

    leaves = [v for v in range(n) if v not in parents]
    by_default = Tree(parents, lengths)
    np.testing.assert_array_equal(by_default.distance().numpy(), expected[np.ix_(leaves, leaves)])


def test_distances_are_those_of_scipy() -> None:
    rng = np.random.default_rng(0)
    n = 60
    parents = np.array([-1] + [int(rng.integers(i)) for i in range(1, n)])
    lengths = rng.uniform(0.1, 2, size=n)
    adjacency = np.zeros((n, n))
    adjacency[np.arange(1, n), parents[1:]] = lengths[1:]
    expected = floyd_warshall(adjacency, directed=False)
    metric = Tree(parents, lengths, nodes=range(n))
    np.testing.assert_allclose(metric.distance().numpy(), expected, rtol=1e-12, atol=1e-12)


@given(trees())
def test_edges_separate_what_is_below_from_the_rest(tree: tuple[np.ndarray, np.ndarray]) -> None:
    # d(u, v) is the total length of the edges with exactly one of u and v below them, on which the
    # closed form of transport on a tree relies.
    parents, lengths = tree
    metric = Tree(parents, lengths, nodes=range(len(parents)))
    start = torch.arange(len(parents))[:, None]
    below = (metric.label_position >= start) & (metric.label_position < metric.subtree_end[:, None])
    separated = below[:, :, None] != below[:, None, :]  # (edges, K, K)
    total = (metric.edge_length[:, None, None] * separated).sum(dim=0)
    assert torch.equal(total, metric.distance())
    assert metric.edge_length[0] == 0


@given(st.lists(st.integers(-5, 5), min_size=1, max_size=20), st.data())
def test_range_minimum(values: list[int], data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(values) - 1))
    stop = data.draw(st.integers(start + 1, len(values)))
    table = minimum_table(torch.tensor(values))
    found = range_minimum(table, torch.tensor(start), torch.tensor(stop))
    assert found.item() == min(values[start:stop])


def test_from_paths() -> None:
    paths = [("animal", "dog"), ("animal", "cat"), ("plant", "rose"), ("plant", "tree", "oak")]
    metric = Tree.from_paths(paths, power=2)
    assert metric.labels == ("dog", "cat", "rose", "oak")
    assert metric.power == 2
    assert metric.distance().tolist() == [
        [0, 2, 4, 5],
        [2, 0, 4, 5],
        [4, 4, 0, 3],
        [5, 5, 3, 0],
    ]


def test_from_paths_joins_names_that_occur_twice() -> None:
    metric = Tree.from_paths([("fruit", "apple"), ("brand", "apple"), ("brand",), ("fig",)])
    assert metric.labels == ("fruit/apple", "brand/apple", "brand", "fig")
    assert metric.distance_columns(metric.index("brand")).tolist() == [3, 1, 0, 2]


def test_labels_may_share_a_node() -> None:
    metric = Tree([-1, 0, 0], nodes=[1, 2, 1])
    assert metric.distance().tolist() == [[0, 2, 0], [2, 0, 2], [0, 2, 0]]
    assert "labels apart: no" in str(metric.check_axioms())


def test_a_long_path_and_a_wide_star() -> None:
    size = 100_000
    for parents, far in ((torch.arange(size) - 1, size - 1), ([-1] + [0] * (size - 1), 2)):
        metric = Tree(parents, nodes=range(size), scale="max", power=2)
        columns = metric.cost_columns([0, 1, size - 1])
        assert columns.shape == (3, size)
        assert metric.scale == far
        assert columns.max() == 1


def test_a_deep_stem_does_not_spoil_short_distances() -> None:
    # 0 - 1 - ... - 999 of length 0.1 each, then two leaves
    parents = [*range(-1, 999), 999, 999]
    metric = Tree(parents, lengths=[0.1] * 1002)
    assert metric.distance()[0, 1].item() == pytest.approx(0.2, abs=3e-5)  # float32 at depth 100
    assert metric.to(dtype=torch.float64).distance()[0, 0] == 0
    assert (metric.distance() >= 0).all()
