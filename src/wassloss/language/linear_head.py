"""`WassersteinLoss` on the inputs of a linear layer, for the heads of language models."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from wassloss._checks import check_count, check_device, check_number, is_traced, wide_dtype
from wassloss.ground.matrix import AnyMetric
from wassloss.language.head_chunks import Head, LinearHead
from wassloss.losses.inputs import check_class_ids
from wassloss.losses.modules import EPSILON, KL_WEIGHT, TransportLoss, metric_of_loss
from wassloss.losses.reduce import PerExample
from wassloss.losses.spec import LossSpec
from wassloss.targets import ReadTarget, read_target


class LinearWassersteinLoss(TransportLoss):
    r"""`WassersteinLoss` on top of a linear layer, without ever storing all logits.

    `loss_fn(hidden, weight, target, bias)` is `WassersteinLoss(metric)(hidden @ weight.T + bias,
    target)` for class ids, computed for a few hundred tokens at a time. It is meant for the heads
    of language models, whose logits would take gigabytes.

    Args:
        metric: the ground metric of the words, or a matrix of distances. On a GPU, the costs of
            :class:`~wassloss.ground.Ordinal`, :class:`~wassloss.ground.Embedding` and
            :class:`~wassloss.ground.Subset` are computed on demand; those of other metrics are
            stored for a chunk.
        epsilon, kl_weight, transport_weight, regularizer, weight, ignore_index, normalize_cost: as
            in :class:`~wassloss.WassersteinLoss`.
        softcap: if given, logits are replaced by `softcap · tanh(logits / softcap)`.
        reduction: ``"mean"`` (weighted), ``"sum"`` or ``"none"``. With ``"none"`` the backward
            pass computes the logits again, because the forward pass does not know the weights.
        chunk_bytes: memory for the logits of a chunk (and its costs, if they are stored), 64 MiB
            by default. Matrix products are faster on larger chunks.
        process_group: the processes among which the words are split. Each holds rows `rank · n` to
            `(rank + 1) · n - 1` of the weight and bias, with `n` the number of words divided by the
            number of processes, rounded up. All get the same hidden states and targets.

    Shapes:
        - hidden: `(…, features)`.
        - weight: `(words, features)`, in the dtype of `hidden`; under autocast both are cast.
        - target: class ids, `(…)`.
        - bias: `(words,)`.
        - sample_weight: `(…)`.
        - output: a scalar, or the shape of the target if `reduction="none"`.

    Sums over words and tokens are in at least single precision, whatever the dtype of the logits.
    Only the weight's gradient accumulates over chunks in its own dtype; larger chunks round less.
    A NaN among the hidden states makes the loss NaN. Gradients are first-order.

    >>> import torch, wassloss as wl
    >>> loss_fn = wl.LinearWassersteinLoss(wl.ground.Ordinal(50))
    >>> hidden, head = torch.randn(8, 16, requires_grad=True), torch.nn.Linear(16, 50)
    >>> target = torch.randint(50, (8,))
    >>> loss = loss_fn(hidden, head.weight, target, head.bias)
    >>> loss.backward()
    >>> bool(loss.isclose(wl.WassersteinLoss(wl.ground.Ordinal(50))(head(hidden), target)))
    True
    """

    def __init__(
        self,
        metric: AnyMetric,
        *,
        epsilon: float = EPSILON,
        kl_weight: float = KL_WEIGHT,
        transport_weight: float = 1.0,
        regularizer: str = "plan",
        softcap: float | None = None,
        weight: Tensor | None = None,
        ignore_index: int = -100,
        reduction: str = "mean",
        normalize_cost: bool = True,
        chunk_bytes: int | None = None,
        process_group: dist.ProcessGroup | None = None,
    ) -> None:
        cap = 0.0 if softcap is None else check_number("softcap", softcap)
        if softcap is not None and not 0 < cap < math.inf:
            raise ValueError(f"softcap must be None or a positive number, got {softcap}")
        if chunk_bytes is not None:
            chunk_bytes = check_count("chunk_bytes", chunk_bytes)
        spec = LossSpec.checked(
            metric_of_loss(metric, normalize_cost),
            epsilon=epsilon,
            kl_weight=kl_weight,
            transport_weight=transport_weight,
            regularizer=regularizer,
            ignore_index=ignore_index,
        )
        super().__init__(spec, weight, reduction)
        self._parts = cap, process_group, chunk_bytes
        if self.metric.requires_grad:
            raise ValueError(
                "metric must not require grad, because no gradient flows to it here: pass a "
                "detached one, or learn it with WassersteinLoss"
            )

    def forward(  # type: ignore[override]
        self,
        hidden: Tensor,
        weight: Tensor,
        target: Tensor,
        bias: Tensor | None = None,
        sample_weight: Tensor | None = None,
    ) -> Tensor:
        hidden, weight, bias = _autocast(hidden, weight, bias)
        head = Head(self.spec, *self._parts)
        self._check(head, hidden, weight, target, bias)
        rows, wide = hidden.reshape(-1, hidden.shape[-1]), wide_dtype(hidden.dtype)
        # Only the weight of each token matters here, not its loss.
        ones = torch.ones(len(rows), dtype=wide, device=hidden.device)
        shape = hidden.shape[:-1]
        ids, counts = read_target(target, self.metric.size, shape, ones, self.ignore_index)
        losses = PerExample(ones, shape, counts)
        share = self._share(losses, ReadTarget(ids.indices, ids.weights), sample_weight)
        grad = torch.is_grad_enabled()
        needs = [grad and x is not None and x.requires_grad for x in (hidden, weight, bias)]
        given = (head, needs, rows, weight, bias, ids.indices.squeeze(1))
        run = LinearHead.apply
        if is_traced():  # it writes in place, and the compiler would insert copies
            run = torch.compiler.disable(run)
        if self.reduction == "none" or (share is not None and share.requires_grad):
            values = run(*given, None) * ids.weights.squeeze(1)
            values = values if counts is None else torch.where(counts, values, 0.0)
            return losses._replace(values=values).reduced(self.reduction, share)
        scale = ids.weights.squeeze(1)  # 1, or NaN for an invalid id
        scale = scale if share is None else scale * share.flatten()
        scale = scale if counts is None else torch.where(counts, scale, 0.0)
        whole = losses.total_share(share) if self.reduction == "mean" else scale.new_ones(())
        # Divide first: the gradient of a sum may overflow half precision.
        total = run(*given, scale / torch.where(whole != 0, whole, 1))
        return torch.where(whole != 0, total, math.nan)

    def _check(
        self, head: Head, hidden: Tensor, weight: Tensor, target: Tensor, bias: Tensor | None
    ) -> None:
        given = {"hidden": hidden, "weight": weight, **({} if bias is None else {"bias": bias})}
        for name, x in given.items():
            if hasattr(x, "to_local"):
                raise TypeError(
                    f"{name} must be a plain tensor, got a DTensor: under tensor parallelism, "
                    f"pass {name}.to_local() and process_group=mesh.get_group(); under FSDP, call "
                    "the loss in the forward of the module that owns the weight"
                )
            if not (isinstance(x, Tensor) and x.is_floating_point()):
                kind = x.dtype if isinstance(x, Tensor) else type(x).__name__
                raise TypeError(f"{name} must be a floating tensor, got {kind}")
            if x.dtype != hidden.dtype:
                raise ValueError(
                    f"{name} must have the dtype of hidden ({hidden.dtype}), got {x.dtype}"
                )
            check_device(name, x, self.metric.device)
        check_class_ids(target, "; WassersteinLoss takes other targets")
        first, last = head.words()
        expected = (last - first, hidden.shape[-1] if hidden.dim() else 0)
        if not hidden.dim() or weight.shape != expected:
            held = "" if last - first == self.metric.size else ", this process's part,"
            raise ValueError(
                f"weight must have shape {expected}{held} for the {self.metric.size} labels of the "
                f"ground metric and hidden of shape {tuple(hidden.shape)}, got "
                f"{tuple(weight.shape)}"
            )
        if bias is not None and bias.shape != expected[:1]:
            raise ValueError(f"bias must have shape {expected[:1]}, got {tuple(bias.shape)}")


def _autocast(*given: Tensor | None) -> Sequence[Any]:
    """Cast the inputs as a linear layer does under autocast."""
    first = given[0]
    device = first.device.type if isinstance(first, Tensor) else "cpu"
    if not torch.is_autocast_enabled(device):
        return given
    dtype = torch.get_autocast_dtype(device)
    narrow = (torch.float32, torch.float16, torch.bfloat16)  # double precision stays, as in torch
    return [x.to(dtype) if isinstance(x, Tensor) and x.dtype in narrow else x for x in given]
