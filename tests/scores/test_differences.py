"""The interval of paired differences, over grouped examples and over runs."""

import math

import numpy as np
import pytest
from scipy import stats

from wassloss.scores.differences import Difference, paired_difference


def width(found: Difference) -> float:
    return found.high - found.low


def grouped_gaps() -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(0)
    groups = np.repeat(np.arange(100), 4)
    gaps = 0.1 + generator.normal(size=100)[groups] + 0.1 * generator.normal(size=400)
    return gaps, groups


def test_groups_widen_the_interval_as_resampling_them_does() -> None:
    gaps, groups = grouped_gaps()
    alone, grouped = paired_difference(gaps), paired_difference(gaps, groups)
    assert alone.mean == grouped.mean == pytest.approx(gaps.mean())
    sums = gaps.reshape(100, 4).sum(1)
    draws = np.random.default_rng(1).integers(100, size=(4000, 100))
    spread = (sums[draws].sum(1) / 400).std()
    assert width(grouped) / (2 * 1.96) == pytest.approx(spread, rel=0.1)
    assert width(alone) < 0.6 * width(grouped)


def test_examples_without_groups_have_the_interval_of_students_t() -> None:
    gaps = np.random.default_rng(0).normal(size=7)
    expected = stats.ttest_1samp(gaps, 0.0).confidence_interval(0.95)
    found = paired_difference(gaps)
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high))
    each = paired_difference(gaps, np.random.default_rng(1).permutation(7))
    assert each.low == pytest.approx(found.low)


def test_clusters_of_one_size_count_as_their_means_do() -> None:
    gaps, groups = grouped_gaps()
    found, means = paired_difference(gaps, groups), paired_difference(gaps.reshape(100, 4).mean(1))
    assert (found.low, found.high) == pytest.approx((means.low, means.high))


def test_variance_and_freedom_are_those_of_the_matrices_of_bell_and_mccaffrey() -> None:
    """CR2 with working independence by its definition, with square roots of matrices."""
    generator = np.random.default_rng(0)
    sizes = np.array([2, 9, 1, 5])
    groups = np.repeat(np.arange(4), sizes)
    gaps, n = generator.normal(size=17), 17
    residual = np.eye(n) - np.full((n, n), 1 / n)
    rows = []
    for g in range(4):
        own = np.flatnonzero(groups == g)
        values, vectors = np.linalg.eigh(residual[np.ix_(own, own)])
        root = vectors @ np.diag(values**-0.5) @ vectors.T
        rows.append(np.ones(len(own)) / n @ root @ residual[own])
    parts = np.array(rows)  # (clusters, examples): the estimate is the sum of their squares
    inner = parts @ parts.T
    freedom = np.trace(inner) ** 2 / np.trace(inner @ inner)
    half = stats.t.ppf(0.975, freedom) * np.sqrt(((parts @ gaps) ** 2).sum())
    assert width(paired_difference(gaps, groups)) / 2 == pytest.approx(half)


@pytest.mark.parametrize("missing", [[3], [0, 1, 2, 3], [17, 200, 399]])
def test_examples_without_a_score_leave_with_their_groups(missing: list[int]) -> None:
    gaps, groups = grouped_gaps()
    expected = paired_difference(np.delete(gaps, missing), np.delete(groups, missing))
    gaps[missing] = np.nan
    found = paired_difference(gaps, groups)
    assert (found.mean, found.low, found.high) == pytest.approx(
        (expected.mean, expected.low, expected.high)
    )
    assert width(paired_difference(gaps)) < 0.6 * width(found)


def test_the_variance_over_runs_is_added_with_its_own_quantile() -> None:
    gaps, groups = grouped_gaps()
    shift = np.array([-0.3, 0.1, 0.2])
    runs = gaps + shift[:, None]
    found = paired_difference(runs, groups)
    of_runs = stats.t.ppf(0.975, 2) * shift.std(ddof=1) / 3**0.5
    assert found.mean == pytest.approx(gaps.mean())
    expected = math.hypot(width(paired_difference(gaps, groups)) / 2, of_runs)
    assert width(found) / 2 == pytest.approx(expected)
    runs[1, 5] = np.nan  # missing in one run: the example is left out of all
    left = paired_difference(np.delete(runs, 5, axis=1), np.delete(groups, 5))
    assert paired_difference(runs, groups).high == pytest.approx(left.high)


