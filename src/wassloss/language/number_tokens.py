"""Cross-entropy plus transport over the number tokens of a language model."""

from __future__ import annotations

import torch
from torch import Tensor

from wassloss import _checks
from wassloss._checks import at_least_single, wide_dtype
from wassloss._memory import largest_reread
from wassloss.ground import Ordinal
from wassloss.kernels import launch
from wassloss.language.vocabulary import Tokenizer, number_tokens, places
from wassloss.losses.autograd import check_reverse_mode
from wassloss.losses.inputs import check_class_ids
from wassloss.losses.modules import LARGEST_TABLE, MetricModule
from wassloss.losses.reduce import REDUCTIONS, PerExample
from wassloss.losses.spec import check_ignore_index
from wassloss.targets import read_target

LARGEST_COST = 10.0  # in medians: a trace of mass on a rare 10000000 must not outweigh the rest
PLACES = ("absolute", "relative")
LARGEST_POWER = 30  # of ten in the value of a place; single precision ends at 38


class NumberTokenLoss(MetricModule):
    r"""Cross-entropy, plus the expected error of the value where the true token is a number.

    For cross-entropy, predicting 7 for 8 is as wrong as predicting "banana". Where the label is a
    number token of value :math:`v`, this loss adds `number_weight` times the Wasserstein distance
    to it from the prediction over the number tokens: for one true label, the expected cost

    .. math:: \sum_{j \in \text{numbers}} q_j\, d(v_j, v),
              \qquad q = \text{softmax of the numbers' logits.}

    Proposed by Zausinger et al. (2025), "Regress, don't guess". Costs are in units of their median,
    which is 3 for digits, and at most 10. All other labels get cross-entropy alone.

    Args:
        tokenizer: anything with `get_vocab()`, a mapping from tokens to ids, or values
            `(vocabulary,)`, NaN for words. Digits, longer numbers, signs and decimals count, also
            after a space as GPT-2 (`Ġ`) and SentencePiece (`▁`) write it, and as byte fallbacks.
        number_weight: weight of the second term.
        places: None ignores the place of a digit. ``"absolute"`` multiplies its cost by its place
            value in the number, 100 for the first digit of 314; ``"relative"`` divides that by the
            place value of the first digit: 1, 0.1 and 0.01. Consecutive digits along the last
            dimension of the target are one number.
        ignore_index: the label of tokens that do not count.
        reduction: ``"mean"`` over all labels that count, ``"sum"`` or ``"none"``.

    Shapes:
        - logits: `(…, vocabulary)`, or `(batch, vocabulary, …)` as in `CrossEntropyLoss`; they may
          have more columns than the tokenizer has tokens.
        - target: token ids, in the logits' shape without the vocabulary. The loss does not shift
          them.
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
        places: str | None = None,
        ignore_index: int = -100,
        reduction: str = "mean",
    ) -> None:
        super().__init__()
        ids, self.values, written = number_tokens(tokenizer)
        self.number_weight = _checks.check_strength("number_weight", number_weight)
        _checks.check_choice("reduction", reduction, REDUCTIONS)
        if places is not None:
            _checks.check_choice("places", places, PLACES)
            if written is None:
                raise ValueError("places needs a tokenizer, whose tokens have digits, got values")
        costs = Ordinal(self.values).in_medians()
        self.metric = costs.tabulated() if costs.size <= LARGEST_TABLE else costs
        self.reduction, self.ignore_index = reduction, check_ignore_index(ignore_index)
        self.places = places
        number = ids.new_full((int(ids[-1]) + 2,), -1)  # each token's position in `ids`
        number[ids] = torch.arange(len(ids), device=ids.device)
        self.register_buffer("ids", ids, persistent=False)
        self.register_buffer("_number", number, persistent=False)
        self.register_buffer("_written", written if places else None, persistent=False)

    def extra_repr(self) -> str:
        weight = f"number_weight={self.number_weight:g}"
        places = f", places={self.places!r}" if self.places else ""
        return f"{self.metric!r}, {weight}{places}, reduction={self.reduction!r}"

    def forward(self, logits: Tensor, target: Tensor) -> Tensor:
        rows, shape = self._shaped(logits, target)
        read, counts = read_target(target, rows.shape[1], shape, rows, self.ignore_index)
        labels = read.indices.squeeze(1)
        number = self._number[labels.clamp(max=len(self._number) - 1)]  # -1 for words
        if counts is not None:
            number = number.masked_fill(~counts, -1)
        traced = not (_checks.can_read_values() and _checks.has_memory(rows))
        if not _checks.is_traced():
            check_reverse_mode(rows)
        compute = _composed if traced else _with_gradient
        scale = self._scale(target, number)
        value, slope = compute(self, rows, labels, number, scale, counts)
        valid = read.weights.squeeze(1).to(value.dtype)  # 1, or NaN for a label out of range
        return PerExample(value * valid, shape, counts, slope).reduced(self.reduction)

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

    def _scale(self, target: Tensor, number: Tensor) -> Tensor:
        """The factor of each label's second term, `(labels,)`; 0 for words."""
        is_number = number >= 0
        scale = self.number_weight * is_number.to(self.values.dtype)
        if self._written is None:
            return scale
        place, first = places(target, self._written)
        power = (place if self.places == "absolute" else place - first).clamp(max=LARGEST_POWER)
        return scale * torch.where(
            is_number, torch.pow(10.0, power.to(wide_dtype(scale.dtype))), 0.0
        )

    def _term(self, log_h: Tensor, number: Tensor) -> tuple[Tensor, Tensor]:
        """The second term, `(labels,)`, and its slope in log-probabilities `(labels, numbers)`."""
        share = log_h.softmax(1)
        costs = self.metric.unchecked_cost_columns(number).to(log_h.dtype).clamp(max=LARGEST_COST)
        value = (share * costs).sum(1)  # not a matrix product, which autocast would round
        return value, share * (costs - value[:, None])


