"""Small decoders, several trained at once: their weights have a dimension for the model.

Losses are summed over models and Adam does not mix parameters, so each model trains as if alone.
One pass for all makes better use of a GPU than small models one by one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

# Maps logits `(models, batch, answer, vocabulary)`, or hidden states instead, and labels to the sum
# of the models' losses.
LossOfModels = Callable[[Tensor, Tensor], Tensor]


@dataclass(frozen=True)
class Size:
    """Size of a decoder, and its training."""

    width: int = 128
    layers: int = 3
    heads: int = 4
    batch: int = 256
    steps: int = 2500
    rate: float = 1e-3


class Decoders(nn.Module):
    """Transformers that predict each next token, one per seed."""

    def __init__(self, seeds: Sequence[int], tokens: int, length: int, size: Size) -> None:
        super().__init__()
        self.size, self.models, wide = size, len(seeds), 4 * size.width
        generators = [torch.Generator().manual_seed(seed) for seed in seeds]

        def drawn(*shape: int, scale: float) -> nn.Parameter:
            each = [scale * torch.randn(shape, generator=generator) for generator in generators]
            return nn.Parameter(torch.stack(each))

        narrow = 1 / math.sqrt(size.width)
        self.words = drawn(tokens, size.width, scale=0.5)
        self.positions = drawn(length, size.width, scale=0.5)
        self.head = drawn(size.width, tokens, scale=narrow)
        self.attend, self.join, self.widen, self.shrink = (
            nn.ParameterList(drawn(rows, columns, scale=scale) for _ in range(size.layers))
            for rows, columns, scale in (
                (size.width, 3 * size.width, narrow),
                (size.width, size.width, narrow / math.sqrt(2 * size.layers)),
                (size.width, wide, narrow),
                (wide, size.width, 1 / math.sqrt(2 * wide * size.layers)),
            )
        )

    def forward(self, ids: Tensor, last: int) -> Tensor:
        """Logits after each of the `last` tokens of `ids (models, batch, length)`."""
        states = self.hidden(ids, last)
        logits: Tensor = states.flatten(1, 2) @ self.head
        return logits.reshape(*states.shape[:3], -1)

    def hidden(self, ids: Tensor, last: int) -> Tensor:
        """The inputs of the head for these logits, `(models, batch, last, width)`."""
        models, batch, length = ids.shape
        model = torch.arange(models, device=ids.device)[:, None]
        x = self.words[model, ids.flatten(1)]  # (models, batch · length, width)
        x = x + self.positions[:, :length].repeat(1, batch, 1)
        for layer in range(self.size.layers):
            mixed = _normed(x) @ self.attend[layer]
            q, k, v = (
                part.reshape(models * batch, length, self.size.heads, -1).transpose(1, 2)
                for part in mixed.chunk(3, -1)
            )
            seen = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + seen.transpose(1, 2).reshape(x.shape) @ self.join[layer]
            x = x + functional.gelu(_normed(x) @ self.widen[layer]) @ self.shrink[layer]
        return _normed(x.reshape(models, batch, length, -1)[:, :, -last:])


def _normed(x: Tensor) -> Tensor:
    return functional.layer_norm(x, x.shape[-1:])


def train_decoders(
    models: Decoders,
    ids: Tensor,
    answer: int,
    loss: LossOfModels,
    seeds: Sequence[int],
    *,
    from_hidden: bool = False,
) -> None:
    """Train on texts `(texts, length)` to predict the last `answer` tokens, each in its own order.

    With `from_hidden` the loss takes hidden states and applies the head itself.
    """
    predict = models.hidden if from_hidden else models
    size, device = models.size, ids.device
    optimizer = torch.optim.AdamW(models.parameters(), size.rate, fused=device.type == "cuda")
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, size.rate, total_steps=size.steps, pct_start=0.1
    )
    generators = [torch.Generator().manual_seed(1000 + seed) for seed in seeds]
    chunk = 100  # steps whose examples are drawn and sent to the device at once
    for step in range(size.steps):
        if step % chunk == 0:
            drawn = [torch.randint(len(ids), (chunk, size.batch), generator=g) for g in generators]
            order = torch.stack(drawn, 1).to(device, non_blocking=True)  # (chunk, models, batch)
        batch = ids[order[step % chunk]]
        with torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
            predicted = predict(batch[..., :-1], answer)
        optimizer.zero_grad()
        loss(predicted, batch[..., -answer:]).backward()
        optimizer.step()
        schedule.step()


@torch.no_grad()
def answer_greedily(models: Decoders, ids: Tensor, answer: int, numbers: int) -> Tensor:
    """The most probable answers, token by token, `(models, texts, answer)`.

    Only the first `numbers` tokens of the vocabulary are considered.
    """
    found = []
    for part in ids[:, :-answer].split(1000):
        said = part.expand(models.models, -1, -1)
        for _ in range(answer):
            following = models(said, 1)[..., :numbers].argmax(-1)
            said = torch.cat([said, following], -1)
        found.append(said[..., -answer:])
    return torch.cat(found, 1)
