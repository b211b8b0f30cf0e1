r"""The loss of a language model's head, from hidden states and the head's weight.

The logits of 4096 tokens over 128 256 words take a gigabyte in half precision; so do their
gradients, and so would their costs. Here they exist for a chunk of a few hundred tokens at a time.
A product computes its logits, one pass over them the sums that the loss needs, a second pass
overwrites them with their gradient, and two products propagate that to the hidden states and the
weight. The forward pass thus computes the gradients, and the backward pass only scales them.

With one true label κ the loss, and its gradient in a logit, are closed forms:

.. math:: L = m - \alpha \log h_\kappa, \qquad m = \sum_j h_j (M_{j\kappa} + \varepsilon \log h_j)

.. math:: h_j (M_{j\kappa} + \varepsilon \log h_j - m + \alpha) - \alpha [j = \kappa]
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from wassloss import _memory
from wassloss._checks import wide_dtype
from wassloss.ground import GroundMetric
from wassloss.kernels import launch
from wassloss.losses.autograd import first_order_only
from wassloss.losses.spec import LossSpec
from wassloss.transport import one_label
from wassloss.transport.precision import lowest_log_mass

LOWEST = -1e30  # finite, and less than any logit


@dataclass(frozen=True)
class Head:
    """The settings of a loss, and the processes that share its words."""

    spec: LossSpec
    softcap: float  # 0 for none
    group: dist.ProcessGroup | None
    chunk_bytes: int | None  # None for `LARGEST_CHUNK_BYTES`

    def words(self) -> tuple[int, int]:
        """The range of this process's words: the first, and one past the last."""
        size = self.spec.metric.size
        if self.group is None:
            return 0, size
        each = -(-size // self.group.size())
        return min(size, each * self.group.rank()), min(size, each * (self.group.rank() + 1))

    def capped(self, x: Tensor) -> Tensor:
        return self.softcap * torch.tanh(x / self.softcap) if self.softcap else x


class LinearHead(torch.autograd.Function):
    """The loss of each token or, given `scale`, their weighted sum.

    The forward pass computes the gradient of the sum.
    """

    @staticmethod
    def forward(
        ctx: Any,
        head: Head,
        needs: list[bool],
        hidden: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        ids: Tensor,
        scale: Tensor | None,
    ) -> Tensor:
        losses, gradients = _in_chunks(head, hidden, weight, bias, ids, scale, needs)
        ctx.save_for_backward(hidden, weight, bias, ids, scale, *gradients)
        ctx.head, ctx.needs, ctx.handed_over = head, needs, False
        return losses if scale is None else torch.where(scale == 0, 0.0, scale * losses).sum()

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor | None, ...]:
        hidden, weight, bias, ids, scale, *gradients = ctx.saved_tensors
        inputs = (hidden, weight, bias)
        if scale is not None and not ctx.handed_over:
            # In place, because the weight's gradient may take a gigabyte. The caller may change it,
            # so a second backward pass through a retained graph computes it again.
            factor = grad_output.detach()
            gradients = [None if x is None else x.data.mul_(factor) for x in gradients]
            ctx.handed_over = True
        else:
            scale = (grad_output if scale is None else scale * grad_output).detach()
            _, gradients = _in_chunks(ctx.head, *inputs, ids, scale, ctx.needs)
        results = [
            None if gradient is None else first_order_only(gradient, x)
            for gradient, x in zip(gradients, inputs, strict=True)
        ]
        return None, None, *results, None, None


