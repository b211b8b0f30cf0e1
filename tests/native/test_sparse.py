"""Compiled losses with a few labels per example, compared with tensor operations."""

import math
from typing import Any

import pytest
import torch

import wassloss as wl
from tests.generators import random_metric
from tests.native.core import (
    BATCH,
    F32,
    F64,
    SIZES,
    compare,
    each_dtype,
    each_regularizer,
    few,
    logits_of,
    losses,
    skip_module_without_core,
    tables,
)
from wassloss.kernels.status import FINE, INVALID, UNCONVERGED
from wassloss.losses.spec import LossSpec
from wassloss.targets import SparseTarget

skip_module_without_core()

INF = math.inf

# The same losses


@each_dtype
@each_regularizer
@pytest.mark.parametrize("epsilon", [0.5, 0.05, 0.02])
@pytest.mark.parametrize("labels", SIZES)
def test_balanced(labels: int, epsilon: float, regularizer: str, dtype: torch.dtype) -> None:
    compare(
        logits_of(labels, dtype), few(labels, 5, dtype), random_metric(labels),
        epsilon=epsilon, regularizer=regularizer, kl_weight=0.3, close=1e-3 if dtype == F32 else 0,
    )  # fmt: skip


@each_regularizer
@tables
@pytest.mark.parametrize("epsilon", [0.005, 0.0005])
def test_plans_that_are_all_but_exact(epsilon: float, regularizer: str, tabulated: bool) -> None:
    compare(
        logits_of(300), few(300, 5), random_metric(300),
        epsilon=epsilon, regularizer=regularizer, tabulated=tabulated, close=1e-6,
    )  # fmt: skip


@each_dtype
@pytest.mark.parametrize("support", [1, 2, 3, 4, 5, 8, 13, 40])
def test_supports_of_any_size(support: int, dtype: torch.dtype) -> None:
    compare(
        logits_of(300, dtype), few(300, support + 1, dtype), random_metric(300),
        epsilon=0.1, kl_weight=0.5,
    )  # fmt: skip


@each_regularizer
@pytest.mark.parametrize("epsilon", [0.5, 0.02])
@pytest.mark.parametrize("gamma", [(0.5, 2.0), (0.5, INF), (INF, 0.5)], ids=str)
def test_relaxed(gamma: tuple[float, float], epsilon: float, regularizer: str) -> None:
    logits = logits_of(37)
    logits[1, :5] = -200  # masses that only their logs can represent
    compare(
        logits, few(37, 5), random_metric(37),
        epsilon=epsilon, gamma=gamma, regularizer=regularizer, kl_weight=0.2, tol=1e-9,
    )  # fmt: skip


@each_dtype
@each_regularizer
@tables
@pytest.mark.parametrize("epsilon", [0.0, 1e-5, 0.2, 20.0])
@pytest.mark.parametrize("softening", [0.0, 0.2])
def test_free_targets(
    softening: float, epsilon: float, tabulated: bool, regularizer: str, dtype: torch.dtype
) -> None:
    target = few(600, 5, dtype)
    target = SparseTarget(target.indices, target.weights * torch.tensor([[2.0], [1], [7], [0.1]]))
    compare(
        logits_of(600, dtype), target, random_metric(600), epsilon=epsilon, gamma=(INF, 0.0),
        regularizer=regularizer, kl_weight=0.3, softening=softening, normalize_target=True,
        tabulated=tabulated, close=2e-5 if dtype == F32 else 1e-11,
    )  # fmt: skip


@each_dtype
@each_regularizer
@tables
@pytest.mark.parametrize("iterations", [1, 10])
def test_algorithm_one(
    iterations: int, tabulated: bool, regularizer: str, dtype: torch.dtype
) -> None:
    for epsilon in (0.5, 0.02):
        compare(
            logits_of(37, dtype), few(37, 5, dtype), random_metric(37),
            epsilon=epsilon, regularizer=regularizer, scaling_iterations=iterations,
            kl_weight=0.3, tabulated=tabulated, close=1e-4 if dtype == F32 else 1e-9,
        )  # fmt: skip


@each_dtype
def test_algorithm_one_in_the_papers_setting(dtype: torch.dtype) -> None:
    # Costs from 1e-13 to 8000, over an epsilon of 1/50: most entries of the kernel are zero.
    generator = torch.Generator().manual_seed(0)
    vectors = torch.randn(37, 5, dtype=F64, generator=generator)
    compare(
        logits_of(37, dtype), few(37, 6, dtype), wl.ground.Embedding(vectors, power=13),
        epsilon=1 / 50, scaling_iterations=10, kl_weight=0.1, close=2e-4 if dtype == F32 else 1e-9,
    )  # fmt: skip


