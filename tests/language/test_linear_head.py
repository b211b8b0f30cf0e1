"""The loss from hidden states equals that of the logits: value, gradients, and refusals."""

import copy
import gc
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.checkpoint import checkpoint

import wassloss as wl
from tests.generators import random_metric
from wassloss import _memory
from wassloss.losses import modules

TOKENS, FEATURES, WORDS = 11, 6, 37
F32, F64 = torch.float32, torch.float64


def metrics() -> dict[str, wl.ground.GroundMetric]:
    vectors = torch.randn(WORDS, 5, dtype=F64)
    numbers = wl.ground.Ordinal(torch.tensor([0.0, 1.0, 2.0, 5.0], dtype=F64))
    return {
        "line": wl.ground.Ordinal(torch.arange(WORDS, dtype=F64), power=2),
        "vectors": wl.ground.Embedding(vectors),
        "subset": wl.ground.Subset(numbers, [30, 2, 7, 8], WORDS, far=4.0),
        "matrix": random_metric(WORDS),
    }


def problem(dtype: torch.dtype = F64, device: str = "cpu") -> list[Tensor]:
    """Hidden states, weight, bias and targets, one of which is ignored."""
    shapes = (TOKENS, FEATURES), (WORDS, FEATURES), (WORDS,)
    inputs = [torch.randn(shape, dtype=F64).to(device, dtype).requires_grad_() for shape in shapes]
    target = torch.randint(WORDS, (TOKENS,))
    target[4] = -100
    return [*inputs, target.to(device)]


def composed(metric, hidden, rows, bias, target, softcap=None, sample_weight=None, **keywords):
    logits = torch.nn.functional.linear(hidden, rows, bias)
    logits = logits if softcap is None else softcap * torch.tanh(logits / softcap)
    return wl.WassersteinLoss(metric, **keywords).to(hidden.device)(logits, target, sample_weight)


def direct(metric, hidden, rows, bias, target, sample_weight=None, **keywords):
    loss_fn = wl.LinearWassersteinLoss(metric, **keywords).to(hidden.device)
    return loss_fn(hidden, rows, target, bias, sample_weight)


def with_gradients(value: Tensor, inputs: list[Tensor]) -> list[Tensor]:
    weights = torch.linspace(1, 2, value.numel(), dtype=value.dtype, device=value.device)
    total = (value.flatten() * weights).sum()
    return [value.detach(), *torch.autograd.grad(total, inputs)]


def compare(metric, given, close=None, **keywords) -> None:
    expected = with_gradients(composed(metric, *given, **keywords), given[:3])
    found = with_gradients(direct(metric, *given, **keywords), given[:3])
    torch.testing.assert_close(found, expected, **(close or {"rtol": 1e-9, "atol": 1e-11}))


@pytest.fixture(autouse=True)
def three_tokens_at_a_time(monkeypatch) -> None:
    monkeypatch.setattr(_memory, "LARGEST_CHUNK_BYTES", 3 * WORDS * 56)


KEYWORDS = [
    {},
    {"epsilon": 0.0, "kl_weight": 0.0},
    {"kl_weight": 0.0, "softcap": 2.0},
    {"transport_weight": 0.0, "kl_weight": 1.0},
    {"regularizer": "product", "transport_weight": 0.5, "softcap": 1.0, "normalize_cost": False},
]


@pytest.mark.parametrize("name", metrics())
@pytest.mark.parametrize("keywords", KEYWORDS)
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_is_the_loss_of_the_logits(name, keywords, reduction):
    compare(metrics()[name], problem(), reduction=reduction, **keywords)


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_weights(reduction):
    given, of_class = problem(), torch.rand(WORDS, dtype=F64)
    share = torch.rand(TOKENS, dtype=F64)
    share[2] = 0.0
    metric = metrics()["line"]
    compare(metric, given, reduction=reduction, weight=of_class, sample_weight=share)
    share.requires_grad_()
    results = [
        torch.autograd.grad(
            loss(metric, *given, reduction=reduction, sample_weight=share).sum(), share
        )
        for loss in (direct, composed)
    ]
    torch.testing.assert_close(*results)


