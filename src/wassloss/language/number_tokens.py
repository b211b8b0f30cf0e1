"""Numbers as numbers in language models: cross-entropy plus transport over the number tokens."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from wassloss import _checks
from wassloss._checks import at_least_single, wide_dtype
from wassloss.ground import GroundMetric, Ordinal
from wassloss.kernels import launch
from wassloss.language.vocabulary import Tokenizer, number_tokens, places, read_vocabulary
from wassloss.losses.autograd import check_reverse_mode
from wassloss.losses.functional import PerExample
from wassloss.losses.inputs import check_class_ids
from wassloss.losses.modules import LARGEST_TABLE, REDUCTIONS, MetricModule
from wassloss.losses.spec import check_ignore_index
from wassloss.targets import read_target
from wassloss.transport.dispatch import largest_block

TERMS = ("wasserstein", "squared_error")
PLACES = ("absolute", "relative")
LARGEST_POWER = 30  # of ten by which a place counts; single precision ends at 38
IN_CACHE = 2**18  # logits that a CPU turns into their gradient before it reads on


class NumberTokenLoss(MetricModule):
    r"""Cross-entropy, plus how far off a number is where the true token is one.

    Cross-entropy charges a 7 for an 8 as much as a "banana". Where the label is a number token of
    value :math:`v`, this loss adds `number_weight` times the Wasserstein distance to it from the
    prediction over the number tokens: for one true label, the expected cost

    .. math:: \sum_{j \in \text{numbers}} q_j\, d(v_j, v),
              \qquad q = \text{softmax of the numbers' logits.}

    Of Zausinger et al. (2025), "Regress, don't guess"; see :meth:`as_in_paper`. All other labels
    have cross-entropy alone.

    Args:
        tokenizer: anything with `get_vocab()`, a mapping from tokens to ids, or values
            `(vocabulary,)`, NaN for words. Digits, longer numbers, signs and decimals count, also
            after a space as GPT-2 (`Ġ`) and SentencePiece (`▁`) write it, and as byte fallbacks.
        number_weight: of the second term.
        metric: from values `(numbers,)` to a ground metric, such as
            ``lambda v: Ordinal(v.sign() * v.abs().log1p())`` for relative differences.
        places: None counts every token as it stands. ``"absolute"`` multiplies its cost by what it
            counts in its number, 100 for the first digit of 314; ``"relative"`` divides that by
            the place of the number's first digit: 1, 0.1 and 0.01. Digits that follow one another
            along the last dimension of the target are one number.
        term: ``"wasserstein"``, or ``"squared_error"`` of the mean value,
            :math:`(\sum_j q_j v_j - v)^2`.
        word_cost: None renormalises over the numbers, as above. Otherwise mass on words travels as
            well, at this many times the largest cost.
        largest_cost: a bound on costs, which only vocabularies with odd numbers exceed.
        own_units: measure costs as `metric` does, not in units of its median: of digits, 3.
        mean_over_numbers: let ``reduction="mean"`` divide the second term by the number of labels
            that are numbers instead of all that count.
        ignore_index: the label of tokens that do not count.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.

    Shapes:
        - logits: `(…, vocabulary)`, or `(batch, vocabulary, …)` as in `CrossEntropyLoss`; they may
          have more columns than the tokenizer has tokens.
        - target: token ids, the logits' shape without the vocabulary. They are not shifted.
        - output: a scalar, or the target's shape if `reduction="none"`.

    Attributes:
        ids: which tokens are numbers, `(numbers,)`.
        values: their values, `(numbers,)`.

    >>> import torch, wassloss as wl
    >>> vocabulary = {"banana": 0, **{str(digit): 1 + digit for digit in range(10)}}
    >>> loss_fn = wl.NumberTokenLoss(vocabulary, reduction="none")
    >>> logits = torch.zeros(2, 11).index_fill(1, torch.tensor([1 + 7]), 9.0)  # sure of a 7
    >>> loss_fn(logits, torch.tensor([1 + 8, 1 + 0]))  # cross-entropy is 9.0012 for both
    tensor([ 9.3357, 11.3335])
    """

    _FOLLOWING = ("metric", "values")
    ids: Tensor
    _number: Tensor
    _written: Tensor | None

    def __init__(
        self,
        tokenizer: Tokenizer | Tensor,
        *,
        number_weight: float = 1.0,
        metric: Callable[[Tensor], GroundMetric] = Ordinal,
        places: str | None = None,
        term: str = "wasserstein",
        word_cost: float | None = None,
        largest_cost: float = 10.0,
        own_units: bool = False,
        mean_over_numbers: bool = False,
        ignore_index: int = -100,
        reduction: str = "mean",
    ) -> None:
        super().__init__()
        found = number_tokens(tokenizer)
        self.number_weight = _checks.check_strength("number_weight", number_weight)
        _checks.check_choice("term", term, TERMS)
        _checks.check_choice("reduction", reduction, REDUCTIONS)
        if places is not None:
            _checks.check_choice("places", places, PLACES)
            if found.written is None:
                raise ValueError("places need a tokenizer, whose tokens have digits; got values")
        largest_cost = _checks.check_number("largest_cost", largest_cost)
        if not largest_cost > 0:
            raise ValueError(f"largest_cost must be positive, got {largest_cost:g}")
        if term == "squared_error" and metric is not Ordinal:
            raise ValueError("metric must be left out with term='squared_error', which has its own")
        costs = metric(found.values)
        if not isinstance(costs, GroundMetric) or costs.size != len(found.values):
            raise ValueError(
                f"metric must return a ground metric of the {len(found.values)} numbers it is "
                f"given, got {costs!r}"
            )
        if not _checks.check_flag("own_units", own_units):
            costs = costs.in_medians()
        self.metric = costs.tabulated() if costs.size <= LARGEST_TABLE else costs
        self.places, self.term, self.reduction = places, term, reduction
        self.word_cost = (
            word_cost if word_cost is None else _checks.check_strength("word_cost", word_cost)
        )
        self.largest_cost = min(largest_cost, self.metric.max_cost())
        self.mean_over_numbers = _checks.check_flag("mean_over_numbers", mean_over_numbers)
        self.ignore_index, self.values = check_ignore_index(ignore_index), found.values
        number = found.ids.new_full((int(found.ids[-1]) + 2,), -1)  # which one each token is
        number[found.ids] = torch.arange(len(found.ids), device=found.ids.device)
        written = found.written if places else None
        for name, table in {"ids": found.ids, "_number": number, "_written": written}.items():
            self.register_buffer(name, table, persistent=False)

    @classmethod
    def as_in_paper(
        cls, tokenizer: Tokenizer | Tensor, *, number_weight: float = 0.3, **keywords: Any
    ) -> NumberTokenLoss:
        """As in the paper: the digits 0 to 9 as they stand, in their own units.

        `term="squared_error"` is its NTL-MSE. `word_cost=1.01` is what the authors' package
        `ntloss` adds by default (`reweigh`).

        >>> import wassloss as wl
        >>> wl.NumberTokenLoss.as_in_paper({str(digit): digit for digit in range(10)}).metric
        Ordinal(10)
        """
        if not isinstance(tokenizer, Tensor):
            digits = {d for n in range(10) for d in (str(n), str(n).encode())}
            tokenizer = {t: i for t, i in read_vocabulary(tokenizer).items() if t in digits}
        paper = {"own_units": True, "largest_cost": math.inf, "mean_over_numbers": True}
        return cls(tokenizer, number_weight=number_weight, **{**paper, **keywords})

    def forward(self, logits: Tensor, target: Tensor) -> Tensor:
        return self._per_token(logits, target).reduced(self.reduction)

    def extra_repr(self) -> str:
        shown = {"places": self.places, "word_cost": self.word_cost}
        extra = "".join(f", {name}={value!r}" for name, value in shown.items() if value is not None)
        return (
            f"{self.metric!r}, number_weight={self.number_weight:g}, term={self.term!r}, "
            f"reduction={self.reduction!r}{extra}"
        )

    def _per_token(self, logits: Tensor, target: Tensor) -> PerExample:
        rows, shape = self._shaped(logits, target)
        read, counts = read_target(target, rows.shape[1], shape, rows, self.ignore_index)
        labels = read.indices.squeeze(1)
        number = self._number[labels.clamp(max=len(self._number) - 1)]  # -1 for words
        if counts is not None:
            number = number.masked_fill(~counts, -1)
        scale = self._scale(target, number, len(rows) if counts is None else counts.sum())
        traced = not (_checks.can_read_values() and _checks.has_memory(rows))
        compute = _composed if traced else _with_gradient
        value, slope = compute(self, rows, _Labels(labels, number, scale, counts))
        valid = read.weights.squeeze(1).to(value.dtype)  # 1, or NaN for a label out of range
        return PerExample(value * valid, shape, counts, slope)

    def _shaped(self, logits: Tensor, target: Tensor) -> tuple[Tensor, torch.Size]:
        """Logits as `(labels, vocabulary)`, and the target's shape."""
        check_class_ids(target)
        shape = tuple(logits.shape) if isinstance(logits, Tensor) else ()
        label_dim = -1 if shape[:-1] == target.shape else 1
        if label_dim == 1 and (shape[:1] + shape[2:] != target.shape or len(shape) < 2):
            raise ValueError(
                "logits must have the target's shape and a dimension for the vocabulary, last or "
                f"second, got {shape or type(logits).__name__} for {tuple(target.shape)}"
            )
        columns = shape[label_dim] if shape else 0
        _checks.check_prediction("logits", logits, columns, self.metric.device, label_dim)
        if columns < len(self._number) - 1:
            raise ValueError(
                f"logits must have a column for every number token, {len(self._number) - 1} or "
                f"more, got shape {shape}"
            )
        moved = logits.movedim(label_dim, -1)
        return moved.reshape(-1, columns), moved.shape[:-1]

    def _scale(self, target: Tensor, number: Tensor, counted: Tensor | int) -> Tensor:
        """What the second term of each label is multiplied by, `(labels,)`."""
        is_number = number >= 0
        scale = self.number_weight * is_number.to(self.values.dtype)
        if self._written is not None:
            place, first = places(target, self._written)
            power = place if self.places == "absolute" else place - first
            power = (power if self.term == "wasserstein" else 2 * power).clamp(max=LARGEST_POWER)
            scale = scale * torch.where(is_number, 10.0**power, 0.0)
        if self.mean_over_numbers and self.reduction == "mean":
            scale = scale * (counted / is_number.sum().clamp(min=1))
        return scale

    def _term(self, log_h: Tensor, number: Tensor) -> Tensor:
        """The second term, `(labels,)`, of log-probabilities `(labels, numbers)`."""
        dtype, largest = log_h.dtype, self.largest_cost
        log_mass = log_h.logsumexp(1)
        share = (log_h - log_mass.unsqueeze(1)).exp()
        if self.term == "squared_error":
            values = self.values.to(dtype) / self.metric.scale
            mean = (share * values).sum(1)  # no product, which autocast would round
            value = (mean - values[number]).square()
            largest = float(values.amax() - values.amin()) ** 2 if self.word_cost else largest
        else:
            costs = self.metric.unchecked_cost_columns(number).to(dtype)
            value = (share * costs.clamp(max=largest)).sum(1)
        if self.word_cost is None:
            return value
        mass = log_mass.exp()
        return mass * value + (1 - mass) * (self.word_cost * largest)


class _Labels(NamedTuple):
    """What the loss needs of each label."""

    ids: Tensor  # (labels,), any token where the label does not count
    number: Tensor  # which of the numbers it is, -1 for words
    scale: Tensor  # of the second term; 0 for words
    counts: Tensor | None  # which labels count; None where all do


def _composed(loss: NumberTokenLoss, rows: Tensor, given: _Labels) -> tuple[Tensor, None]:
    """Both terms in torch's own operations, for every label: while tracing, and as an oracle."""
    labels, number, scale, counts = given
    if counts is not None:  # whatever an ignored token predicts, NaN included, has no effect
        rows = rows.masked_fill(~counts.unsqueeze(1), 0.0)
    log_h = at_least_single(rows).log_softmax(1)
    value = -log_h.gather(1, labels.unsqueeze(1)).squeeze(1)
    value = value if counts is None else torch.where(counts, value, 0.0)
    term = loss._term(log_h[:, loss.ids], number.clamp(min=0))
    return value + scale.to(value.dtype) * term, None


def _with_gradient(
    loss: NumberTokenLoss, rows: Tensor, given: _Labels
) -> tuple[Tensor, tuple[Tensor, Tensor] | None]:
    """The same with its gradient in the logits, in their precision.

    The second term is computed for labels that are numbers, from the columns of numbers alone.
    """
    labels, number, scale, counts = given
    needs_gradient = torch.is_grad_enabled() and rows.requires_grad
    x, which = rows.detach(), (number >= 0).nonzero().squeeze(1)  # (n,)
    compiled = launch.triton_available(x.device) and x.dtype != torch.float64
    cross_entropy = _cross_entropy_on_gpu if compiled else _cross_entropy
    value, gradient, log_h = cross_entropy(x, labels, which, loss.ids, needs_gradient)
    with torch.set_grad_enabled(needs_gradient):
        log_h.requires_grad_(needs_gradient)
        term = scale[which].to(value.dtype) * loss._term(log_h, number[which])
    value[which] += term.detach()
    if counts is not None:
        value = torch.where(counts, value, 0.0)
    if gradient is None:
        return value, None
    check_reverse_mode(rows)
    (slope,) = torch.autograd.grad(term.sum(), log_h)
    share = log_h.detach().exp()
    if loss.word_cost is not None:  # else the term does not depend on the mass of words
        less = 1 - slope.sum(1, keepdim=True)
        gradient[which] *= less
        share *= less
    share.scatter_add_(1, number[which, None], -torch.ones_like(share[:, :1]))
    gradient[which.unsqueeze(1), loss.ids] = (share + slope).to(x.dtype)
    if counts is not None:
        gradient.masked_fill_(~counts.unsqueeze(1), 0.0)
    return value, (rows, gradient)


def _cross_entropy(
    x: Tensor, labels: Tensor, which: Tensor, ids: Tensor, needs_gradient: bool
) -> tuple[Tensor, Tensor | None, Tensor]:
    """Cross-entropy of each row of logits, its gradient, and `log_softmax(x)[which][:, ids]`.

    A few rows at a time, so that they stay in a CPU's cache from the first operation to the last.
    """
    value = x.new_empty(len(x), dtype=wide_dtype(x.dtype))
    gradient = torch.empty_like(x) if needs_gradient else None
    size = max(1, (largest_block(x.device) if x.is_cuda else IN_CACHE) // x.shape[1])
    starts, label = range(0, max(1, len(x)), size), labels.unsqueeze(1)
    chosen = which.split(torch.bincount(which // size, minlength=len(starts)).tolist())
    blocks = []
    for start, own in zip(starts, chosen, strict=True):
        part = slice(start, start + size)
        log_h = at_least_single(x[part]).log_softmax(1)
        value[part] = -log_h.gather(1, label[part]).squeeze(1)
        blocks.append(log_h[(own - start).unsqueeze(1), ids])
        if gradient is not None:
            one = torch.ones_like(log_h[:, :1])
            gradient[part] = log_h.exp_().scatter_add_(1, label[part], -one)
    return value, gradient, torch.cat(blocks)


def _cross_entropy_on_gpu(
    x: Tensor, labels: Tensor, which: Tensor, ids: Tensor, needs_gradient: bool
) -> tuple[Tensor, Tensor | None, Tensor]:
    """The same in one kernel."""
    from wassloss.kernels.triton.cross_entropy import LARGEST_TILE, cross_entropy_kernel

    x, (tokens, words) = x.contiguous(), x.shape
    value, largest, log_rest = x.new_empty(3, tokens, dtype=torch.float32)
    gradient = torch.empty_like(x) if needs_gradient else None
    if tokens:
        with torch.cuda.device_of(x):
            cross_entropy_kernel[(tokens,)](
                *(x, labels, value, largest, log_rest, x if gradient is None else gradient, words),
                TILE=min(LARGEST_TILE, 1 << (words - 1).bit_length()),
                GRADIENT=needs_gradient,
                num_warps=8,
            )
    log_h = x[which.unsqueeze(1), ids].float() - largest[which].unsqueeze(1)
    log_h -= log_rest[which].unsqueeze(1)
    return value, gradient, log_h