def _composed(
    loss: NumberTokenLoss,
    rows: Tensor,
    labels: Tensor,
    number: Tensor,
    scale: Tensor,
    counts: Tensor | None,
) -> tuple[Tensor, None]:
    """Both terms in torch operations, for every label: used while tracing, and as an oracle.

    `number (labels,)` is each label's position in `loss.ids`, -1 for words and ignored labels.
    """
    if counts is not None:  # whatever an ignored token predicts, NaN included, has no effect
        rows = rows.masked_fill(~counts.unsqueeze(1), 0.0)
    log_h = at_least_single(rows).log_softmax(1)
    value = -log_h.gather(1, labels.unsqueeze(1)).squeeze(1)
    value = value if counts is None else torch.where(counts, value, 0.0)
    term, _ = loss._term(log_h[:, loss.ids], number.clamp(min=0))
    return value + scale.to(value.dtype) * term, None


def _with_gradient(
    loss: NumberTokenLoss,
    rows: Tensor,
    labels: Tensor,
    number: Tensor,
    scale: Tensor,
    counts: Tensor | None,
) -> tuple[Tensor, tuple[Tensor, Tensor] | None]:
    """Both terms with the gradient in the logits, in the precision of the logits.

    The second term is computed only for labels that are numbers, from the columns of numbers.
    """
    needs_gradient = torch.is_grad_enabled() and rows.requires_grad
    x, which = rows.detach(), (number >= 0).nonzero().squeeze(1)  # (n,)
    compiled = launch.triton_available(x.device) and x.dtype != torch.float64
    cross_entropy = _cross_entropy_on_gpu if compiled else _cross_entropy
    value, gradient, log_h = cross_entropy(x, labels, which, loss.ids, needs_gradient)
    term, slope = loss._term(log_h, number[which])
    size = scale[which].to(value.dtype)
    value[which] += size * term
    if counts is not None:
        value = torch.where(counts, value, 0.0)
    if gradient is None:
        return value, None
    share = log_h.exp()
    share.scatter_add_(1, number[which, None], -torch.ones_like(share[:, :1]))
    # Only in the columns of numbers: the second term does not depend on the mass of words.
    gradient[which.unsqueeze(1), loss.ids] = (share + size[:, None] * slope).to(x.dtype)
    if counts is not None:
        gradient.masked_fill_(~counts.unsqueeze(1), 0.0)
    return value, (rows, gradient)


def _cross_entropy(
    x: Tensor, labels: Tensor, which: Tensor, ids: Tensor, needs_gradient: bool
) -> tuple[Tensor, Tensor | None, Tensor]:
    """Cross-entropy of each row of logits, its gradient, and `log_softmax(x)[which][:, ids]`.

    Processes a few rows at a time, which stay in a CPU's cache from one operation to the next.
    """
    value = x.new_empty(len(x), dtype=wide_dtype(x.dtype))
    gradient = x.new_empty(x.shape) if needs_gradient else None
    size = max(1, largest_reread(x.device) // x.shape[1])
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
    """`_cross_entropy` in one kernel."""
    from wassloss.kernels.triton.cross_entropy import LARGEST_TILE, cross_entropy_kernel

    x, (tokens, words) = x.contiguous(), x.shape
    value, largest, log_rest = x.new_empty(3, tokens, dtype=torch.float32)
    gradient = x.new_empty(x.shape) if needs_gradient else None
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
