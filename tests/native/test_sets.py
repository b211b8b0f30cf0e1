"""Sets of labels in the compiled core, against tensor operations in double precision."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import wassloss as wl
from tests.evaluators import evaluation
from tests.native.core import F32, F64, each_dtype, logits_of, skip_module_without_core
from wassloss.ground import Discrete, Embedding, Grid, GroundMetric, Ordinal, Tree
from wassloss.kernels.status import FINE, IGNORED, INVALID
from wassloss.losses.evaluators.composed import ComposedEvaluator
from wassloss.losses.evaluators.native_sets import NativeSetEvaluator
from wassloss.losses.spec import LossSpec

skip_module_without_core()

METRICS: dict[str, Any] = {
    "line": Ordinal,
    "unordered line": lambda size: Ordinal(torch.randperm(size).double()),
    "tree": lambda size: Tree(
        [-1, *[i // 3 for i in range(size + size // 2)]],
        nodes=torch.randperm(size + size // 2)[:size].tolist(),
    ),
    "discrete": Discrete,
    "vectors": lambda size: Embedding(torch.randn(size, 3), normalize=False),
}
OPTIONS: dict[str, dict[str, Any]] = {
    "default": {"epsilon": 0.2, "kl_weight": 0.5},
    "product": {"epsilon": 0.2, "kl_weight": 1.0, "regularizer": "product"},
    "softened": {"epsilon": 0.1, "kl_weight": 0.7, "softening": 0.3, "transport_weight": 0.8},
    "KL alone": {"epsilon": 0.0, "kl_weight": 1.0, "transport_weight": 0.0},
}


def some_sets(metric: GroundMetric, batch: int, form: str) -> wl.SetTarget:
    """Ranges of the numbers, sets of the metric's own, and any."""
    size = metric.size
    first = torch.randint(size, (batch,))
    last = first + (torch.rand(batch) * (size - first)).long()
    if form == "ranges":
        return wl.SetTarget.from_ranges(first, last)
    if form == "own":
        if isinstance(metric, Tree):
            codes = metric._subtree_codes
            codes = codes[torch.linspace(0, len(codes) - 1, batch).long()]
            first, last = codes // size, codes % size
        return wl.SetTarget.from_ranges(first, last, metric.label_order)
    allowed = torch.rand(batch, size) < torch.rand(batch, 1)
    allowed[torch.arange(batch), first] = True
    return wl.SetTarget(allowed)


def compare(
    logits: Tensor, target: wl.SetTarget, metric: GroundMetric, close: float, **keywords: Any
) -> None:
    spec = LossSpec.checked(metric, **keywords)
    found = evaluation(NativeSetEvaluator, logits, target, spec)
    x = logits.detach().double().requires_grad_()
    wide = LossSpec.checked(metric.to(dtype=F64), **keywords)
    expected = evaluation(ComposedEvaluator, x, target, wide)
    assert found is not None
    assert expected is not None
    assert found.status is not None
    assert (found.status == FINE).all()
    torch.testing.assert_close(found.value.double(), expected.value, rtol=close, atol=close)
    (slope,) = torch.autograd.grad(expected.value.sum(), x)
    torch.testing.assert_close(found.gradient.double(), slope, rtol=close, atol=close)


@each_dtype
@pytest.mark.parametrize("form", ["ranges", "own", "any"])
@pytest.mark.parametrize("tabulated", [True, False], ids=["table", "columns"])
@pytest.mark.parametrize("metric", METRICS)
def test_values_and_gradients(metric: str, tabulated: bool, form: str, dtype: torch.dtype) -> None:
    for size in (3, 37, 600):
        ground = METRICS[metric](size).with_cost(scale="max").to(dtype=dtype)
        ground = ground.tabulated() if tabulated else ground
        logits = logits_of(size, dtype)
        target = some_sets(ground, len(logits), form)
        for options in OPTIONS.values():
            compare(logits, target, ground, 1e-10 if dtype == F64 else 2e-5, **options)


def test_more_examples_than_are_done_at_once() -> None:
    ground = Grid((37,), scale="max").tabulated()
    logits = torch.randn(201, 37)
    compare(logits, some_sets(ground, 201, "any"), ground, 2e-5, epsilon=0.2, kl_weight=0.5)


@each_dtype
@pytest.mark.parametrize("softening", [0.0, 0.4])
def test_sets_of_next_to_no_probability(dtype: torch.dtype, softening: float) -> None:
    """Whose probability is below the least number of the dtype, but not its logarithm."""
    ground = Ordinal(70, scale="max").to(dtype=dtype).tabulated()
    logits = torch.randn(3, 70, dtype=dtype)
    logits[:, 10:20] -= 150 if dtype == F32 else 900
    for target in (
        wl.SetTarget.from_ranges([10] * 3, [19] * 3),
        wl.SetTarget([range(10, 20), [12, 15], [11]]),
    ):
        compare(logits, target, ground, 2e-5, epsilon=0.2, kl_weight=0.5, softening=softening)


@pytest.mark.parametrize("listed", [True, False])
def test_statuses(listed: bool) -> None:
    """Of invalid examples, the others of the batch are right nevertheless."""
    ground = Discrete(5).tabulated()
    first, last = [0, -100, 3, -1, 1, 2], [2, -100, 2, 2, 9, 3]
    target = wl.SetTarget.from_ranges(first, last, range(5) if listed else None)
    logits = torch.randn(6, 5)
    logits[0, 0] = torch.nan
    logits[1] = torch.nan  # ignored, whatever it predicts
    spec = LossSpec.checked(ground, epsilon=0.2, kl_weight=0.5)
    found = evaluation(NativeSetEvaluator, logits, target, spec)
    assert found is not None
    assert found.status is not None
    assert found.gradient is not None
    expected = [INVALID, IGNORED, INVALID, INVALID, INVALID, FINE]
    assert found.status.tolist() == expected
    assert found.worst() == INVALID
    assert found.value.isnan().tolist() == [status == INVALID for status in expected]
    assert (found.gradient[1] == 0).all()


@pytest.mark.parametrize("members", [[0, 0, 1, 2, 3], [0, 5, 1, 2, 3], [0, -1, 1, 2, 3]])
@pytest.mark.parametrize("metric", [Ordinal(5), Grid((5,))])
def test_labels_that_are_unknown_or_named_twice(metric: GroundMetric, members: list[int]) -> None:
    target = wl.SetTarget.from_ranges([0, 2], [1, 4], members)
    spec = LossSpec.checked(metric.tabulated(), epsilon=0.2, kl_weight=0.5)
    found = evaluation(NativeSetEvaluator, torch.randn(2, 5), target, spec)
    assert found is not None
    assert found.status is not None
    assert found.status.tolist() == [INVALID, FINE]


def test_any_number_of_threads_gives_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    size, batch = 300, 2500
    logits = torch.randn(batch, size)
    for metric in (Ordinal(size), Embedding(torch.randn(size, 2), normalize=False)):
        target = some_sets(metric, batch, "any")
        spec = LossSpec.checked(metric.tabulated(), epsilon=0.2, kl_weight=0.5)
        answers = []
        for threads in (1, 3):
            monkeypatch.setattr(torch, "get_num_threads", lambda threads=threads: threads)
            answers.append(evaluation(NativeSetEvaluator, logits, target, spec))
        assert answers[0] is not None
        assert answers[1] is not None
        np.testing.assert_array_equal(answers[0].value, answers[1].value)
        np.testing.assert_array_equal(answers[0].gradient, answers[1].gradient)
