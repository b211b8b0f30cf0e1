"""Loss modules behave like `CrossEntropyLoss` in every corner case.

If all labels are at distance 0 and the entropy is relative to the product of the marginals,
transport costs nothing, and `W + KL` is cross-entropy: its values, reductions and gradients are the
oracle. One difference is deliberate: where `CrossEntropyLoss` has a gradient of NaN because no
example counts (0/0), ours is 0, so that such a batch cannot destroy the weights of a model.
"""

import itertools
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import wassloss as wl
from tests.evaluators import evaluate_with
from wassloss import native

K = 5
F64 = torch.float64
FREE = wl.ground.Matrix(torch.zeros(K, K, dtype=F64))  # all distances are 0


class RelaxedOnLogits(nn.Module):
    """Relaxed transport takes logs of masses; use those of a softmax to compare it."""

    def __init__(self, metric: wl.ground.GroundMetric, **keywords: Any) -> None:
        super().__init__()
        self.loss = wl.RelaxedWassersteinLoss(metric, gamma=1.0, **keywords, normalize_cost=False)

    def forward(self, logits: Tensor, target: Any) -> Tensor:
        return self.loss(logits.log_softmax(min(1, logits.dim() - 1)), target)


MODULES = {
    "W": wl.WassersteinLoss,
    "W nearest": wl.NearestWassersteinLoss,
    "W relaxed": RelaxedOnLogits,
}


# The implementations on this machine; `make test-cuda` tests CUDA.
PATHS = [
    *(["compiled"] if native.available() else []),
    "composed",
    *(["cuda"] if torch.cuda.is_available() else []),
]


@contextmanager
def on(path: str) -> Iterator[torch.device]:
    """Use compiled code, torch calls alone, or a GPU."""
    with pytest.MonkeyPatch.context() as patch:
        if path == "composed":
            evaluate_with(patch)
        yield torch.device("cuda" if path == "cuda" else "cpu")


@dataclass(frozen=True)
class Case:
    """Logits and class ids, and further arguments of the loss."""

    logits: Tensor
    ids: Tensor
    keywords: dict[str, Any] = field(default_factory=dict)

    def to(self, device: torch.device, ids: torch.dtype = torch.long) -> "Case":
        moved = {
            name: value.to(device) if isinstance(value, Tensor) else value
            for name, value in self.keywords.items()
        }
        return Case(self.logits.to(device), self.ids.to(device, ids), moved)

    def counts(self) -> Tensor:
        """Which examples count."""
        return self.ids != self.keywords.get("ignore_index", -100)


def case(name: str) -> Case:
    shape = {"an image": (2, K, 3, 4), "an ignored image": (2, K, 3, 4), "a sequence": (3, K, 4)}
    x = torch.randn(shape.get(name, (6, K)), dtype=F64)
    ids = torch.randint(K, (x.shape[0], *x.shape[2:]))
    if name in ("some ignored", "NaN in an ignored row", "inf in an ignored row"):
        ids[1] = ids[4] = -100
    if name == "NaN in an ignored row":
        x[1], x[4, 2] = math.nan, math.nan
    if name == "inf in an ignored row":
        x[1], x[4] = -math.inf, math.inf
    if name == "all ignored":
        ids.fill_(-100)
    if name == "a label ignored":
        return Case(x, ids, {"ignore_index": int(ids[0])})
    if name == "255 ignored":
        ids[2] = 255
        return Case(x, ids, {"ignore_index": 255})
    if name in ("an image", "a sequence"):
        ids[0, 1] = -100
    if name == "an ignored image":
        ids[1] = -100
    if name == "empty batch":
        x, ids = x[:0], ids[:0]
    if name == "one example":
        x, ids = x[0], ids[0]
    if name.startswith("weight"):
        weight = torch.rand(K, dtype=F64)
        if name == "weights of zero for some":
            weight[ids[0]] = 0.0
        if name == "weights of zero for all":
            weight.zero_()
        if name == "weights, all ignored":
            ids.fill_(-100)
        return Case(x, ids, {"weight": weight})
    return Case(x, ids)


CASES = [
    "plain",
    "some ignored",
    "all ignored",
    "a label ignored",
    "255 ignored",
    "weights",
    "weights of zero for some",
    "weights of zero for all",
    "weights, all ignored",
    "empty batch",
    "one example",
    "an image",
    "an ignored image",
    "a sequence",
    "NaN in an ignored row",
    "inf in an ignored row",
]

