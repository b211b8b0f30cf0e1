"""The interval of paired differences: over examples in groups, and over runs."""

import math

import numpy as np
import pytest

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


def test_examples_without_groups_are_independent() -> None:
    gaps = np.random.default_rng(0).normal(size=50)
    assert width(paired_difference(gaps)) / 2 == pytest.approx(1.96 * gaps.std() / 50**0.5)
    each = paired_difference(gaps, np.random.default_rng(1).permutation(50))
    assert each.low == pytest.approx(paired_difference(gaps).low)


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


def test_the_variance_over_runs_is_added() -> None:
    gaps, groups = grouped_gaps()
    shift = np.array([-0.3, 0.1, 0.2])
    runs = gaps + shift[:, None]
    found = paired_difference(runs, groups)
    of_runs = 1.96 * shift.std(ddof=1) / 3**0.5
    assert found.mean == pytest.approx(gaps.mean())
    expected = math.hypot(width(paired_difference(gaps, groups)) / 2, of_runs)
    assert width(found) / 2 == pytest.approx(expected)
    runs[1, 5] = np.nan  # in one run: the example is left out of all
    left = paired_difference(np.delete(runs, 5, axis=1), np.delete(groups, 5))
    assert paired_difference(runs, groups).high == pytest.approx(left.high)


def test_the_interval_covers_examples_and_runs() -> None:
    """Simulated: differences of known mean, with noise of examples and of runs."""
    generator = np.random.default_rng(0)
    truth, covered, draws, runs, n = 0.1, 0, 300, 8, 60
    for _ in range(draws):
        shared, of_runs = generator.normal(size=n), 0.1 * generator.normal(size=(runs, 1))
        found = paired_difference(truth + shared + of_runs + 0.3 * generator.normal(size=(runs, n)))
        covered += found.low <= truth <= found.high
    assert covered / draws == pytest.approx(0.95, abs=0.035)


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