def test_noise_of_single_examples_is_not_counted_twice() -> None:
    """Runs that differ only by this noise are as certain as their mean."""
    noise = np.random.default_rng(0).normal(size=(8, 500))
    noise -= noise.mean(1, keepdims=True)
    assert width(paired_difference(noise)) == pytest.approx(width(paired_difference(noise.mean(0))))


def coverage(
    sizes: list[int],
    *,
    runs: int = 1,
    of_runs: float = 0.0,
    of_clusters: float = 0.5,
    skewed: bool = False,
    draws: int = 2000,
) -> float:
    """Per cent of intervals that contain the true mean, 1, of simulated differences."""
    generator = np.random.default_rng(0)
    groups = np.repeat(np.arange(len(sizes)), sizes)
    covered = 0
    for _ in range(draws):
        shape = runs, len(groups)
        noise = generator.exponential(size=shape) - 1 if skewed else generator.normal(size=shape)
        run = of_runs * generator.normal(size=(runs, 1))
        found = paired_difference(
            1 + run + of_clusters * generator.normal(size=len(sizes))[groups] + noise, groups
        )
        covered += found.low <= 1 <= found.high
    return 100 * covered / draws


CLUSTERS = (2, 3, 5, 10, 30)


@pytest.mark.parametrize("skewed", [False, True])
@pytest.mark.parametrize("equal", [True, False])
@pytest.mark.parametrize("clusters", CLUSTERS)
def test_the_interval_covers_the_mean_of_few_clusters(
    clusters: int, equal: bool, skewed: bool
) -> None:
    sizes = [6 if equal else 2 + 7 * i % 9 for i in range(clusters)]
    assert 93 <= coverage(sizes, skewed=skewed) <= 97


@pytest.mark.parametrize("runs", [3, 5])
@pytest.mark.parametrize("clusters", CLUSTERS)
def test_the_interval_covers_the_mean_of_few_runs(clusters: int, runs: int) -> None:
    assert 93 <= coverage([6] * clusters, runs=runs, of_runs=0.15) <= 97.5


@pytest.mark.parametrize("runs", [3, 5])
@pytest.mark.parametrize("of_runs", [0.1, 0.3, 1.0])
def test_the_interval_covers_the_mean_of_few_runs_and_many_examples(
    runs: int, of_runs: float
) -> None:
    assert 93 <= coverage([1] * 100, runs=runs, of_runs=of_runs, draws=1000) <= 97


@pytest.mark.parametrize("runs", [1, 3])
def test_one_cluster_has_no_interval(runs: int) -> None:
    found = paired_difference(np.full((runs, 20), 30.0), np.zeros(20))
    assert (found.mean, str(found.low), str(found.high)) == (30.0, "nan", "nan")
    assert found.verdict(True) == found.verdict(False) == "unclear"
    assert math.isnan(paired_difference([30.0]).low)


def test_few_clusters_without_spread_have_no_interval() -> None:
    """Distances are whole numbers, so three equal rows are no certainty."""
    assert paired_difference([0.1, 0.1, 0.1]).verdict(True) == "unclear"
    assert paired_difference(np.repeat(-1.0, 10), np.repeat([0, 1], 5)).verdict(False) == "unclear"
    assert paired_difference(np.repeat(-1.0, 6)).verdict(False) == "better"


def test_nothing_known_is_unclear() -> None:
    found = paired_difference([[np.nan, 1.0], [1.0, np.nan]], np.array([0, 1]))
    assert math.isnan(found.mean)
    assert found.verdict(True) == found.verdict(False) == "unclear"


@pytest.mark.parametrize(
    ("low", "high", "more", "verdict"),
    [
        (0.1, 0.3, True, "better"),
        (0.1, 0.3, False, "worse"),
        (-0.3, -0.1, True, "worse"),
        (-0.3, -0.1, False, "better"),
        (-0.1, 0.3, True, "unclear"),
        (0.0, 0.3, True, "unclear"),
    ],
)
def test_verdict(low: float, high: float, more: bool, verdict: str) -> None:
    assert Difference((low + high) / 2, low, high).verdict(more) == verdict


def test_groups_of_other_examples_are_refused() -> None:
    with pytest.raises(ValueError, match=r"groups must have shape \(3,\), .* got \(2,\)"):
        paired_difference([0.1, np.nan, 0.2], np.array([0, 1]))
    with pytest.raises(ValueError, match=r"gaps must have shape .* got \(1, 2, 3\)"):
        paired_difference(np.zeros((1, 2, 3)))