paths = pytest.mark.parametrize("path", PATHS)
cases = pytest.mark.parametrize("name", CASES)
modules = pytest.mark.parametrize("module", list(MODULES))
reductions = pytest.mark.parametrize("reduction", ["mean", "sum", "none"])


def ours(module: str, given: Case, reduction: str) -> nn.Module:
    return MODULES[module](
        FREE.to(device=given.logits.device),
        epsilon=0.1,
        regularizer="product",
        kl_weight=1.0,
        reduction=reduction,
        **given.keywords,
    )


def theirs(given: Case, reduction: str) -> nn.Module:
    return nn.CrossEntropyLoss(reduction=reduction, **given.keywords)


def grad_of(loss: Tensor, x: Tensor, **keywords: Any) -> Tensor:
    (gradient,) = torch.autograd.grad(loss.sum(), x, **keywords)
    return gradient


def expected_gradient(given: Case, gradient: Tensor) -> Tensor:
    """The gradient of cross-entropy, with 0 instead of NaN if an example, or none, counts."""
    label_dim = min(1, given.logits.dim() - 1)
    weight = given.keywords.get("weight")
    share = given.counts().to(F64)
    if weight is not None:
        share = share * weight[given.ids.clamp(min=0)]
    return torch.where((share > 0).unsqueeze(label_dim), gradient, 0.0)


@paths
@modules
@reductions
@cases
def test_value_and_gradient(path: str, module: str, reduction: str, name: str) -> None:
    with on(path) as device:
        given = case(name).to(device)
        x = given.logits.requires_grad_()
        found = ours(module, given, reduction)(x, given.ids)
        expected = theirs(given, reduction)(x, given.ids)
        torch.testing.assert_close(found, expected, equal_nan=True)
        gradient = grad_of(found, x)
        if module == "W relaxed":  # torch's softmax before the loss has its own NaN
            gradient = expected_gradient(given, gradient)
        torch.testing.assert_close(gradient, expected_gradient(given, grad_of(expected, x)))


@paths
@modules
@reductions
@pytest.mark.parametrize(
    ("dtype", "name"),
    [
        (dtype, name)
        for dtype in (torch.int8, torch.int16, torch.int32)
        for name in ("some ignored", "NaN in an ignored row")
    ]
    + [(dtype, "255 ignored") for dtype in (torch.uint8, torch.int16, torch.int32)],
    ids=str,
)
def test_ids_of_any_integer_type(
    path: str, module: str, reduction: str, dtype: torch.dtype, name: str
) -> None:
    with on(path) as device:
        wide = case(name).to(device)
        narrow = Case(wide.logits, wide.ids.to(dtype), wide.keywords)
        x = wide.logits.requires_grad_()
        expected = ours(module, wide, reduction)(x, wide.ids)
        found = ours(module, narrow, reduction)(x, narrow.ids)
        torch.testing.assert_close(found, expected)
        torch.testing.assert_close(grad_of(found, x), grad_of(expected, x), equal_nan=True)


# Common uses of a loss


def halved(loss: Tensor) -> Tensor:
    loss *= 0.5
    return loss


def first_zeroed(loss: Tensor) -> Tensor:
    loss[..., :1] = 0
    return loss


def masked(loss: Tensor) -> Tensor:
    return loss.masked_fill_(loss > loss.mean(), 0.0)


IN_PLACE: dict[str, Callable[[Tensor], Tensor]] = {
    "*=": halved,
    "masked_fill_": masked,
    "clamp_": lambda loss: loss.clamp_(max=1.0),
    "+=": lambda loss: loss.add_(1.0),
}
BY_INDEX = {"[0] = 0": first_zeroed, "view": lambda loss: loss.view(-1).mul_(2.0)}


@paths
@modules
@pytest.mark.parametrize("use", [*IN_PLACE, *BY_INDEX])
def test_in_place_use_of_the_result(path: str, module: str, use: str) -> None:
    change = (IN_PLACE | BY_INDEX)[use]
    for reduction, name in itertools.product(
        ("mean", "sum", "none"), ("plain", "some ignored", "an image", "weights", "one example")
    ):
        if use in BY_INDEX and (reduction != "none" or name == "one example"):
            continue  # a scalar
        with on(path) as device:
            given = case(name).to(device)
            x = given.logits.requires_grad_()
            found = change(ours(module, given, reduction)(x, given.ids))
            expected = change(theirs(given, reduction)(x, given.ids))
            pairs = (found, grad_of(found, x)), (expected, grad_of(expected, x))
            torch.testing.assert_close(
                *pairs, msg=lambda text, of=(reduction, name): f"{of}: {text}"
            )