def test_gradients_are_those_of_finite_differences():
    given, metric = problem(), metrics()["vectors"]
    for reduction in ("mean", "none"):
        loss_fn = wl.LinearWassersteinLoss(metric, reduction=reduction, softcap=3.0)
        assert torch.autograd.gradcheck(
            lambda h, w, b, loss_fn=loss_fn: loss_fn(h, w, given[3], b),
            given[:3],
            fast_mode=True,
            nondet_tol=1e-12,  # a second backward pass computes the gradients again
        )


def test_chunks_of_any_size():
    given, results = problem(), []
    for chunk_bytes in (1, 4 * WORDS * 56, 2**30):
        loss = direct(metrics()["line"], *given, chunk_bytes=chunk_bytes)
        results.append(with_gradients(loss, given[:3]))
    torch.testing.assert_close(results[1], results[0])
    torch.testing.assert_close(results[2], results[0])


class LargestStorage(TorchDispatchMode):
    """Records the largest number of bytes of any operation's result."""

    def __init__(self) -> None:
        super().__init__()
        self.bytes = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        found = function(*args, **(kwargs or {}))
        tensors = [x for x in tree_leaves(found) if isinstance(x, Tensor)]
        self.bytes = max([self.bytes, *[x.untyped_storage().nbytes() for x in tensors]])
        return found


@pytest.mark.parametrize("reduction", ["mean", "none"])
@pytest.mark.parametrize("name", ["line", "vectors", "subset"])
def test_logits_of_all_tokens_never_exist(name, reduction, monkeypatch):
    monkeypatch.setattr(modules, "LARGEST_TABLE", 0)  # costs on demand
    tokens, words = 1500, 500
    metric = {
        "line": lambda: wl.ground.Ordinal(words),
        "vectors": lambda: wl.ground.Embedding(torch.randn(words, 300)),
        "subset": lambda: wl.ground.Subset(wl.ground.Ordinal(9), range(9), words, far=9.0),
    }[name]()
    inputs = [torch.randn(n, 8, requires_grad=True) for n in (tokens, words)]
    target = torch.randint(words, (tokens,))
    loss_fn = wl.LinearWassersteinLoss(metric, reduction=reduction, chunk_bytes=50 * words * 28)
    with LargestStorage() as largest:
        value = loss_fn(*inputs, target)
        value.sum().backward()
    assert largest.bytes < tokens * words * 4 / 2
    expected = composed(metric, *inputs, None, target, reduction=reduction)
    torch.testing.assert_close(value, expected, rtol=1e-4, atol=1e-4)
    found = [x.grad for x in inputs]
    gradients = torch.autograd.grad(expected.sum(), inputs)
    torch.testing.assert_close(found, list(gradients), rtol=1e-3, atol=1e-4)


def test_cross_entropy_is_a_special_case():
    hidden, weight, bias, target = problem()
    loss = direct(metrics()["line"], hidden, weight, bias, target, transport_weight=0, kl_weight=1)
    logits = hidden @ weight.T + bias
    torch.testing.assert_close(loss, torch.nn.functional.cross_entropy(logits, target))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, F32])
def test_half_precision_has_sums_in_single(dtype):
    given, metric = problem(dtype), metrics()["vectors"].to(dtype=F32)
    found = with_gradients(direct(metric, *given), given[:3])
    wide = [x.detach().to(F64).requires_grad_() for x in given[:3]]
    expected = with_gradients(composed(metric, *wide, given[3]), wide)
    assert found[0].dtype == F32
    assert [x.dtype for x in found[1:]] == 3 * [dtype]
    eps = 4 * torch.finfo(dtype).eps
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one.double(), other, rtol=eps, atol=eps)


