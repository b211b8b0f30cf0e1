import itertools
import math

import pytest
import torch

from experiments import theory
from wassloss.ground import Grid
from wassloss.scores import mean_wasserstein


def test_the_complexity_by_all_signs_lies_between_its_bounds() -> None:
    x = torch.randn(7, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    signs = torch.tensor(list(itertools.product((-1.0, 1.0), repeat=7)), dtype=torch.float64)
    # sup over ‖θ‖ ≤ B of Σ σᵢ θᵀxᵢ is attained at θ = B Σ σᵢ xᵢ / ‖Σ σᵢ xᵢ‖.
    sums = signs @ x
    theta = 2.5 * sums / sums.norm(dim=1, keepdim=True)
    exact = float((theta * sums).sum(1).mean() / 7)
    upper = theory.linear_complexity(x, 2.5)
    assert upper / math.sqrt(2) <= exact <= upper
    estimate = theory.linear_complexity_estimate(x, 2.5, draws=20_000, seed=1)
    assert abs(estimate.value - exact) < 5 * estimate.error
    assert 0 < estimate.error < 0.01


def test_the_expected_complexity_is_that_of_a_sample_with_its_second_moment() -> None:
    x = torch.randn(50, 4, generator=torch.Generator().manual_seed(0))
    moment = float(x.double().square().sum(1).mean())
    expected = theory.expected_linear_complexity(moment, 3.0, 50)
    assert expected == pytest.approx(theory.linear_complexity(x, 3.0))


def test_complexity_falls_as_the_root_of_the_sample() -> None:
    x = torch.randn(100, 2, generator=torch.Generator().manual_seed(0))
    four_times = theory.linear_complexity(x.repeat(4, 1), 1.0)
    assert four_times == pytest.approx(theory.linear_complexity(x, 1.0) / 2)


def test_the_excess_risk_bound_is_the_theorem() -> None:
    found = theory.excess_risk_bound(0.25, 50, labels=3, largest_cost=2.0, delta=0.1)
    assert found == pytest.approx(32 * 3 * 2 * 0.25 + 2 * 2 * math.sqrt(math.log(10) / 100))


def test_the_multiclass_bound_is_the_proposition() -> None:
    K, C, R, N, delta, best = 5, 2.0, 0.01, 400, 0.05, 0.3
    root = math.sqrt(math.log(1 / delta) / (2 * N))
    expected = K * best + 32 * K**2 * C * R + 2 * C * K * root
    found = theory.multiclass_bound(best, R, N, labels=K, largest_cost=C, delta=delta)
    assert found == pytest.approx(expected)


def test_the_step_from_risk_to_distance_that_the_proposition_takes() -> None:
    """`W(h, e_κ) ≥ d(κ̂, κ) / K` for the most probable class κ̂."""
    metric = Grid((3, 3))
    h = torch.rand(200, 9, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    h = h / h.sum(1, keepdim=True)
    ids = torch.arange(200) % 9
    loss = mean_wasserstein(h, ids, metric, reduction="none")
    assert bool((loss >= metric.cost()[h.argmax(1), ids] / 9 - 1e-12).all())


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: theory.linear_complexity(torch.ones(3), 1.0), "features"),
        (lambda: theory.linear_complexity(torch.ones(0, 3), 1.0), "features"),
        (lambda: theory.linear_complexity(torch.ones(2, 3), -1.0), "norm"),
        (lambda: theory.linear_complexity_estimate(torch.ones(2, 3), 1.0, draws=0), "draws"),
        (lambda: theory.excess_risk_bound(1.0, 10, 3, 1.0, delta=0.0), "delta"),
        (lambda: theory.excess_risk_bound(1.0, 0, 3, 1.0), "n"),
        (lambda: theory.excess_risk_bound(-1.0, 10, 3, 1.0), "complexity"),
        (lambda: theory.multiclass_bound(-1.0, 1.0, 10, 3, 1.0), "best_risk"),
    ],
)
def test_bad_input_is_named(call, name) -> None:
    with pytest.raises(ValueError, match=name):
        call()