@paths
@modules
@reductions
@pytest.mark.parametrize("name", ["plain", "some ignored", "an image", "weights"])
def test_retained_graphs(path: str, module: str, reduction: str, name: str) -> None:
    """A second backward equals the first, even if the first gradient was modified."""
    with on(path) as device:
        given = case(name).to(device)
        x = given.logits.requires_grad_()
        loss = ours(module, given, reduction)(x, given.ids).sum()
        expected = grad_of(theirs(given, reduction)(x, given.ids), x)
        for _ in range(3):
            gradient = grad_of(loss, x, retain_graph=True)
            torch.testing.assert_close(gradient, expected)
            gradient.mul_(-7.0)
        loss.backward(retain_graph=True)
        x.grad.zero_()  # like an optimiser
        loss.backward()
        torch.testing.assert_close(x.grad, expected)


@paths
@modules
@reductions
@pytest.mark.parametrize("name", ["plain", "some ignored", "an image", "weights"])
def test_hooks(path: str, module: str, reduction: str, name: str) -> None:
    """Hooks on the logits, on the loss, and on tensors saved for the backward pass."""
    with on(path) as device:
        given = case(name).to(device)

        def gradient_with_hooks(loss_fn: nn.Module) -> Tensor:
            x = given.logits.detach().requires_grad_()
            x.register_hook(lambda g: g.mul_(3.0))
            with torch.autograd.graph.saved_tensors_hooks(Tensor.clone, Tensor.clone):
                loss = loss_fn(x, given.ids)
            loss.register_hook(lambda g: 0.5 * g)
            return grad_of(loss, x)

        torch.testing.assert_close(
            gradient_with_hooks(ours(module, given, reduction)),
            gradient_with_hooks(theirs(given, reduction)),
        )


@paths
@modules
@pytest.mark.parametrize("kind", ["dense", "sparse"])
@reductions
def test_targets_with_several_labels(path: str, module: str, kind: str, reduction: str) -> None:
    """`CrossEntropyLoss` also takes probabilities; it adds their entropy, which has no gradient."""
    with on(path) as device:
        x = torch.randn(4, K, dtype=F64, device=device, requires_grad=True)
        y = torch.zeros(4, K, dtype=F64, device=device)
        y[:, :2] = torch.rand(4, 2, dtype=F64, device=device).softmax(1)
        target: Any = y
        if kind == "sparse":
            target = wl.SparseTarget(torch.tensor([[0, 1]] * 4, device=device), y[:, :2])
        given = Case(x, torch.zeros(4, dtype=torch.long))
        loss = ours(module, given, reduction)(x, target)
        change = IN_PLACE["*="]
        expected = grad_of(change(nn.CrossEntropyLoss(reduction=reduction)(x, y)), x)
        torch.testing.assert_close(grad_of(change(loss), x), expected)


def test_weights_survive_a_batch_of_ignored_labels() -> None:
    """A segmentation crop that is entirely ignored must not turn a model into NaN."""
    model = nn.Conv2d(3, K, 1)
    loss_fn = wl.WassersteinLoss(wl.ground.Ordinal(K), kl_weight=0.1, normalize_cost=False)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    before = [p.clone() for p in model.parameters()]
    loss = loss_fn(model(torch.randn(2, 3, 4, 4)), torch.full((2, 4, 4), -100))
    loss.backward()
    optimizer.step()
    assert loss.isnan()
    torch.testing.assert_close(list(model.parameters()), before)


@pytest.mark.parametrize("module", ["W", "W nearest"])
def test_sample_weights_that_are_all_zero_have_no_gradient(module: str) -> None:
    x = torch.randn(3, K, dtype=F64, requires_grad=True)
    given = Case(x, torch.tensor([0, 1, 2]))
    loss = ours(module, given, "mean")(x, given.ids, torch.zeros(3))
    assert loss.isnan()
    assert (grad_of(loss, x) == 0).all()
