"""Heights of lowest common ancestors, against the words of their definition."""

import itertools

import pytest
import torch

import wassloss as wl
from wassloss.ground import Tree

PATHS = [
    *(("animal", "dog", "husky"), ("animal", "dog", "pug"), ("animal", "cat")),
    *(("plant", "tree", "conifer", "pine"), ("plant", "herb")),
]


def heights(paths: list[tuple[str, ...]], **cost: float) -> Tree:
    return Tree.from_paths(paths, distance="lca_height", **cost)


def height(node: tuple[str, ...]) -> int:
    return max(len(path) - len(node) for path in PATHS if path[: len(node)] == node)


def test_it_is_the_height_of_what_two_paths_share() -> None:
    metric = heights(PATHS)
    for (i, one), (j, other) in itertools.product(enumerate(PATHS), repeat=2):
        shared = tuple(
            a for a, b in itertools.takewhile(lambda p: p[0] == p[1], zip(one, other, strict=False))
        )
        assert metric.distance()[i, j] == (height(shared) if i != j else 0)
    assert metric.labels == ("husky", "pug", "cat", "pine", "herb")
    assert metric.check_axioms().ok


def test_a_class_above_another() -> None:
    # The lowest notion that both belong to is the upper class itself.
    metric = heights([("a",), ("a", "b"), ("c",)])
    assert metric.distance()[0].tolist() == [0, 1, 2]
    assert metric.distance().T.equal(metric.distance())


def test_edge_lengths_add_up_to_heights() -> None:
    # Node 1 has labels 3 and 4, at 2 and 0.5 below it; the root has 2, at 7.
    tree = Tree([-1, 0, 0, 1, 1], lengths=[9, 1, 7, 2, 0.5], distance="lca_height")
    assert tree.distance()[0].tolist() == [0, 7, 7]
    assert tree.distance()[1].tolist() == [7, 0, 2]


def test_nodes_without_labels_below_have_no_height() -> None:
    tree = Tree([-1, 0, 0, 1, 3], nodes=[1, 2], distance="lca_height")
    assert tree.distance()[0].tolist() == [0, 1]


def test_exact_transport_uses_the_tree(tmp_path) -> None:
    metric = heights(PATHS)
    h, y = torch.rand(2, 6, 5, dtype=torch.float64).softmax(2)
    full = wl.ground.Matrix(metric.distance().double())
    torch.testing.assert_close(wl.wasserstein(h, y, metric), wl.wasserstein(h, y, full))
    metric.save(tmp_path / "tree.npz")
    loaded = wl.ground.load(tmp_path / "tree.npz")
    torch.testing.assert_close(loaded.distance(), metric.distance())


def test_power_and_scale() -> None:
    metric = heights(PATHS, power=2, scale="max")
    torch.testing.assert_close(metric.cost(), (heights(PATHS).distance() / 4) ** 2)


def test_two_branches_of_different_depth() -> None:
    # By path lengths the pine is twice as far from the herb as the pug from the cat.
    tree, high = Tree.from_paths(PATHS).distance(), heights(PATHS).distance()
    assert (tree[3, 4], tree[1, 2]) == (4, 3)
    assert (high[3, 4], high[1, 2]) == (3, 2)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: heights([("a",), ("a",)]), ValueError, "paths must differ"),
        (lambda: heights(["dog"]), TypeError, "sequence of names"),
        (lambda: Tree([-1, 0], distance="up"), ValueError, "distance must be 'path' or 'lca_h"),
    ],
)
def test_what_makes_no_sense(call, error: type, message: str) -> None:
    with pytest.raises(error, match=message):
        call()
