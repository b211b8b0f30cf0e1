"""Sets with a guarantee: nested and natural, brute force, coverage in simulation, bad input."""

import itertools
import pickle
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

import wassloss as wl
from wassloss.decisions import Guarantee
from wassloss.decisions._families import family_of, mass_before
from wassloss.decisions._thresholds import coverage_threshold, rows_for_level

Array = NDArray[Any]
K = 7
PATHS = [
    ("animal", "dog", "husky"),
    ("animal", "dog", "poodle"),
    ("animal", "cat"),
    ("plant", "rose"),
    ("animal", "dog", "beagle"),
    ("plant", "moss"),
    ("stone",),
]
TREE = wl.ground.Tree.from_paths(PATHS)
INNER = wl.ground.Tree(
    [-1, 0, 1, 2, 2, 0, 0, 6], nodes=[1, 2, 3, 4, 5, 6, 7]
)  # labels above others
LINE = wl.ground.Ordinal([3.0, 0.0, 1.0, 7.0, 2.0, 9.0, 4.0])
ROUND = wl.ground.Matrix([[min(abs(i - j), K - abs(i - j)) for j in range(K)] for i in range(K)])
COST = wl.ground.Cost(np.random.default_rng(5).integers(1, 9, (K, K)) * (1 - np.eye(K, dtype=int)))
CASES = {
    "interval": (LINE, None),
    "subtree": (TREE, None),
    "subtree with labels that are no leaves": (INNER, None),
    "ball": (ROUND, None),
    "ball of costs": (COST, None),
    "any": (wl.ground.Discrete(K), None),
    "any on a tree": (TREE, "any"),
}
every_case = pytest.mark.parametrize("name", CASES)


def draw(rows: int, seed: int = 0, sharpness: float = 1.0) -> tuple[Array, Array]:
    """Probabilities of a model that is too sure, or too unsure, and labels."""
    rng = np.random.default_rng(seed)
    p = rng.dirichlet([0.5] * K, size=rows) + 1e-12
    p /= p.sum(1, keepdims=True)
    y = (p.cumsum(1) > rng.random((rows, 1)) * (1 - 1e-9)).argmax(1)
    q = p**sharpness
    return q / q.sum(1, keepdims=True), y


def masses_of(name: str, p: Array) -> Array:
    metric, sets = CASES[name]
    return mass_before(family_of(metric, sets), torch.from_numpy(p)).numpy()


def chain_of(name: str, p: Array) -> list[set[int]]:
    """The nested sets of one example, found one by one."""
    metric, _ = CASES[name]
    if name.startswith("any"):
        order = np.argsort(-p, kind="stable")
        return [set(order[: k + 1].tolist()) for k in range(K)]
    if name.startswith("ball"):
        costs = metric.cost().double().numpy()  # from an answer to the truth
        centre = int((costs @ p).argmin())
        return [set(np.flatnonzero(costs[centre] <= r).tolist()) for r in np.unique(costs[centre])]
    if name == "interval":
        along = np.argsort(metric.positions.numpy(), kind="stable").tolist()
        low = high = int(p[along].argmax())
        chain = [{along[low]}]
        while len(chain) < K:
            left = p[along[low - 1]] if low else -1
            right = p[along[high + 1]] if high + 1 < K else -1
            low, high = (low - 1, high) if left >= right else (low, high + 1)
            chain.append({along[i] for i in range(low, high + 1)})
        return chain
    parents, places = metric.parent_position.tolist(), metric.label_position.tolist()

    def below(node: int) -> frozenset[int]:
        found = set()
        for label, at in enumerate(places):
            while at >= 0:
                if at == node:
                    found.add(label)
                at = parents[at]
        return frozenset(found)

    sets_below = {below(node) for node in range(len(parents))} - {frozenset()}
    chain = [set(range(K))]
    while len(chain[-1]) > 1:
        inside = [s for s in sets_below if s < chain[-1]]
        children = [s for s in inside if not any(s < other for other in inside)]
        if not children:
            break
        best = max(children, key=lambda s: p[list(s)].sum())
        if p[list(best)].sum() < p[list(chain[-1].difference(*children))].sum():
            break  # the label of the node itself is likelier
        chain.append(set(best))
    return chain[::-1]


@every_case
def test_labels_within_a_threshold_are_the_sets_of_the_chain(name: str) -> None:
    p, _ = draw(60)
    for row, before in zip(p, masses_of(name, p), strict=True):
        chain = chain_of(name, row)
        thresholds = np.unique(before)
        found = [set(np.flatnonzero(before <= t).tolist()) for t in thresholds]
        assert found == chain
        mass = [row[list(s)].sum() for s in chain]
        np.testing.assert_allclose(thresholds, [0, *mass[:-1]], atol=1e-5)


