"""Autograd of an optimum: first derivatives, without differentiating the iterations."""

from typing import Any

import pytest
import torch
from torch import Tensor

import wassloss as wl
from wassloss.ground import Ordinal
from wassloss.losses.autograd import with_gradient

K = 6
METRIC = Ordinal(K)
ONCE = r"wassloss losses are differentiable once.*Leave them out of second derivatives"

MODES: dict[str, dict[str, Any]] = {
    "exact": {"epsilon": 0},
    "plan": {},
    "debiased": {"debiased": True},
    "iterations": {"scaling_iterations": 5},
    "kl": {"kl_weight": 0.5},
}
modes = pytest.mark.parametrize("mode", [pytest.param(v, id=k) for k, v in MODES.items()])


def data() -> tuple[Tensor, Tensor]:
    logits = torch.randn(4, K, dtype=torch.float64, requires_grad=True)
    return logits, torch.randn(4, K, dtype=torch.float64).softmax(1)


def test_the_gradient_is_the_one_given() -> None:
    x, y = torch.ones(3, 2, requires_grad=True), torch.ones(3, 4, 5, requires_grad=True)
    by_x, by_y = torch.randn(3, 2), torch.randn(3, 4, 5)
    value = torch.randn(3)
    result = with_gradient(value, (x, by_x), (y, by_y))
    assert torch.equal(result, value)
    upstream = torch.randn(3)
    result.backward(upstream)
    torch.testing.assert_close(x.grad, upstream[:, None] * by_x)
    torch.testing.assert_close(y.grad, upstream[:, None, None] * by_y)


def test_only_what_is_asked_for_gets_a_gradient() -> None:
    x, y = torch.ones(3, 2, requires_grad=True), torch.ones(3, 2)
    with_gradient(torch.zeros(3), (x, torch.ones(3, 2)), (y, torch.ones(3, 2))).sum().backward()
    assert x.grad is not None
    assert y.grad is None


@modes
def test_a_second_derivative_is_refused(mode: dict[str, Any]) -> None:
    logits, y = data()
    loss = wl.WassersteinLoss(METRIC, **{"kl_weight": 0.0, **mode}, normalize_cost=False)(logits, y)
    (gradient,) = torch.autograd.grad(loss, logits, create_graph=True)
    with pytest.raises(RuntimeError, match=ONCE):
        torch.autograd.grad(gradient.square().sum(), logits)


def test_a_second_derivative_in_masses_target_or_cost_is_refused() -> None:
    h, y = (torch.rand(2, K).softmax(1).requires_grad_() for _ in range(2))
    positions = torch.arange(float(K), requires_grad=True)
    for x in (h, y, positions):
        value = wl.wasserstein(h, y, Ordinal(positions, power=2), epsilon=1.0).sum()
        (gradient,) = torch.autograd.grad(value, x, create_graph=True)
        with pytest.raises(RuntimeError, match=ONCE):
            gradient.square().sum().backward()


@modes
def test_create_graph_gives_the_same_first_derivative(mode: dict[str, Any]) -> None:
    logits, y = data()
    loss_fn = wl.WassersteinLoss(METRIC, **{"kl_weight": 0.0, **mode}, normalize_cost=False)
    (plain,) = torch.autograd.grad(loss_fn(logits, y), logits)
    (kept,) = torch.autograd.grad(loss_fn(logits, y), logits, create_graph=True)
    assert kept.requires_grad
    torch.testing.assert_close(kept.detach(), plain)


def test_other_losses_keep_their_second_derivatives() -> None:
    logits, y = data()
    w = wl.WassersteinLoss(METRIC, kl_weight=0.0, normalize_cost=False)(logits, y)
    entropy = torch.nn.functional.cross_entropy(logits, y)
    (gradient,) = torch.autograd.grad(entropy, logits, create_graph=True)
    (w + gradient.square().sum()).backward()  # a penalty on the gradient of another loss, plus W
    assert logits.grad is not None
    assert logits.grad.isfinite().all()


def saved_bytes(loss_fn: torch.nn.Module, logits: Tensor, target: Any) -> int:
    """The memory that the graph of a loss retains for its backward pass."""
    sizes: dict[int, int] = {}

    def keep(x: Tensor) -> Tensor:
        storage = x.untyped_storage()
        sizes[storage.data_ptr()] = storage.nbytes()
        return x

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda x: x):
        loss = loss_fn(logits, target)
    assert loss.requires_grad  # and keep it alive until the count is complete
    return sum(sizes.values())