@torch.no_grad()
def _in_chunks(
    head: Head,
    hidden: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    ids: Tensor,
    scale: Tensor | None,
    needs: list[bool],
) -> tuple[Tensor, list[Tensor | None]]:
    """Return the loss of each token, and the gradients of their sum weighted by `scale (tokens,)`.

    There is one gradient for each of the three inputs, None if not needed or without `scale`.
    """
    tokens, words = len(hidden), len(weight)
    # Chunks after the first add to the gradient; without chunks it is 0.
    new = torch.empty_like if tokens else torch.zeros_like
    grad_hidden, grad_weight, grad_bias = gradients = [
        None
        if x is None or scale is None or not needed
        else new(x, memory_format=torch.contiguous_format)
        for x, needed in zip((hidden, weight, bias), needs, strict=True)
    ]
    losses = hidden.new_empty(tokens, dtype=wide_dtype(hidden.dtype))
    bias_sum = losses.new_zeros(words)
    passes = (_TritonPasses if _triton_fits(hidden) else _Passes)(head, hidden)
    allowed = head.chunk_bytes or _memory.LARGEST_CHUNK_BYTES
    size = max(1, allowed // (max(1, words) * passes.bytes_per_logit))
    size = size // 64 * 64 or size  # matrix products are fast at multiples of 64
    buffer = hidden.new_empty(min(size, tokens), words)
    with torch.autocast(hidden.device.type, enabled=False):
        for first in range(0, tokens, size):
            rows = slice(first, first + size)
            x = hidden[rows]
            logits = buffer[: len(x)]
            if bias is None:
                torch.mm(x, weight.T, out=logits)
            else:
                torch.addmm(bias, x, weight.T, out=logits)
            losses[rows], *terms = _closed_form(head, passes, logits, ids[rows])
            if scale is None or not any(needs):
                continue
            passes.to_gradient(logits, ids[rows], torch.stack([*terms, scale[rows]]))
            if grad_hidden is not None:
                torch.mm(logits, weight, out=grad_hidden[rows])
            if grad_weight is not None:
                grad_weight.addmm_(logits.T, x, beta=float(first > 0))
            if grad_bias is not None:
                bias_sum += logits.sum(0, dtype=bias_sum.dtype)
    if grad_bias is not None:
        grad_bias.copy_(bias_sum)
    if grad_hidden is not None and head.group is not None:
        dist.all_reduce(grad_hidden, group=head.group)
    return losses, gradients


def _closed_form(
    head: Head, passes: _Passes, logits: Tensor, ids: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Losses of a chunk, and for its gradient `log Σ exp(z)` and the mean slope of each token."""
    spec, (first, last) = head.spec, head.words()
    column = (ids - first).clamp(0, max(0, last - first - 1)).unsqueeze(1)
    at_target = logits.new_zeros(len(ids), 1) if first == last else logits.gather(1, column)
    at_target = head.capped(at_target.squeeze(1).to(wide_dtype(logits.dtype)))
    at_target = torch.where((ids >= first) & (ids < last), at_target, 0.0)
    parts = passes.sums(logits, ids)  # (4, parts, tokens)
    top = parts[0].amax(0)
    if head.group is not None:
        dist.all_reduce(top, dist.ReduceOp.MAX, head.group)
    gap = parts[0] - top
    total, spread, cost = (
        (gap.exp() * x).sum(0) for x in (parts[1], parts[2] + gap * parts[1], parts[3])
    )
    if head.group is not None:
        over_group = torch.stack([total, spread, cost, at_target])
        dist.all_reduce(over_group, group=head.group)
        total, spread, cost, at_target = over_group
    mean = (spec.transport_weight * cost + spec.entropy_of_one_label * spread) / total
    mean = mean - spec.entropy_of_one_label * total.log()
    log_total = top + total.log()
    losses = mean + spec.kl_weight * (log_total - at_target) if spec.kl_weight else mean
    return losses, log_total, mean


class _Passes:
    """The two passes over the logits `(tokens, words)` of a chunk, with its costs in memory."""

    def __init__(self, head: Head, hidden: Tensor) -> None:
        self.head, self.words = head, slice(*head.words())
        self.bytes_per_logit = hidden.element_size() + 6 * wide_dtype(hidden.dtype).itemsize

    def sums(self, logits: Tensor, ids: Tensor) -> Tensor:
        """`m = max z`, `Σ e^(z−m)`, `Σ (z−m) e^(z−m)` and `Σ M e^(z−m)`, `(4, parts, tokens)`."""
        z, cost = self._logits_and_costs(logits, ids)
        top = z.amax(1).clamp(min=LOWEST) if z.shape[1] else z.new_full((len(z),), LOWEST)
        gap = z - top[:, None]
        e = gap.exp()
        spread = torch.where(e > 0, e * gap, 0.0).sum(1)
        return torch.stack([top, e.sum(1), spread, (e * cost).sum(1)]).unsqueeze(1)

    def to_gradient(self, logits: Tensor, ids: Tensor, terms: Tensor) -> None:
        """Overwrite logits by their gradient, given `(log_total, mean, scale)`, `(3, tokens)`."""
        z, cost = self._logits_and_costs(logits, ids)
        log_total, mean, scale = terms.unsqueeze(2)
        log_h, spec = z - log_total, self.head.spec
        raised, epsilon = log_h.clamp(min=lowest_log_mass(z.dtype)), spec.entropy_of_one_label
        slope = one_label.slope(raised, cost, epsilon, spec.transport_weight)
        words = torch.arange(self.words.start, self.words.stop, device=ids.device)
        is_target = ids[:, None] == words
        found = one_label.gradient(log_h.exp(), slope, mean, spec.kl_weight, is_target)
        if self.head.softcap:
            found *= 1 - (z / self.head.softcap).square()
        logits.copy_(torch.where(scale == 0, 0.0, scale * found))

    def _logits_and_costs(self, logits: Tensor, ids: Tensor) -> tuple[Tensor, Tensor]:
        z = self.head.capped(logits.to(wide_dtype(logits.dtype)))
        columns = self.head.spec.metric.unchecked_cost_columns(ids)[:, self.words]
        return z, columns.to(z.dtype)


def _triton_fits(hidden: Tensor) -> bool:
    return launch.triton_available(hidden.device) and hidden.dtype != torch.float64


class _TritonPasses(_Passes):
    """The same passes on an NVIDIA GPU, with costs computed tile by tile."""

    def __init__(self, head: Head, hidden: Tensor) -> None:
        from wassloss.kernels.triton import linear_head

        super().__init__(head, hidden)
        self.kernels: ModuleType = linear_head
        metric = head.spec.metric
        by_tile = metric.known_costs is None
        costs = metric.costs_by_tile() if by_tile else GroundMetric.costs_by_tile(metric)
        self.kind, self.own, known = costs
        self.others = None if known is None else known[self.words]  # of this process's words
        norms = self.others is not None and self.kind == "vectors"
        self.squares = torch.linalg.vector_norm(self.others, dim=1).square() if norms else None
        self.bytes_per_logit = hidden.element_size() + (4 if self.kind == "rows" else 0)
        self.rows, self.columns, self.warps = linear_head.tile(self.kind)

    def sums(self, logits: Tensor, ids: Tensor) -> Tensor:
        tokens, words = logits.shape
        tiles = self.kernels.TILES
        parts = max(1, -(-words // (tiles * self.columns)))  # at least one, even without words
        found = logits.new_empty(4, parts, tokens, dtype=torch.float32)
        with torch.cuda.device_of(logits):
            self.kernels.sums_kernel[(-(-tokens // self.rows), parts)](
                *(logits, ids - self.words.start, found, tokens, words, self.head.softcap),
                **self._constants(logits, ids),
                TILES=tiles,
            )
        return found

    def to_gradient(self, logits: Tensor, ids: Tensor, terms: Tensor) -> None:
        (tokens, words), spec = logits.shape, self.head.spec
        grid = -(-tokens // self.rows), max(1, -(-words // self.columns))
        with torch.cuda.device_of(logits):
            self.kernels.gradient_kernel[grid](
                *(logits, ids - self.words.start, terms, tokens, words, self.head.softcap),
                *(spec.transport_weight, spec.entropy_of_one_label, spec.kl_weight),
                lowest_log_mass(terms.dtype),
                **self._constants(logits, ids),
            )

    def _constants(self, logits: Tensor, ids: Tensor) -> dict[str, Any]:
        """The arguments for costs and tiles that both kernels share."""
        power, own = self.head.spec.metric.power, self.own(ids).float()
        own = own[:, self.words] if self.kind == "rows" else own
        width = own.stride(0)
        unused = logits  # placeholder, because an argument is required
        return {
            "own": own,
            "others": unused if self.others is None else self.others,
            "own_squares": unused if self.squares is None else own.square().sum(1),
            "squares": unused if self.squares is None else self.squares,
            "width": width,
            "power": power,
            "per_scale": 1 / self.head.spec.metric.scale,
            "ROWS": self.rows,
            "COLUMNS": self.columns,
            "CAPPED": self.head.softcap > 0,
            "KIND": self.kind,
            "POWER": int(power) if power in (1, 2) else -1,
            "FEATURES": self.kernels.FEATURES,
            "ALIGNED": math.gcd(width, 4),  # floats per load
            # Half-precision logits have fewer digits than tf32.
            "PRECISION": "tf32x3" if logits.dtype == torch.float32 else "tf32",
            "num_warps": self.warps,
        }
