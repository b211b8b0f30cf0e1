"""Compiled losses with one label per example."""

import math
from typing import Any

import pytest
import torch

from tests.generators import random_metric
from tests.native.core import (
    F64,
    SIZES,
    compare,
    each_dtype,
    each_regularizer,
    logits_of,
    losses,
    skip_module_without_core,
    tables,
)
from wassloss.kernels.status import FINE, IGNORED, INVALID
from wassloss.losses.spec import LossSpec

skip_module_without_core()


def ids_of(labels: int) -> torch.Tensor:
    return torch.tensor([labels - 1, 0, labels // 2, 0])


@each_dtype
@each_regularizer
@tables
@pytest.mark.parametrize("labels", SIZES)
@pytest.mark.parametrize("epsilon", [0.0, 0.2])
def test_equal_the_composed(
    epsilon: float, labels: int, tabulated: bool, regularizer: str, dtype: torch.dtype
) -> None:
    compare(
        logits_of(labels, dtype), ids_of(labels), random_metric(labels), epsilon=epsilon,
        gamma=(math.inf, 0.0), regularizer=regularizer, kl_weight=0.3, tabulated=tabulated,
        close=1e-5 if dtype != F64 else 1e-12,
    )  # fmt: skip


@each_dtype
@pytest.mark.parametrize(
    "keywords",
    [
        {"transport_weight": 0.0},
        {"transport_weight": 0.3},
        {"softening": 0.05},
        {"softening": 0.7, "transport_weight": 0.3},
        {"softening": 1e-300},
        {"kl_weight": 0.0},
    ],
    ids=str,
)
def test_weights_of_the_parts(keywords: dict[str, Any], dtype: torch.dtype) -> None:
    given = {"epsilon": 0.1, "kl_weight": 0.4, "gamma": (math.inf, 0.0)} | keywords
    for labels in (10, 600):
        compare(logits_of(labels, dtype), ids_of(labels), random_metric(labels), **given)


@each_dtype
def test_impossible_labels_and_extreme_logits(dtype: torch.dtype) -> None:
    logits = logits_of(37, dtype)
    logits[0, :5] = -math.inf
    logits[1, 3] = 1e4
    logits[2] *= 100
    given: dict[str, Any] = {"epsilon": 0.1, "gamma": (math.inf, 0.0)}
    compare(logits, torch.tensor([2, 4, 0, 1]), random_metric(37), **given)


def test_divergence_from_a_label_that_is_all_but_impossible_or_quite() -> None:
    """Its log is below the log of the least mass that transport uses."""
    logits, ids = logits_of(37), torch.tensor([7, 8, 9, 9])
    for label, x in ((7, -math.inf), (8, -1e3), (9, -5e3)):
        logits[:, label] = x
    found = losses(logits, ids, LossSpec.checked(random_metric(37), epsilon=0.1, kl_weight=1.0))
    assert found.status.tolist() == [INVALID, FINE, FINE, FINE]
    assert found.value[0] == math.inf
    assert (found.value[1:] > 900).all()
    assert found.gradient.isfinite().all()


@pytest.mark.parametrize("ignored", [-100, 2, 99])
def test_ignored_examples(ignored: int) -> None:
    ids, logits = torch.tensor([3, ignored, 5, ignored]), logits_of(37)
    logits[1, 0] = math.nan  # has no effect
    spec = LossSpec.checked(random_metric(37), epsilon=0.1, kl_weight=0.1, ignore_index=ignored)
    found = losses(logits, ids, spec)
    assert found.status.tolist() == [FINE, IGNORED, FINE, IGNORED]
    assert found.value[1] == 0
    assert (found.gradient[1] == 0).all()


@tables
def test_class_ids_out_of_range_are_marked(tabulated: bool) -> None:
    ids = torch.tensor([0, 37, -1, 36])
    spec = LossSpec.checked(random_metric(37), epsilon=0.1)
    found = losses(logits_of(37), ids, spec, tabulated=tabulated)
    assert found.status.tolist() == [FINE, INVALID, INVALID, FINE]
    assert found.gradient[1:3].isnan().all()


@each_dtype
@pytest.mark.parametrize("bad", [math.nan, math.inf, "all -inf"])
def test_senseless_logits_are_marked(bad: float | str, dtype: torch.dtype) -> None:
    logits = logits_of(37, dtype)
    if isinstance(bad, str):
        logits[2] = -math.inf
    else:
        logits[2, 30] = bad
    found = losses(logits, ids_of(37), LossSpec.checked(random_metric(37), epsilon=0.1))
    assert found.status.tolist() == [FINE, FINE, INVALID, FINE]
    assert found.value[2].isnan()
    assert found.gradient[2].isnan().all()
    assert found.gradient[[0, 1, 3]].isfinite().all()


def test_ids_of_32_bits() -> None:
    spec = LossSpec.checked(random_metric(37), epsilon=0.1)
    one, other = (
        losses(logits_of(37), ids_of(37).to(kind), spec) for kind in (torch.int32, torch.int64)
    )
    assert torch.equal(one.gradient, other.gradient)


def test_an_empty_batch() -> None:
    spec = LossSpec.checked(random_metric(37), epsilon=0.1)
    from tests.native.core import settings_of
    from wassloss.native import calls

    found = calls.class_ids(
        settings_of(spec, F64), logits_of(37)[:0], ids_of(37)[:0], random_metric(37).cost(), True
    )
    assert found.value.shape == (0,)
    assert found.gradient.shape == (0, 37)
    assert found.worst == FINE
