"""Sums of two digits as text, "7+8=15", and a small decoder, used by the examples on numbers."""

from __future__ import annotations

import torch
from torch import Tensor, nn

VOCABULARY = {token: index for index, token in enumerate(["<pad>", "+", "=", *"0123456789"])}
PROMPT = 4  # tokens before the answer


def all_sums() -> Tensor:
    """Return the token ids of the hundred sums, `(100, 6)`; answers have two digits."""
    texts = [f"{a}+{b}={a + b:02}" for a in range(10) for b in range(10)]
    return torch.tensor([[VOCABULARY[token] for token in text] for text in texts])


def labels_of(ids: Tensor) -> Tensor:
    """Labels as in Hugging Face: the ids, not shifted, with -100 for tokens without a loss."""
    return ids.clone().index_fill_(1, torch.arange(PROMPT), -100)


def answers_off(logits: Tensor, ids: Tensor) -> float:
    """Mean error of the answers, each digit predicted after the true ones."""
    digits = logits[:, PROMPT - 1 : -1, VOCABULARY["0"] :].argmax(-1)
    truth = ids[:, PROMPT:] - VOCABULARY["0"]
    places = torch.tensor([10, 1], device=ids.device)
    return float(((digits - truth) * places).sum(1).abs().float().mean())


class Decoder(nn.Module):
    """A transformer that predicts each next token."""

    def __init__(self, size: int = 64, length: int = 16) -> None:
        super().__init__()
        self.words = nn.Embedding(len(VOCABULARY), size)
        self.positions = nn.Embedding(length, size)
        self.layer = nn.TransformerEncoderLayer(size, 4, 2 * size, dropout=0.0, batch_first=True)
        self.head = nn.Linear(size, len(VOCABULARY))

    def forward(self, ids: Tensor) -> Tensor:
        """Logits `(batch, sequence, vocabulary)`."""
        length = ids.shape[1]
        x = self.words(ids) + self.positions.weight[:length]
        mask = nn.Transformer.generate_square_subsequent_mask(length, device=ids.device)
        return self.head(self.layer(x, src_mask=mask, is_causal=True))
