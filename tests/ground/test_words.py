"""Sets of labels from what people write."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from wassloss.ground import Embedding, Grid, GroundMetric, Ordinal, Tree, taxonomy

PATHS = [
    ("animal", "dog", "husky"),
    ("plant", "rose"),
    ("animal", "cat"),
    ("animal", "dog", "poodle"),
    ("plant", "other"),
    ("animal", "other"),
]
TREE = Tree.from_paths(PATHS)
LINE = Ordinal([2.0, 0.5, 4.0, 1.0, 4.0])
GRADES = Ordinal(labels=["poor", "fair", "good", "best"])


@pytest.mark.parametrize("metric", [TREE, Tree.from_paths(PATHS, distance="lca_height")])
def test_nodes_of_a_tree(metric: Tree) -> None:
    target = metric.target(["husky", "dog", "animal", "plant", "cat", "animal/dog", None])
    assert target.members is metric.label_order  # ranges, of labels in depth-first order
    assert [sorted(row) for row in target.lists()] == [
        [0], [0, 3], [0, 2, 3, 5], [1, 4], [2], [0, 3], [-100],
    ]  # fmt: skip


def test_several_labels() -> None:
    target = TREE.target(["cat|rose", ["husky", "cat"], ("rose", 0), {"plant/other"}, ["dog", 3]])
    assert [sorted(row) for row in target.lists()] == [[1, 2], [0, 2], [0, 1], [4], [0, 3]]
    column = np.array(["husky", "dog"], dtype=object)
    assert [sorted(row) for row in TREE.target(column).lists()] == [[0], [0, 3]]


def test_names_of_nodes() -> None:
    assert TREE.nodes == (
        "animal", "dog", "husky", "poodle", "cat", "animal/other", "plant", "rose", "plant/other",
    )  # fmt: skip
    assert TREE.parents("husky") == ["dog"]
    assert TREE.parents(0) == ["dog"]
    assert TREE.parents("dog") == ["animal"]
    assert TREE.parents("animal") == []
    assert TREE.lowest_common(["husky", "poodle"]) == ["dog"]
    assert TREE.lowest_common(["husky", "dog"]) == ["dog"]
    assert TREE.lowest_common(["husky", "animal/other"]) == ["animal"]
    assert TREE.lowest_common(["husky", "rose"]) == []  # the root has no name


def test_a_name_of_a_label_means_it_alone_and_its_path_all_below() -> None:
    tree = Tree([-1, 0, 1, 1], nodes=[1, 2, 3], names=["all", "dog", "husky", "poodle"])
    assert tree.labels == ("dog", "husky", "poodle")
    assert tree.target(["dog", "all/dog", "all"]).lists() == [[0], [0, 1, 2], [0, 1, 2]]
    assert tree.lowest_common(["husky", "poodle"]) == ["dog"]


@pytest.mark.parametrize("distance", ["path", "lca_height"])
def test_names_are_saved(tmp_path: Any, distance: Any) -> None:
    paths = [*PATHS, ("animal", "dog")]
    tree = Tree.from_paths(paths, distance=distance)
    tree.save(tmp_path / "tree.npz")
    loaded = Tree.load(tmp_path / "tree.npz")
    words = ["husky", "dog", "animal", "animal/dog"]
    assert sorted(loaded.nodes) == sorted(tree.nodes)
    assert [set(row) for row in loaded.target(words).lists()] == [
        {0},
        {6},
        {0, 2, 3, 5, 6},
        {0, 3, 6},
    ]
    assert [set(row) for row in tree.target(words).lists()] == [
        {0},
        {6},
        {0, 2, 3, 5, 6},
        {0, 3, 6},
    ]


def test_intervals() -> None:
    words = ["4", "1..2", "1-4", ">=2", "<2", "<=2", ">2", "≥ 4", "0.5 .. 1"]
    assert [sorted(row) for row in LINE.target(words).lists()] == [
        [2, 4], [0, 3], [0, 2, 3, 4], [0, 2, 4], [1, 3], [0, 1, 3], [2, 4], [2, 4], [1, 3],
    ]  # fmt: skip
    assert LINE.target(words).members is LINE.label_order
    assert GRADES.target(["fair", ">=fair", "poor..good", "<good", "poor|best"]).lists() == [
        [1], [1, 2, 3], [0, 1, 2], [0, 1], [0, 3],
    ]  # fmt: skip
    assert Ordinal([-2, -1, 3]).target(["-2--1", "-1..3", "<0"]).lists() == [[0, 1], [1, 2], [0, 1]]
    assert Ordinal(torch.tensor([0.1, 0.2])).target(["0.1", ">0.1"]).lists() == [[0], [1]]


def test_others_take_lists() -> None:
    for metric in (Grid((2, 2)), Embedding(torch.randn(4, 2))):
        assert metric.target([0, [1, 3], torch.tensor([2, 0])]).lists() == [[0], [1, 3], [0, 2]]
    named = Grid((3,), labels=["a", "b", "c"])
    assert named.target(["a", ["a", "c"], "b|c", None]).lists() == [[0], [0, 2], [1, 2], [-100]]


def test_within() -> None:
    assert TREE.within("husky", 2) == ["husky", "poodle"]
    assert LINE.within(0, 1.5) == [0, 1, 3]
    near = TREE.target([TREE.within("husky", 3), "cat"])
    assert [sorted(row) for row in near.lists()] == [[0, 2, 3, 5], [2]]


def test_notions_with_several_parents(tmp_path: Any) -> None:
    dag = taxonomy(
        {
            "dog": ["pet", "canine"],
            "wolf": ["canine"],
            "cat": ["pet"],
            "pet": ["animal"],
            "canine": ["animal"],
        }
    )
    dag.save(tmp_path / "dag.npz")
    for metric in (dag, GroundMetric.load(tmp_path / "dag.npz")):
        target = metric.target(["dog", "pet", "canine", "animal", "cat|wolf"])
        assert target.lists() == [[0], [0, 2], [0, 1], [0, 1, 2], [1, 2]]
        assert sorted(metric.nodes) == ["animal", "canine", "cat", "dog", "pet", "wolf"]
        assert sorted(metric.parents("dog")) == ["canine", "pet"]
        assert metric.lowest_common(["dog", "cat"]) == ["pet"]
        assert metric.lowest_common(["wolf", "cat"]) == ["animal"]
        assert sorted(metric.lowest_common(["dog"])) == ["dog"]
        with pytest.raises(ValueError, match="did you mean 'canine'"):
            metric.target(["canin"])
    several = taxonomy({"a": ["x", "y"], "b": ["x", "y"]})
    assert sorted(several.lowest_common(["a", "b"])) == ["x", "y"]


@pytest.mark.parametrize(
    ("metric", "sets", "error", "message"),
    [
        (TREE, ["dog", "huskey"], ValueError, r"sets\[1\]: .*did you mean 'husky'"),
        (TREE, ["other"], ValueError, "'other' must name one node, got 2: write"),
        (TREE, ["dog|katze"], ValueError, r"sets\[0\]: 'katze' is neither"),
        (TREE, [9], ValueError, "label must be between 0 and 5, got 9"),
        (TREE, [[]], ValueError, r"sets\[0\]: a set must hold at least one label"),
        (TREE, [1.5], TypeError, "label must be a name or an index"),
        (TREE, "dog", TypeError, "sets must be a list"),
        (LINE, ["3"], ValueError, r"'3' must contain a label of"),
        (LINE, ["2..1"], ValueError, "an interval must not end before it starts"),
        (LINE, ["much"], ValueError, "'much' is a name, but this metric was built without"),
        (GRADES, ["godo"], ValueError, "did you mean 'good'"),
        (Tree([-1, 0, 0]), ["dog"], ValueError, "built without labels"),
    ],
)
def test_bad_words(metric: GroundMetric, sets: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        metric.target(sets)


def test_nodes_without_names() -> None:
    with pytest.raises(ValueError, match="must have names: build it with from_paths"):
        Tree([-1, 0, 0]).parents(0)
    with pytest.raises(ValueError, match="names must hold one name for each of 3 nodes, got 1"):
        Tree([-1, 0, 0], names=["all"])
    with pytest.raises(ValueError, match="labels must hold at least one"):
        TREE.lowest_common([])
