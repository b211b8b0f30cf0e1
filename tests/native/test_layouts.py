"""The compiled core accepts tensors with any memory layout and integer type."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from tests.generators import random_metric
from tests.native.core import F32, F64, each_dtype, few, logits_of, skip_module_without_core
from wassloss.native import calls

skip_module_without_core()

LABELS, SUPPORT = 37, 4


def transposed(x: Tensor) -> Tensor:
    return x.T.contiguous().T


def strided(x: Tensor) -> Tensor:
    """A view of every third number of every second row of a larger tensor."""
    wide = x.new_full(tuple(3 * n + 2 for n in x.shape), -7)
    view = wide[tuple(slice(1, 3 * n + 1, 3) for n in x.shape)]
    view.copy_(x)
    return view


def channels_last(x: Tensor) -> Tensor:
    """The layout of one-pixel maps whose labels are moved to the last dimension."""
    return x.reshape(1, *x.shape, 1).to(memory_format=torch.channels_last).reshape(x.shape)


def offset(x: Tensor) -> Tensor:
    """At an unaligned address."""
    return torch.cat([x.new_zeros(1), x.flatten()])[1:].reshape(x.shape)


def learned(x: Tensor) -> Tensor:
    return x.clone().requires_grad_() if x.is_floating_point() else x


LAYOUTS = [transposed, strided, channels_last, offset, learned]
each_layout = pytest.mark.parametrize("layout", LAYOUTS, ids=lambda f: f.__name__)


def sparse(layout: Callable[[Tensor], Tensor], dtype: torch.dtype) -> tuple[Tensor, ...]:
    record = calls.settings(epsilon=0.1, kl_weight=0.3, tol=1e-5, mass_tolerance=1e-4,
                            max_iterations=100)  # fmt: skip
    target, cost = few(LABELS, SUPPORT, dtype), random_metric(LABELS).cost().to(dtype)
    arrays = (logits_of(LABELS, dtype), target.indices, target.weights, cost)
    return calls.sparse(record, *(layout(x) for x in arrays), True)[:3]


def class_ids(layout: Callable[[Tensor], Tensor], dtype: torch.dtype) -> tuple[Tensor, ...]:
    record = calls.settings(epsilon=0.1, kl_weight=0.3)
    ids = torch.tensor([[3], [5], [-100], [0]])
    ids = layout(ids).squeeze(1) if layout is not channels_last else ids.squeeze(1)
    arrays = (logits_of(LABELS, dtype), random_metric(LABELS).cost().to(dtype))
    logits, cost = (layout(x) for x in arrays)
    return calls.class_ids(record, logits, ids, cost, True)[:3]


def maximize(layout: Callable[[Tensor], Tensor], dtype: torch.dtype) -> tuple[Tensor, ...]:
    record = calls.settings(epsilon=0.1, tol=1e-5, max_iterations=100)
    target, cost = few(LABELS, SUPPORT, dtype), random_metric(LABELS).cost().to(dtype)
    rows = target.indices.where(target.weights > 0, 0)
    arrays = (logits_of(LABELS, dtype).log_softmax(1), target.weights.log(), rows, cost)
    return calls.maximize(record, *(layout(x) for x in arrays))


@each_dtype
@each_layout
@pytest.mark.parametrize("call", [sparse, class_ids, maximize], ids=lambda f: f.__name__)
def test_layouts(
    call: Callable[..., tuple[Tensor, ...]],
    layout: Callable[[Tensor], Tensor],
    dtype: torch.dtype,
) -> None:
    expected, found = call(lambda x: x, dtype), call(layout, dtype)
    for one, other in zip(expected, found, strict=True):
        assert one.is_contiguous()
        assert other.is_contiguous()
        assert not other.requires_grad
        assert torch.equal(one, other)


def test_expanded_logits() -> None:
    record = calls.settings(epsilon=0.1)
    logits = logits_of(LABELS)[:1]
    ids, cost = torch.zeros(3, dtype=torch.int32), random_metric(LABELS).cost()
    found = calls.class_ids(record, logits.expand(3, -1), ids, cost, True)
    alone = calls.class_ids(record, logits, ids[:1], cost, True)
    assert torch.equal(found.gradient, alone.gradient.expand(3, -1))


def test_expanded_targets_and_costs() -> None:
    record = calls.settings(epsilon=0.1, tol=1e-9, mass_tolerance=1e-9, max_iterations=100)
    indices, weights = torch.tensor([[3, 7]]).expand(4, -1), torch.full((1, 1), 0.5, dtype=F64)
    cost = random_metric(LABELS).cost()
    found = calls.sparse(record, logits_of(LABELS), indices, weights.expand(4, 2), cost, True)
    rows = cost.T[indices.reshape(-1)]
    expected = calls.sparse(
        record, logits_of(LABELS), indices.contiguous(), torch.full((4, 2), 0.5, dtype=F64), rows,
        False,
    )  # fmt: skip
    torch.testing.assert_close(found.gradient, expected.gradient, rtol=1e-12, atol=1e-14)


def test_weights_and_costs_in_another_precision() -> None:
    record = calls.settings(
        epsilon=0.1, tol=1e-5, mass_tolerance=1e-5, max_iterations=100, normalize=True
    )
    target, cost = few(LABELS, SUPPORT), random_metric(LABELS).cost()
    logits = logits_of(LABELS, F32)
    one = calls.sparse(record, logits, target.indices, target.weights, cost, True)
    other = calls.sparse(
        record, logits, target.indices.int().where(target.weights > 0, 0), target.weights.float(),
        cost.float(), True,
    )  # fmt: skip
    assert torch.equal(one.gradient, other.gradient)


def test_the_same_call_has_the_same_bits_wherever_its_memory_is() -> None:
    record = calls.settings(epsilon=0.1, kl_weight=0.3)
    cost, ids = random_metric(50).cost().float(), torch.arange(200) % 50
    x = torch.randn(200, 50, generator=torch.Generator().manual_seed(0))
    held, found = [], set()
    for i in range(60):  # allocations in between move the arrays
        held.append(torch.empty((37 * i) % 4001 + 1))
        if i % 3 == 0:
            held.pop(i % len(held))
        found.add(calls.class_ids(record, x, ids, cost, True).gradient.numpy().tobytes())
    assert len(found) == 1
