"""Heights of lowest common ancestors and shortest paths, compared with their definitions."""

import itertools

import pytest
import torch

import wassloss as wl
from wassloss.ground import Tree, taxonomy

PATHS = [
    *(("animal", "dog", "husky"), ("animal", "dog", "pug"), ("animal", "cat")),
    *(("plant", "tree", "conifer", "pine"), ("plant", "herb")),
]
# A dog is a pet and a canine, so its lowest common ancestors with wolf and cat differ.
SEVERAL = {
    "dog": ["pet", "canine"],
    "wolf": ["canine"],
    "cat": ["pet", "feline"],
    "canine": ["animal"],
    "feline": ["animal"],
    "pet": ["thing"],
    "animal": ["thing"],
}


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
    assert metric.check_axioms()


def test_a_class_above_another() -> None:
    # Their lowest common ancestor is the upper class itself.
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
    loaded = wl.ground.GroundMetric.load(tmp_path / "tree.npz")
    torch.testing.assert_close(loaded.distance(), metric.distance())


def test_power_and_scale() -> None:
    metric = heights(PATHS, power=2, scale="max")
    torch.testing.assert_close(metric.cost(), (heights(PATHS).distance() / 4) ** 2)


def test_two_branches_of_different_depth() -> None:
    # By path length, pine and herb are twice as far apart as pug and cat.
    tree, high = Tree.from_paths(PATHS).distance(), heights(PATHS).distance()
    assert (tree[3, 4], tree[1, 2]) == (4, 3)
    assert (high[3, 4], high[1, 2]) == (3, 2)


def test_with_one_parent_each_it_is_a_tree() -> None:
    parents = {child: [parent] for path in PATHS for parent, child in itertools.pairwise(path)}
    parents |= {"animal": ["thing"], "plant": ["thing"]}
    names = [path[-1] for path in PATHS]
    found = taxonomy(parents, names)
    assert found.labels == tuple(names)
    torch.testing.assert_close(found.distance(), Tree.from_paths(PATHS).distance())


def test_several_parents_by_hand() -> None:
    path = taxonomy(SEVERAL, power=2)
    assert path.labels == ("dog", "wolf", "cat")
    assert path.distance().tolist() == [[0, 2, 2], [2, 0, 4], [2, 4, 0]]
    assert path.cost()[1, 2] == 16
    inner = taxonomy(SEVERAL, ["animal", "wolf", "cat"])
    assert inner.distance().tolist() == [[0, 2, 2], [2, 0, 4], [2, 4, 0]]


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: heights([("a",), ("a",)]), ValueError, "paths must be distinct"),
        (lambda: heights(["dog"]), TypeError, "sequence of names"),
        (lambda: Tree([-1, 0], distance="up"), ValueError, "distance must be 'path' or 'lca_h"),
        (lambda: taxonomy(SEVERAL, distance="path"), TypeError, "unexpected keyword .*'distance'"),
        (lambda: taxonomy({"a": ["b"], "b": ["a"]}), ValueError, "parents must be acyclic"),
        (lambda: taxonomy(SEVERAL, ["fish"]), ValueError, "labels must be notions .* got fish"),
        (lambda: taxonomy({"a": "bc"}), TypeError, r"parents\['a'\] must be a sequence of names"),
        (lambda: taxonomy({}), ValueError, "labels must be notions of the taxonomy, got none"),
        (
            lambda: taxonomy({"a": ["b"], "c": ["d"]}),
            ValueError,
            "parents must connect all labels, got 'a' and 'c' apart",
        ),
    ],
)
def test_bad_input(call, error: type, message: str) -> None:
    with pytest.raises(error, match=message):
        call()
