"""Cross-entropy plus transport over number tokens: laws, the paper's package, gradients."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import wassloss as wl
from wassloss import _memory
from wassloss.language import number_tokens

F64 = torch.float64
VOCABULARY = {
    "banana": 0,
    **{str(d): 2 + d for d in range(10)},
    "Ġ7": 13,
    "42": 15,
    ".": 16,
    "x": 17,
}
K = 19  # with columns for tokens that the tokenizer lacks
DIGITS = {token: index for token, index in VOCABULARY.items() if token in set("0123456789")}


def _batch(seed: int = 0, shape: tuple[int, ...] = (3, 8)) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(*shape, K, generator=generator, dtype=F64)
    return logits, torch.randint(K, shape, generator=generator)


def _plain(loss_fn: wl.NumberTokenLoss, logits: Tensor, target: Tensor) -> Tensor:
    """The definition, token by token."""
    ids, values = loss_fn.ids.tolist(), loss_fn.values
    found = []
    for row, label in zip(logits.reshape(-1, K), target.flatten().tolist(), strict=True):
        loss = -row.log_softmax(0)[label] if label >= 0 else row.sum() * 0
        if label in ids:
            h = row.softmax(0)[ids]
            d = (values - values[ids.index(label)]).abs().to(row.dtype) / loss_fn.metric.scale
            d = d.clamp(max=number_tokens.LARGEST_COST)
            loss = loss + loss_fn.number_weight * ((h / h.sum()) * d).sum()
        found.append(loss)
    return torch.stack(found).reshape(target.shape)


@pytest.mark.parametrize("ignored", [False, True])
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_it_is_its_definition(reduction: str, ignored: bool) -> None:
    logits, target = _batch()
    if ignored:
        target[0, :3] = -100
    loss_fn = wl.NumberTokenLoss(VOCABULARY, reduction=reduction)
    expected = _plain(loss_fn, logits, target)
    counted = (target != -100).sum()
    reduced = {"mean": expected.sum() / counted, "sum": expected.sum(), "none": expected}[reduction]
    torch.testing.assert_close(loss_fn(logits, target), reduced)
    torch.testing.assert_close(loss_fn(logits.movedim(-1, 1), target), reduced)
    flat = loss_fn(logits.reshape(-1, K), target.flatten())
    torch.testing.assert_close(flat, reduced.flatten() if reduction == "none" else reduced)


def test_it_is_the_transport_of_the_number_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    """For one true label the Wasserstein distance is the expected cost."""
    monkeypatch.setattr(number_tokens, "LARGEST_COST", math.inf)
    loss_fn = wl.NumberTokenLoss(VOCABULARY, number_weight=2.0, reduction="none")
    logits, _ = _batch(shape=(len(loss_fn.ids),))
    target = loss_fn.ids
    w = wl.wasserstein(
        logits[:, loss_fn.ids].softmax(1), torch.arange(len(target)), loss_fn.metric.to(dtype=F64)
    )
    cross_entropy = nn.functional.cross_entropy(logits, target, reduction="none")
    torch.testing.assert_close(loss_fn(logits, target), cross_entropy + 2 * w)


OPTIONS: list[dict[str, Any]] = [{}, {"number_weight": 3.0}]


@pytest.mark.parametrize("options", [*OPTIONS, {"reduction": "sum"}, {"reduction": "none"}])
def test_gradients_are_those_of_finite_differences(options: Any) -> None:
    logits, target = _batch(seed=1, shape=(2, 4))
    target[0] = torch.tensor([5, 3, 16, 4])  # 31.2
    target[1, 0] = -100
    loss_fn = wl.NumberTokenLoss(VOCABULARY, **options)
    assert torch.autograd.gradcheck(lambda x: loss_fn(x, target), logits.requires_grad_())


@pytest.mark.parametrize("options", OPTIONS)
def test_the_composed_path_is_the_same(options: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    logits, target = _batch(seed=2)
    logits[0, 1] = math.nan  # ignored
    target[0, 1] = -100
    loss_fn = wl.NumberTokenLoss(VOCABULARY, **options)
    found = []
    for path in (number_tokens._with_gradient, number_tokens._composed):
        monkeypatch.setattr(number_tokens, "_with_gradient", path)
        x = logits.clone().requires_grad_()
        value = loss_fn(x, target)
        value.backward()
        found.append((value.detach(), x.grad))
    torch.testing.assert_close(found[0], found[1], rtol=1e-9, atol=1e-12)
    assert bool(found[0][1].isfinite().all())


def test_without_numbers_it_is_cross_entropy() -> None:
    logits, _ = _batch()
    target = torch.tensor([0, 1, 17, 18, -100, 12, 14, 16]).repeat(3, 1)
    expected, ours = logits.clone().requires_grad_(), logits.clone().requires_grad_()
    nn.functional.cross_entropy(expected.movedim(-1, 1), target).backward()
    loss = wl.NumberTokenLoss(VOCABULARY)(ours, target)
    loss.backward()
    torch.testing.assert_close(ours.grad, expected.grad)
    every = torch.full((3, 8), -100)
    nothing = wl.NumberTokenLoss(VOCABULARY)(ours, every)
    assert nothing.isnan()  # as CrossEntropyLoss, but without its gradient of NaN
    ours.grad = None
    nothing.backward()
    assert not ours.grad.any()


def test_words_and_numbers_that_are_ruled_out() -> None:
    logits, target = _batch()
    logits[..., 3] = logits[..., 17] = -math.inf
    target = target.masked_fill((target == 3) | (target == 17), 5).index_fill(1, torch.tensor(0), 4)
    loss_fn = wl.NumberTokenLoss(VOCABULARY, reduction="none")
    x = logits.clone().requires_grad_()
    loss = loss_fn(x, target)
    torch.testing.assert_close(loss.detach(), _plain(loss_fn, logits, target))
    loss.sum().backward()
    assert bool(x.grad.isfinite().all())
    assert loss_fn(logits, target.masked_fill(target == 4, 3))[0, 0] == math.inf


def test_in_pieces_it_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    logits, target = _batch(shape=(50,))
    loss_fn = wl.NumberTokenLoss(VOCABULARY)
    x, y = logits.clone().requires_grad_(), logits.clone().requires_grad_()
    loss_fn(x, target).backward()
    monkeypatch.setattr(_memory, "LARGEST_IN_CACHE", 3 * K)
    loss_fn(y, target).backward()
    torch.testing.assert_close(x.grad, y.grad)
    with torch.no_grad():
        torch.testing.assert_close(loss_fn(y, target), loss_fn(x, target))
    assert loss_fn(logits[:0], target[:0]).isnan()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_is_summed_in_single(dtype: torch.dtype) -> None:
    logits, target = _batch()
    x = logits.to(dtype).requires_grad_()
    wide = x.detach().float().requires_grad_()
    loss_fn = wl.NumberTokenLoss(VOCABULARY)
    loss = loss_fn(x, target)
    loss.backward()
    expected = loss_fn(wide, target)
    expected.backward()
    assert loss.dtype == torch.float32
    assert loss == expected
    assert x.grad.dtype == dtype
    rounding = torch.finfo(dtype).eps
    torch.testing.assert_close(x.grad.float(), wide.grad, rtol=2 * rounding, atol=rounding / 50)


def test_digits_count_in_their_place() -> None:
    """The loss depends on the value of a number: 214 for 314 costs 100, 315 for 314 costs 1."""
    digits = {str(d): d for d in range(10)}
    target = torch.tensor([3, 1, 4])

    def charged(said: tuple[int, ...], **options: Any) -> float:
        loss_fn = wl.NumberTokenLoss(digits, number_weight=3.0, reduction="sum", **options)
        logits = torch.full((3, 10), -1e4, dtype=F64)
        logits[torch.arange(3), torch.tensor(said)] = 0.0
        return float(loss_fn(logits, target) - nn.functional.cross_entropy(
            logits, target, reduction="sum"))  # fmt: skip

    assert charged((2, 1, 4)) == charged((3, 1, 5)) == pytest.approx(1)  # the median of digits is 3
    assert charged((2, 1, 4), places="absolute") == pytest.approx(100)
    assert charged((3, 1, 7), places="absolute") == pytest.approx(3)
    assert charged((2, 3, 4), places="relative") == pytest.approx(1.2)
    many = wl.NumberTokenLoss(digits, places="absolute")
    assert many(torch.randn(1, 45, 10), torch.ones(1, 45, dtype=torch.long)).isfinite()
    with pytest.raises(ValueError, match="places needs a tokenizer"):
        wl.NumberTokenLoss(torch.arange(3.0), places="relative")
    with pytest.raises(ValueError, match="places must be 'absolute' or 'relative', got 'tens'"):
        wl.NumberTokenLoss(digits, places="tens")


def test_odd_numbers_of_a_vocabulary_do_not_drown_the_rest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    vocabulary = {**{str(n): n for n in range(100)}, "1000000000": 100}
    logits, target = torch.zeros(1, 101), torch.tensor([50])
    assert wl.NumberTokenLoss(vocabulary)(logits, target) < 8
    monkeypatch.setattr(number_tokens, "LARGEST_COST", math.inf)
    assert wl.NumberTokenLoss(vocabulary)(logits, target) > 1e5


def test_it_compiles_and_follows_its_module() -> None:
    logits, target = _batch()
    target[0, 0] = -100
    loss_fn = wl.NumberTokenLoss(VOCABULARY, places="relative")
    x, y = logits.clone().requires_grad_(), logits.clone().requires_grad_()
    compiled = torch.compile(loss_fn, backend="aot_eager", fullgraph=True)
    torch.testing.assert_close(compiled(x, target), loss_fn(y, target))
    loss_fn(y, target).backward()
    compiled(x, target).backward()
    torch.testing.assert_close(x.grad, y.grad)
    expected = loss_fn(logits, target)
    assert loss_fn.bfloat16()(logits, target) == expected  # numbers keep their precision
    assert not loss_fn.state_dict()
    torch.func.grad(lambda z: wl.NumberTokenLoss(VOCABULARY)(z, target))(logits)


class Tokenizer(dict[str, int]):
    """The methods of a tokenizer that `ntloss` uses."""

    def get_vocab(self) -> dict[str, int]:
        return dict(self)

    def add_tokens(self, tokens: list[str]) -> int:
        return sum(token not in self for token in tokens)


@pytest.mark.parametrize("reduction", ["sum", "none"])  # their mean is over numbers alone
@pytest.mark.parametrize("digits", [True, False])
def test_it_is_the_loss_of_the_paper_s_package(
    reduction: str, digits: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    ntloss = pytest.importorskip("ntloss")
    monkeypatch.setattr(number_tokens, "LARGEST_COST", math.inf)
    logits, target = _batch(seed=3)
    target[1, 2:5] = -100
    tokenizer = Tokenizer(VOCABULARY)
    theirs = ntloss.NTLoss(tokenizer, vocab_size=K, digit_level=digits, reweigh=False)
    x, y = logits.clone().requires_grad_(), logits.clone().requires_grad_()
    ignoring = nn.functional.cross_entropy(x.movedim(-1, 1), target, reduction=reduction)
    expected = ignoring + 0.3 * theirs(x, target, reduction=reduction)
    # Theirs does not recognise numbers after a space, so pass their values.
    numbers = DIGITS if digits else theirs.number_values
    weight = 0.3 * wl.NumberTokenLoss(numbers).metric.scale
    loss_fn = wl.NumberTokenLoss(numbers, number_weight=weight, reduction=reduction)
    found = loss_fn(y, target)
    torch.testing.assert_close(found, expected)
    expected.sum().backward()
    found.sum().backward()
    torch.testing.assert_close(y.grad, x.grad)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"number_weight": -1.0}, "number_weight must be a finite number, at least 0, got -1"),
        ({"reduction": "max"}, "reduction must be"),
        ({"ignore_index": 2**70}, "ignore_index must be an int64"),
    ],
)
def test_refused_options(options: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        wl.NumberTokenLoss(DIGITS, **options)


def test_refused_inputs() -> None:
    loss_fn = wl.NumberTokenLoss(VOCABULARY)
    logits, target = _batch()
    with pytest.raises(TypeError, match=r"target must be integer class ids, got torch.float64"):
        loss_fn(logits, logits)
    with pytest.raises(ValueError, match="logits must have the target's shape and a dimension"):
        loss_fn(logits, target[:, :-1])
    with pytest.raises(ValueError, match="logits must have a column for every number token, 16"):
        loss_fn(logits[..., :12], target)
    with pytest.raises(ValueError, match=r"target must hold class ids in 0\.\.18"):
        loss_fn(logits, target.masked_fill(target > 3, K))


def test_autocast_does_not_round_the_term() -> None:
    loss_fn = wl.NumberTokenLoss(torch.arange(1000.0))
    logits, target = torch.randn(5, 1000), torch.arange(5)
    expected = loss_fn(logits, target)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert loss_fn(logits, target) == expected