def test_shapes_without_bias_and_without_gradient():
    hidden, weight, _, target = problem()
    metric = metrics()["line"]
    expected = direct(metric, hidden, weight, None, target, reduction="none")
    assert expected[4] == 0
    loss_fn = wl.LinearWassersteinLoss(metric, reduction="none")
    parts = loss_fn(hidden[:10].reshape(2, 5, FEATURES), weight, target[:10].reshape(2, 5))
    torch.testing.assert_close(parts, expected[:10].reshape(2, 5))
    torch.testing.assert_close(loss_fn(hidden[0], weight, target[0]), expected[0])
    with torch.no_grad():
        torch.testing.assert_close(loss_fn(hidden, weight, target), expected)
    (alone,) = torch.autograd.grad(loss_fn(hidden.detach(), weight, target).sum(), weight)
    torch.testing.assert_close(alone, torch.autograd.grad(expected.sum(), weight)[0])


def test_all_tokens_ignored_or_none():
    hidden, weight, bias, target = problem()
    loss = direct(metrics()["line"], hidden, weight, bias, target.fill_(-100))
    assert loss.isnan()
    assert all((g == 0).all() for g in torch.autograd.grad(loss, [hidden, weight, bias]))
    none = direct(metrics()["line"], hidden[:0], weight, bias, target[:0], reduction="sum")
    assert none == 0
    assert all((g == 0).all() for g in torch.autograd.grad(none, [weight, bias]))


def test_ignored_tokens_may_be_anything():
    given, metric = problem(), metrics()["line"]
    expected = direct(metric, *given)
    with torch.no_grad():
        given[0][4] = float("nan")
    torch.testing.assert_close(direct(metric, *given), expected)
    assert direct(metric, *given[:3], torch.zeros_like(given[3])).isnan()


def test_a_graph_can_be_passed_twice():
    given, metric = problem(), metrics()["line"]
    loss = direct(metric, *given)
    first = torch.autograd.grad(2 * loss, given[:3], retain_graph=True)
    kept = [x.clone() for x in first]
    again = torch.autograd.grad(2 * loss, given[:3], retain_graph=True)
    torch.testing.assert_close(again, tuple(kept))
    torch.testing.assert_close(first, tuple(kept))
    loss.backward()
    loss = direct(metric, *given)
    loss.backward()
    torch.testing.assert_close(given[1].grad, kept[1])
    slope = torch.autograd.grad(direct(metric, *given), given[0], create_graph=True)[0].sum()
    with pytest.raises(RuntimeError, match="differentiable once"):
        slope.backward()


@pytest.mark.parametrize("reduction", ["mean", "none"])
def test_checkpointing(reduction):
    given = problem()
    loss_fn = wl.LinearWassersteinLoss(metrics()["line"], reduction=reduction)

    def head(hidden, weight, bias):
        return loss_fn(hidden.tanh(), weight, given[3], bias)

    expected = with_gradients(head(*given[:3]), given[:3])
    for reentrant in (False, True):
        value = checkpoint(head, *given[:3], use_reentrant=reentrant)
        weights = torch.linspace(1, 2, value.numel(), dtype=F64)
        for x in given[:3]:
            x.grad = None
        (value * weights).sum().backward()
        torch.testing.assert_close([value.detach(), *[x.grad for x in given[:3]]], expected)


# torch.compile reads the gradients of the inputs after a graph break.
@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf")
@pytest.mark.parametrize("reduction", ["mean", "none"])
def test_compiled(reduction):
    torch.compiler.reset()
    given = problem()
    loss_fn = wl.LinearWassersteinLoss(metrics()["subset"], reduction=reduction)

    def step(hidden, weight, bias, target):
        return loss_fn(2 * hidden, weight, target, bias)

    compiled = torch.compile(step, backend="aot_eager")
    found = with_gradients(compiled(*given), given[:3])
    torch.testing.assert_close(found, with_gradients(step(*given), given[:3]))
    loss_fn.kl_weight = 0.1  # differs from that in the graph
    torch.testing.assert_close(compiled(*given), step(*given))
    with pytest.raises(ValueError, match=r"target must hold class ids in 0\.\.36"):
        compiled(*given[:3], given[3] + 30)


def test_autocast():
    given = problem(F32)
    loss_fn = wl.LinearWassersteinLoss(metrics()["line"])
    with torch.autocast("cpu", torch.bfloat16):
        found = with_gradients(loss_fn(given[0], given[1], given[3], given[2]), given[:3])
        expected = with_gradients(composed(metrics()["line"], *given), given[:3])
    assert [x.dtype for x in found] == 4 * [F32]
    torch.testing.assert_close(found, expected, rtol=2e-2, atol=2e-2)