@pytest.mark.parametrize("relaxed", [False, True], ids=["balanced", "relaxed"])
def test_memory_does_not_grow_with_the_iterations(relaxed: bool) -> None:
    logits, y = data()
    module = wl.RelaxedWassersteinLoss if relaxed else wl.WassersteinLoss
    few, many = (saved_bytes(module(METRIC, scaling_iterations=n), logits, y) for n in (5, 50))
    assert few == many
    # A handful of (batch, labels) arrays; one iteration's (batch, labels, labels) would be six.
    one = logits.nbytes
    assert saved_bytes(module(METRIC), logits, y) <= 5 * one


def test_memory_does_not_grow_with_the_support() -> None:
    logits, y = data()
    loss_fn = wl.WassersteinLoss(METRIC, kl_weight=0.0, normalize_cost=False)
    ids = saved_bytes(loss_fn, logits, torch.tensor([0, 1, 2, 3]))
    assert saved_bytes(loss_fn, logits, y) == ids


def test_gradients_accumulate() -> None:
    logits, y = data()
    loss_fn = wl.WassersteinLoss(METRIC, reduction="sum", kl_weight=0.0, normalize_cost=False)
    for part in (slice(0, 1), slice(1, 4)):
        loss_fn(logits[part], y[part]).backward()
    accumulated = logits.grad
    (whole,) = torch.autograd.grad(loss_fn(logits, y), logits)
    torch.testing.assert_close(accumulated, whole, rtol=1e-6, atol=1e-8)


def test_two_losses_share_logits() -> None:
    logits, y = data()
    exact, smooth = (
        wl.WassersteinLoss(METRIC, epsilon=0, kl_weight=0.0, normalize_cost=False),
        wl.WassersteinLoss(METRIC, kl_weight=0.0, normalize_cost=False),
    )
    (both,) = torch.autograd.grad(exact(logits, y) + 0.3 * smooth(logits, y), logits)
    parts = [torch.autograd.grad(loss(logits, y), logits)[0] for loss in (exact, smooth)]
    torch.testing.assert_close(both, parts[0] + 0.3 * parts[1])


def test_a_graph_can_be_kept_for_a_second_backward() -> None:
    logits, y = data()
    loss = wl.WassersteinLoss(METRIC, kl_weight=0.0, normalize_cost=False)(logits, y)
    loss.backward(retain_graph=True)
    assert logits.grad is not None
    once = logits.grad.clone()
    loss.backward()
    torch.testing.assert_close(logits.grad, 2 * once)


def test_functional_gradients_are_the_same() -> None:
    logits, y = data()
    loss_fn = wl.WassersteinLoss(METRIC, kl_weight=0.5, normalize_cost=False)
    (expected,) = torch.autograd.grad(loss_fn(logits, y), logits)
    torch.testing.assert_close(torch.func.grad(loss_fn)(logits.detach(), y), expected)


@pytest.mark.parametrize("argument", [0, 1], ids=["logits", "target"])
def test_forward_mode_is_refused(argument: int) -> None:
    logits, y = data()
    arguments = [logits.detach(), y]
    loss_fn = wl.WassersteinLoss(METRIC, normalize_target=True, kl_weight=0.0, normalize_cost=False)

    def of(x: Tensor) -> Tensor:
        return loss_fn(*arguments[:argument], x, *arguments[argument + 1 :])

    x = arguments[argument]
    with pytest.raises(RuntimeError, match=r"no forward-mode derivative.*use backward"):
        torch.func.jvp(of, (x,), (torch.ones_like(x),))


@pytest.mark.parametrize("kind", ["ids", "few", "dense"])
@pytest.mark.parametrize("needs_grad", [True, False])
def test_forward_mode_is_refused_by_every_evaluator(kind: str, needs_grad: bool) -> None:
    from torch.autograd import forward_ad

    ids = torch.tensor([1, 0, 2])
    target = {
        "ids": ids,
        "few": wl.SparseTarget(torch.stack([ids, (ids + 1) % 3], 1), torch.full((3, 2), 0.5)),
        "dense": torch.full((3, 3), 1 / 3),
    }[kind]
    loss_fns = [wl.WassersteinLoss(wl.ground.Ordinal(3))]
    if kind == "ids":
        loss_fns.append(wl.NumberTokenLoss(torch.tensor([1.0, 2.0, 3.0])))
    for loss_fn in loss_fns:
        with forward_ad.dual_level():
            x = forward_ad.make_dual(torch.randn(3, 3, requires_grad=needs_grad), torch.ones(3, 3))
            with pytest.raises(RuntimeError, match="no forward-mode derivative"):
                loss_fn(x, target)