@each_dtype
def test_algorithm_one_with_columns_too_light_for_anything_but_logarithms(
    dtype: torch.dtype,
) -> None:
    metric = wl.ground.Ordinal([0.0, *range(10, 46)])
    target = SparseTarget(torch.tensor([[0, 1]]), torch.tensor([[0.5, 0.5]], dtype=dtype))
    logits = torch.zeros(1, 37, dtype=dtype)
    logits[0, 0] = -60
    compare(logits, target, metric, epsilon=0.01, scaling_iterations=10, close=1e-5)


@each_dtype
@pytest.mark.parametrize(
    "keywords",
    [
        {"transport_weight": 0.0},
        {"transport_weight": 0.3},
        {"transport_weight": 0.3, "softening": 0.2},
        {"softening": 0.05},
        {"softening": 1e-300},
        {"softening": 0.2, "scaling_iterations": 10},
        {"kl_weight": 0.0},
    ],
    ids=str,
)
def test_weights_of_the_parts(keywords: dict[str, Any], dtype: torch.dtype) -> None:
    given = {"epsilon": 0.1, "kl_weight": 0.4} | keywords
    for labels in (10, 600):
        compare(logits_of(labels, dtype), few(labels, 5, dtype), random_metric(labels), **given)


@pytest.mark.parametrize("softening", [0.0, 0.3])
def test_targets_are_normalized_when_asked(softening: float) -> None:
    target, metric, logits = few(37, 4), random_metric(37), logits_of(37)
    target = SparseTarget(target.indices, target.weights * torch.arange(1, BATCH + 1)[:, None])
    given = {"epsilon": 0.1, "kl_weight": 0.4, "softening": softening}
    compare(logits, target, metric, normalize_target=True, **given)
    status = losses(logits, target, LossSpec.checked(metric, **given)).status
    assert status.tolist() == [FINE] + [INVALID] * (BATCH - 1)


@each_dtype
@each_regularizer
def test_costs_that_are_no_distance(regularizer: str, dtype: torch.dtype) -> None:
    cost = torch.rand(37, 37, dtype=F64, generator=torch.Generator().manual_seed(3)) + 0.1
    for tabulated in (True, False):
        compare(
            logits_of(37, dtype), few(37, 4, dtype), wl.ground.Cost(cost),
            epsilon=0.1, regularizer=regularizer, kl_weight=0.2, tabulated=tabulated,
        )  # fmt: skip


@each_dtype
def test_impossible_labels_and_extreme_logits(dtype: torch.dtype) -> None:
    logits = logits_of(37, dtype)
    logits[0, 10:15] = -INF
    logits[1, 3] = 1e4
    logits[2] *= 100
    compare(logits, few(37, 4, dtype), random_metric(37), epsilon=0.1)


@each_dtype
@pytest.mark.parametrize("weight", [1e-5, 1e-12, 1e-30])
def test_weights_that_all_but_vanish(weight: float, dtype: torch.dtype) -> None:
    target = few(300, 5, dtype)
    target.weights[:, 1] = weight
    target = SparseTarget(target.indices, target.weights / target.weights.sum(1, keepdim=True))
    compare(logits_of(300, dtype), target, random_metric(300), epsilon=0.1, kl_weight=0.3)


@each_regularizer
@pytest.mark.parametrize(
    "keywords",
    [
        {"gamma": (INF, INF)},
        {"gamma": (0.7, 1.5)},
        {"gamma": (INF, 0.0), "normalize_target": True},
        {"gamma": (INF, 0.0), "normalize_target": True, "softening": 0.2},
        {"softening": 0.2, "transport_weight": 0.5},
    ],
    ids=str,
)
def test_gradients_are_finite_differences(keywords: dict[str, Any], regularizer: str) -> None:
    target, metric = few(6, 3), random_metric(6)
    spec = LossSpec.checked(
        metric, epsilon=0.3, kl_weight=0.4, regularizer=regularizer, tol=1e-12,
        max_iterations=300, **keywords,
    )  # fmt: skip
    logits, step = logits_of(6, scale=1.0), 1e-5
    found = losses(logits, target, spec).gradient
    for i in range(6):
        shift = torch.zeros(6, dtype=F64)
        shift[i] = step
        above, below = (losses(logits + sign * shift, target, spec).value for sign in (1, -1))
        torch.testing.assert_close(found[:, i], (above - below) / (2 * step), rtol=1e-6, atol=1e-8)


# The status of each example