@every_case
def test_sets_grow_with_the_level(name: str) -> None:
    metric, sets = CASES[name]
    p, y = draw(300)
    masks = [Guarantee(metric, level, sets=sets).fit(p, y).mask(p) for level in (0.3, 0.6, 0.9)]
    assert (masks[0] <= masks[1]).all()
    assert (masks[1] <= masks[2]).all()
    assert masks[0].any(1).all()


def test_intervals_of_one_peak_are_the_shortest() -> None:
    line, rng = wl.ground.Ordinal(K), np.random.default_rng(0)
    peaks = np.sort(rng.random((100, K)), axis=1)
    left = rng.integers(0, K, 100)
    p = np.stack([[*row[: k + 1], *row[k + 1 :][::-1]] for row, k in zip(peaks, left, strict=True)])
    p /= p.sum(1, keepdims=True)
    before = mass_before(family_of(line, None), torch.from_numpy(p)).numpy()
    for t in (0.1, 0.5, 0.8, 0.95):
        sums = np.array([[p[:, a:b].sum(1), np.full(100, b - a)] for a, b in pairs()])
        shortest = np.where(sums[:, 0] > t, sums[:, 1], K + 1).min(0)
        np.testing.assert_array_equal((before <= t).sum(1), shortest)


def pairs() -> list[tuple[int, int]]:
    return [(a, b) for a, b in itertools.product(range(K + 1), repeat=2) if a < b]


def test_subtrees_are_the_deepest_nodes_with_more_than_half_of_the_mass() -> None:
    p, _ = draw(100)
    before = masses_of("subtree", p)
    nodes = [{0}, {1}, {2}, {3}, {4}, {5}, {6}, {0, 1, 4}, {0, 1, 2, 4}, {3, 5}, set(range(K))]
    for t in (0.5, 0.7, 0.9):
        sums = np.array([p[:, list(node)].sum(1) for node in nodes])
        sizes = np.array([len(node) for node in nodes])[:, None]
        fewest = np.where(sums > t, sizes, K + 1).min(0)
        np.testing.assert_array_equal((before <= t).sum(1), fewest)


def test_labels_without_probability_enter_one_by_one() -> None:
    p = torch.tensor([[0.0, 0.0, 1.0, 0.0, 0.0]], dtype=torch.float64)
    for metric in (wl.ground.Ordinal(5), wl.ground.Discrete(5)):
        assert len(mass_before(family_of(metric, None), p).unique()) == 5


@pytest.mark.parametrize(("rows", "level"), [(9, 0.9), (19, 0.8), (50, 0.65), (99, 0.9)])
def test_mean_coverage_is_within_the_finite_sample_bounds(rows: int, level: float) -> None:
    # Of uniform scores, a threshold is the probability that a new one is at most as large.
    draws = np.random.default_rng(0).random((20_000, rows))
    coverage = np.array([coverage_threshold(each, level) for each in draws])
    error = 5 * coverage.std() / np.sqrt(len(draws))
    assert level - error <= coverage.mean() <= level + 1 / (rows + 1) + error


@every_case
@pytest.mark.parametrize("sharpness", [0.3, 3.0])
def test_new_rows_are_covered_however_wrong_the_model(name: str, sharpness: float) -> None:
    metric, sets = CASES[name]
    p, y = draw(2000, 1, sharpness)
    new, truth = draw(20_000, 2, sharpness)
    five_errors = 5 * np.sqrt(0.8 * 0.2 * (1 / 2000 + 1 / 20_000))
    inside = Guarantee(metric, 0.8, sets=sets).fit(p, y).mask(new)
    assert inside[np.arange(len(truth)), truth].mean() > 0.8 - five_errors
    if name in ("any", "interval"):  # others have ties, which cover more
        assert inside[np.arange(len(truth)), truth].mean() < 0.8 + five_errors


@every_case
def test_the_threshold_of_a_distance_is_the_least_that_keeps_it(name: str) -> None:
    metric, sets = CASES[name]
    p, y = draw(200)
    distance = metric.distance().double().numpy()  # from an answer to the truth
    limit = 0.1 * distance.max()
    decide = Guarantee(metric, distance=limit, sets=sets).fit(p, y)
    before = masses_of(name, p)

    def bound(t: float) -> float:
        inside = before <= t
        to_set = np.where(inside, distance[:, y].T, np.inf).min(1)
        return float((to_set.sum() + distance.max()) / (len(y) + 1))

    candidates = np.unique(before)
    best = min(t for t in candidates if bound(t) <= limit + 1e-12)
    np.testing.assert_array_equal(decide.mask(p), before <= best)