def test_copies_and_changes_are_their_own():
    given, loss_fn = problem(), wl.LinearWassersteinLoss(metrics()["line"])
    arguments = given[0], given[1], given[3], given[2]
    expected = loss_fn(*arguments)
    other = copy.deepcopy(loss_fn)
    other.kl_weight = 2.0
    torch.testing.assert_close(loss_fn(*arguments), expected)
    assert other(*arguments) > expected
    again = copy.deepcopy(other)
    del other
    gc.collect()
    assert again(*arguments) > expected
    assert "kl_weight=2" in repr(again)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({0: torch.zeros(TOKENS, 5, dtype=F64)}, ValueError, r"weight must have shape \(37, 5\)"),
        ({0: torch.tensor(1.0, dtype=F64)}, ValueError, r"weight must have shape \(37, 0\)"),
        ({0: [1.0]}, TypeError, "hidden must be a floating tensor, got list"),
        ({1: torch.zeros(36, 6, dtype=F64)}, ValueError, r"weight must have shape \(37, 6\)"),
        ({1: torch.zeros(37, 6)}, ValueError, "weight must have the dtype of hidden"),
        ({2: torch.zeros(TOKENS, dtype=F64)}, TypeError, "target must be integer class ids"),
        ({2: torch.zeros(5, dtype=torch.long)}, ValueError, r"target must be class ids of shape"),
        ({2: torch.full((TOKENS,), 37)}, ValueError, "target must hold class ids in 0..36"),
        ({3: torch.zeros(5, dtype=F64)}, ValueError, r"bias must have shape \(37,\)"),
        ({3: torch.zeros(37, dtype=torch.long)}, TypeError, "bias must be a floating tensor"),
    ],
)
def test_wrong_input(change, error, message):
    hidden, weight, bias, target = problem()
    arguments = [change.get(i, x) for i, x in enumerate((hidden, weight, target, bias))]
    with pytest.raises(error, match=message):
        wl.LinearWassersteinLoss(metrics()["line"])(*arguments)


def test_wrong_settings():
    for softcap in (0.0, -1.0, float("inf")):
        with pytest.raises(ValueError, match="softcap must be None or a positive number, got"):
            wl.LinearWassersteinLoss(metrics()["line"], softcap=softcap)
    with pytest.raises(ValueError, match="chunk_bytes must be at least 1, got 0"):
        wl.LinearWassersteinLoss(metrics()["line"], chunk_bytes=0)
    learned = wl.ground.Ordinal(torch.arange(3.0).requires_grad_())
    with pytest.raises(ValueError, match="metric must not require grad"):
        wl.LinearWassersteinLoss(learned)


def test_two_processes_with_a_part_of_the_weight_each():
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    run = subprocess.run(
        [*command, "-m", "tests.language.sharded_run"],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert run.returncode == 0, run.stderr


def test_the_gradient_of_a_mean_fits_half_precision_where_that_of_the_sum_does_not() -> None:
    hidden = torch.full((4096, 3), 100.0, dtype=torch.float16)
    weight = torch.zeros(5, 3, dtype=torch.float16, requires_grad=True)
    loss_fn = wl.LinearWassersteinLoss(wl.ground.Ordinal(5))
    loss_fn(hidden, weight, torch.zeros(4096, dtype=torch.long)).backward()
    expected = torch.tensor([-60.0, 0.0, 10.0, 20.0, 30.0])
    torch.testing.assert_close(weight.grad[:, 0].float(), expected, rtol=1e-2, atol=1e-2)


def test_only_a_bias_may_be_left_out() -> None:
    loss_fn = wl.LinearWassersteinLoss(wl.ground.Ordinal(5))
    with pytest.raises(TypeError, match="weight must be a floating tensor, got NoneType"):
        loss_fn(torch.zeros(2, 3), None, torch.zeros(2, dtype=torch.long))