@each_dtype
@pytest.mark.parametrize("bad", [math.nan, INF, "all -inf"])
def test_senseless_logits_are_marked(bad: float | str, dtype: torch.dtype) -> None:
    logits = logits_of(37, dtype)
    if isinstance(bad, str):
        logits[2] = -INF
    else:
        logits[2, 30] = bad
    spec = LossSpec.checked(random_metric(37), epsilon=0.1, kl_weight=0.1)
    found, target = losses(logits, few(37, 4, dtype), spec), few(37, 4, dtype)
    assert found.status.tolist() == [FINE, FINE, INVALID, FINE]
    assert found.value[2].isnan()
    assert found.gradient[2].isnan().all()
    good = losses(logits_of(37, dtype), target, spec)
    for b in (0, 1, 3):
        assert torch.equal(found.gradient[b], good.gradient[b])


@pytest.mark.parametrize(
    ("place", "weight", "label"),
    [
        ((1, 0), math.nan, 3),
        ((1, 0), INF, 3),
        ((1, 0), -0.2, 3),
        ((1, 0), 0.3, 37),
        ((1, 0), 0.3, -1),
        ((1, 0), 0.9, 3),
    ],
)
@tables
def test_senseless_targets_are_marked(
    tabulated: bool, place: tuple[int, int], weight: float, label: int
) -> None:
    target = few(37, 4)
    target.weights[place], target.indices[place] = weight, label
    spec = LossSpec.checked(random_metric(37), epsilon=0.1)
    found = losses(logits_of(37), target, spec, tabulated=tabulated)
    assert found.status.tolist() == [FINE, INVALID, FINE, FINE]
    assert found.value[1].isnan()
    assert found.gradient[1].isnan().all()


def test_labels_named_twice_and_empty_targets_are_marked() -> None:
    target = few(37, 4)
    target.indices[1, 1] = target.indices[1, 0]
    target.weights[3] = 0
    for given in ({}, {"gamma": (INF, 0.0)}, {"scaling_iterations": 3}, {"transport_weight": 0.0}):
        spec = LossSpec.checked(
            random_metric(37), epsilon=0.1, kl_weight=1.0, normalize_target=True, **given
        )
        assert losses(logits_of(37), target, spec).status.tolist() == [FINE, INVALID, FINE, INVALID]


def test_an_unfinished_solve_is_marked() -> None:
    spec = LossSpec.checked(random_metric(37), epsilon=0.01, max_iterations=1, kl_weight=0.1)
    found = losses(logits_of(37), few(37, 4), spec)
    assert UNCONVERGED in found.status.tolist()
    assert INVALID not in found.status.tolist()
    assert found.value.isfinite().all()


def test_a_loose_tolerance_is_not_met_on_the_way() -> None:
    # In an early stage with a larger epsilon, a small error does not mean a good answer.
    logits, target, given = logits_of(37), few(37, 4), {"epsilon": 1e-3}
    exact = losses(logits, target, LossSpec.checked(random_metric(37), tol=1e-8, **given))
    for iterations in (1, 2, 3, 4):
        spec = LossSpec.checked(random_metric(37), tol=0.05, max_iterations=iterations, **given)
        found = losses(logits, target, spec)
        fine = found.status == FINE
        torch.testing.assert_close(found.value[fine], exact.value[fine], rtol=0.05, atol=0.05)


def test_digits_that_single_precision_lacks_are_missed_only_in_costs_made_for_the_batch() -> None:
    spec = LossSpec.checked(random_metric(37), epsilon=1e-3, max_iterations=40)
    found = losses(logits_of(37, F32), few(37, 4, F32), spec, tabulated=False)
    assert found.worst == UNCONVERGED


def test_a_loss_that_overflows_its_dtype_is_marked() -> None:
    spec = LossSpec.checked(random_metric(37), epsilon=0.1, kl_weight=1e39)
    found = losses(logits_of(37, F32), few(37, 4, F32), spec)
    assert found.status.tolist() == [INVALID] * 4


@pytest.mark.parametrize("gamma", [(INF, INF), (INF, 0.0)], ids=["balanced", "free"])
def test_infinite_costs_are_marked(gamma: tuple[float, float]) -> None:
    from wassloss.native import calls

    cost = torch.zeros(4, 4, dtype=F64)
    cost[:, 1] = INF  # label 1 cannot be moved
    record = calls.settings(
        epsilon=0.1, gamma=gamma, tol=1e-8, mass_tolerance=1e-8, max_iterations=20
    )
    weights, indices = torch.full((1, 2), 0.5, dtype=F64), torch.tensor([[0, 2]])
    found = calls.sparse(record, torch.zeros(1, 4, dtype=F64), indices, weights, cost, True)
    assert found.worst > FINE