def test_mean_distance_of_new_rows() -> None:
    p, y = draw(2000, 1, 3.0)
    new, truth = draw(20_000, 2, 3.0)
    distance = TREE.distance().numpy()
    for limit in (0.2, 0.6):
        inside = Guarantee(TREE, distance=limit).fit(p, y).mask(new)
        to_set = np.where(inside, distance[truth], np.inf).min(1)
        assert to_set.mean() < limit + 5 * to_set.std() / np.sqrt(2000)


@every_case
def test_every_class_is_covered_by_natural_sets(name: str) -> None:
    metric, sets = CASES[name]
    p, y = draw(3000, 1)
    new, truth = draw(20_000, 2)
    inside = Guarantee(metric, 0.8, sets=sets, per_class=True).fit(p, y).mask(new)
    for label in range(K):
        own = truth == label
        rows = np.array([(y == label).sum(), own.sum()])
        assert inside[own, label].mean() > 0.8 - 5 * np.sqrt(0.16 * (1 / rows).sum())
    before = masses_of(name, new)
    reach = np.where(inside, before, 0).max(1, keepdims=True)
    np.testing.assert_array_equal(inside, before <= reach)  # without gaps


def test_every_group_is_covered() -> None:
    (sure, y), (unsure, z) = draw(1500, 1, 4.0), draw(1500, 2, 0.2)
    p, truth = np.concatenate([sure, unsure]), np.concatenate([y, z])
    groups = np.repeat(["new", "old"], 1500)
    half = np.arange(3000) % 2 == 0
    decide = Guarantee(LINE, 0.8).fit(p[half], truth[half], groups=groups[half])
    rest = ~half
    inside = decide.mask(p[rest], groups=groups[rest])[np.arange(1500), truth[rest]]
    for group in ("new", "old"):
        covered = inside[groups[rest] == group].mean()
        assert abs(covered - 0.8) < 5 * np.sqrt(0.16 * 2 / 750)
    assert "for every group" in decide.report()


def test_words() -> None:
    p = np.array([[0.9, 0, 0, 0, 0.1, 0, 0], [0.4, 0.2, 0, 0, 0.3, 0.1, 0], [1 / K] * K])
    names = np.array([path[-1] for path in PATHS])
    cases: list[tuple[Any, float, list[Any]]] = [
        (TREE, 0.8, ["husky", "dog", "any"]),
        (wl.ground.Ordinal(K), 0.6, ["0", "0..4", "0..4"]),
        (wl.ground.Discrete(K, labels=names.tolist()), 0.6, [["husky"], ["husky", "beagle"], None]),
    ]
    for metric, t, expected in cases:
        decide = Guarantee(metric).fit(*draw(100))
        decide._thresholds = {None: np.array([t])}
        for given in (p, torch.from_numpy(p)):
            found = decide(given)
            assert isinstance(found, list if isinstance(given, torch.Tensor) else np.ndarray)
            for one, other in zip(found, expected, strict=True):
                assert other is None or one == other
    inner = Guarantee(wl.ground.Tree.from_paths([("a",), ("a", "b"), ("c",)]))
    assert inner._family.word([0, 1], "abc") == "a"
    unnamed = Guarantee(wl.ground.Tree([-1, 0, 0, 1, 1]))
    assert unnamed._family.word([1, 2], "abc") == ["b", "c"]


def test_frames_names_and_pickles() -> None:
    pd = pytest.importorskip("pandas")
    p, y = draw(200)
    names = list(TREE.labels)
    frame = pd.DataFrame(p, columns=names)[sorted(names)]
    decide = Guarantee(TREE, 0.8).fit(frame, pd.Series(np.array(names)[y]))
    again = pickle.loads(pickle.dumps(Guarantee(TREE, 0.8).fit(p, y)))
    assert decide(frame).tolist() == again(p).tolist()
    mask = decide.mask(frame)
    assert mask.columns.tolist() == names  # in the metric's order
    np.testing.assert_array_equal(mask.to_numpy(), decide.mask(p))
    with pytest.raises(ValueError, match=r"increasing columns, got \[1, 0, 2"):
        decide(pd.DataFrame(p)[[1, 0, *range(2, K)]])
    np.testing.assert_array_equal(decide.mask(p), again.mask(p))


def test_no_rows_and_one_label() -> None:
    decide = Guarantee(TREE).fit(*draw(50))
    assert decide(np.empty((0, K))).shape == (0,)
    assert decide.mask(torch.empty(0, K)).shape == (0, K)
    for metric in (wl.ground.Ordinal(1), wl.ground.Tree([-1, 0]), wl.ground.Discrete(1)):
        one = Guarantee(metric).fit(np.ones((9, 1)), [0] * 9)
        assert one.mask(np.ones((2, 1))).all()


