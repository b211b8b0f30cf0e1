"""Heights of lowest common ancestors, against the words of their definition."""

import itertools

import pytest
import torch

import wassloss as wl
from wassloss.ground import lca_heights

PATHS = [
    *(("animal", "dog", "husky"), ("animal", "dog", "pug"), ("animal", "cat")),
    *(("plant", "tree", "conifer", "pine"), ("plant", "herb")),
]


def height(node: tuple[str, ...]) -> int:
    return max(len(path) - len(node) for path in PATHS if path[: len(node)] == node)


def test_it_is_the_height_of_what_two_paths_share() -> None:
    metric = lca_heights(PATHS)
    for (i, one), (j, other) in itertools.product(enumerate(PATHS), repeat=2):
        shared = tuple(
            a for a, b in itertools.takewhile(lambda p: p[0] == p[1], zip(one, other, strict=False))
        )
        assert metric.distance()[i, j] == (height(shared) if i != j else 0)
    assert metric.labels == ("husky", "pug", "cat", "pine", "herb")
    assert metric.check_axioms()


def test_a_class_above_another() -> None:
    # The lowest notion that both belong to is the upper class itself.
    assert lca_heights([("a",), ("a", "b"), ("c",)]).distance()[0].tolist() == [0, 1, 2]


def test_power_and_scale() -> None:
    metric = lca_heights(PATHS, power=2, scale="max")
    torch.testing.assert_close(metric.cost(), (lca_heights(PATHS).distance() / 4) ** 2)


def test_paths_that_make_no_sense() -> None:
    with pytest.raises(ValueError, match="paths must differ"):
        lca_heights([("a",), ("a",)])
    with pytest.raises(TypeError, match="sequence of names"):
        lca_heights(["dog"])


def test_two_branches_of_different_depth() -> None:
    # By path lengths the pine is twice as far from the herb as the pug from the cat.
    tree, heights = wl.ground.Tree.from_paths(PATHS).distance(), lca_heights(PATHS).distance()
    assert (tree[3, 4], tree[1, 2]) == (4, 3)
    assert (heights[3, 4], heights[1, 2]) == (3, 2)