def test_it_says_what_it_promises() -> None:
    p, y = draw(99)
    decide = Guarantee(LINE, level=0.9)
    assert repr(decide).endswith("level=0.9, sets='interval'), not fitted")
    decide.fit(p, y)
    assert repr(decide).endswith("level=0.9, sets='interval') on 99 rows")
    report = decide.report()
    assert "contains the truth with probability at least 0.9" in report
    assert (
        "99 calibration rows; in nine of ten such samples, coverage is 84.7% to 94.4%" in report
    )  # Beta(90, 10)
    size, single = decide.mask(p).sum(1).mean(), (decide.mask(p).sum(1) == 1).mean()
    assert f"{size:.3g} of 7 labels on average; {single:.1%} single labels" in report
    assert "cannot be checked" in report
    assert "ties" not in report
    tied = Guarantee(LINE, level=0.5).fit(np.eye(K)[y], y)  # all right at once
    assert "ties       99 rows are at the threshold" in tied.report()
    assert tied.mask(np.eye(K)).sum() == K
    assert "expected distance to the set is at most 1" in Guarantee(
        LINE, distance=1
    ).fit(p, y).report()  # fmt: skip


@pytest.mark.parametrize("level", [0.5, 0.8, 0.9, 0.95, 0.99])
def test_the_fewest_rows(level: float) -> None:
    needed = rows_for_level(level)
    p, y = draw(needed)
    Guarantee(LINE, level).fit(p, y)
    with pytest.raises(ValueError, match=rf"at least {needed} rows for level={level:g}, got"):
        Guarantee(LINE, level).fit(p[1:], y[1:])


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"level": 0}, r"level must be in \(0, 1\), got 0"),
        ({"level": 1.0}, r"level must be in \(0, 1\), got 1"),
        ({"level": np.nan}, r"level must be in \(0, 1\), got nan"),
        ({"level": 90}, r"got 90; for 90 %, pass 0\.9"),
        ({"level": 0.9, "distance": 1}, "level and distance must not both be given"),
        ({"distance": 0}, "distance must be positive and finite"),
        ({"distance": 1, "per_class": True}, "per_class must be False if distance"),
        ({"sets": "subtree"}, "metric must be a Tree for sets=.subtree., got Ordinal"),
        ({"sets": "disc"}, "sets must be 'interval', 'subtree', 'ball' or 'any', got 'disc'"),
        ({"names": ["a"]}, "names must have 7 entries, got 1"),
    ],
)
def test_bad_promises_are_named(keywords: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Guarantee(LINE, **keywords)


def test_bad_rows_are_named() -> None:
    p, y = draw(30)
    decide = Guarantee(LINE)
    with pytest.raises(ValueError, match=r"must be fitted first"):
        decide(p)
    with pytest.raises(
        ValueError, match=r"at least 89 rows for distance=0\.1, because the largest"
    ):
        Guarantee(LINE, distance=0.1).fit(p, y)
    with pytest.raises(ValueError, match=r"at least 1 rows for distance=99"):
        Guarantee(LINE, distance=99).fit(p[:0], y[:0])
    with pytest.raises(ValueError, match=r"at least 9 rows of class '\d' for level=0.9, got"):
        Guarantee(LINE, per_class=True).fit(p, y)
    with pytest.raises(ValueError, match=r"at least 9 rows of group 'b' for level=0.9, got 1"):
        Guarantee(LINE).fit(p, y, groups=["a"] * 29 + ["b"])
    with pytest.raises(ValueError, match="must sum to 1"):
        decide.fit(p / 2, y)
    with pytest.raises(ValueError, match="must not hold NaN"):
        decide.fit(np.where(p == p.max(), np.nan, p), y)
    with pytest.raises(ValueError, match=r"y must be in 0\.\.6, got \d+ in row 3"):
        decide.fit(p, y + 7 * (np.arange(30) == 3))
    with pytest.raises(ValueError, match=r"y must hold .*husky.*, got 'wolf' in row 0"):
        Guarantee(TREE).fit(p, ["wolf"] * 30)
    with pytest.raises(ValueError, match="probabilities must have 7 labels"):
        decide.fit(p[:, :3], y)
    decide.fit(p, y)
    with pytest.raises(ValueError, match="groups must be None, as in fit"):
        decide(p, groups=["a"] * 30)
    grouped = Guarantee(LINE).fit(p, y, groups=["a"] * 15 + ["b"] * 15)
    with pytest.raises(ValueError, match="groups must be given"):
        grouped(p)
    with pytest.raises(ValueError, match=r"among those of fit, \['a', 'b'\], got 'c'"):
        grouped(p, groups=["c"] * 30)
    right = wl.ground.Cost(np.ones((K, K)))
    with pytest.raises(ValueError, match="distance must be larger than the set of all labels"):
        Guarantee(right, distance=0.5, sets="any").fit(p, y)
