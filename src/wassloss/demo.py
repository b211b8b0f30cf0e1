"""Cross-entropy against the Wasserstein loss on WordNet's definitions, with nothing tuned.

A network rather than :func:`wassloss.compare`, whose eighty linear fits to thousands of words and
339 classes would take many minutes; this takes half of one.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.feature_extraction.text import CountVectorizer
from torch import Tensor, nn

from wassloss.data import Definitions, definitions
from wassloss.losses import WassersteinLoss
from wassloss.report import Report, write_report
from wassloss.report.models import models_report
from wassloss.training import TrainingPlan, train

CE, W = "cross-entropy", "Wasserstein"
_TEST, _TRAIN, _WORDS = 10_000, 3000, 40  # definitions, definitions, words of each
_SHORT = 60  # letters of a definition that is shown
_WORD = "[a-z]+"
_TITLES = {
    "accuracy": "accuracy",
    "top1_cost": "mean distance",
    "top5_cost": "distance of 5 guesses",
    "grave": "grave mistakes",
    "nll": "neg. log-likelihood",
}


class BagOfWords(nn.Module):
    """The mean of learned word vectors, and a linear layer."""

    def __init__(self, words: int, labels: int, width: int = 128) -> None:
        super().__init__()
        self.embedding = nn.EmbeddingBag(words, width, mode="mean", padding_idx=0)
        self.head = nn.Linear(width, labels)

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.head(self.embedding(x))
        return logits


def run_demo(out: Path, seeds: int, quick: bool, say: Callable[[str], None]) -> tuple[Report, Path]:
    """Train a network with both losses and several seeds, and compare them on unseen definitions.

    Each seed draws its own training definitions, initial weights and order of examples; everything
    but the loss is the same for both.

    Returns:
        What was found, and the page that shows it.
    """
    data = definitions()
    logits: dict[str, list[Tensor]] = {CE: [], W: []}
    order = np.random.default_rng(0).permutation(len(data))
    test, rest = order[:_TEST], order[_TEST:]
    losses = {CE: nn.CrossEntropyLoss(), W: WassersteinLoss(data.metric)}
    for seed in range(seeds):
        rows = np.random.default_rng(seed).permutation(rest)[:_TRAIN]
        for name, loss_fn in losses.items():
            say(f"{name}: training a network, {seed + 1} of {seeds}")
            logits[name].append(_logits(data, rows, test, loss_fn, seed, quick))
    say("writing the report")
    found = _report(data, test, logits, quick)
    out.mkdir(parents=True, exist_ok=True)
    write_report(found, out / "report.html")
    return found, out / "report.html"


def _logits(
    data: Definitions,
    rows: NDArray[np.int64],
    test: NDArray[np.int64],
    loss_fn: nn.Module,
    seed: int,
    quick: bool,
) -> Tensor:
    """Logits of the classes of `test`, `(n, classes)`, after training on `rows`."""
    words = CountVectorizer(lowercase=False, token_pattern=_WORD, min_df=2)  # of two texts
    words.fit([data.texts[i] for i in rows])
    torch.manual_seed(seed)
    model = BagOfWords(len(words.vocabulary_) + 2, data.metric.size)
    plan = TrainingPlan(
        steps=30 if quick else 600,
        batch_size=100,
        optimizer="adam",
        learning_rate=0.01,
        weight_decay=0.0,
        schedule="cosine",
        warmup_steps=5 if quick else 150,
        seed=seed,
    )
    examples = _encoded(data, rows, words), data.classes[torch.from_numpy(rows)]
    train(model, loss_fn, examples, plan, progress=False)
    with torch.no_grad():
        logits: Tensor = model(_encoded(data, test, words))
    return logits


def _encoded(data: Definitions, rows: NDArray[np.int64], words: CountVectorizer) -> Tensor:
    """The numbers of a text's words, from 2 on: 0 is padding and 1 any other word."""
    encoded, split = torch.zeros(len(rows), _WORDS, dtype=torch.long), words.build_analyzer()
    for line, row in zip(encoded, rows.tolist(), strict=True):
        numbers = [words.vocabulary_.get(word, -1) + 2 for word in split(data.texts[row])[:_WORDS]]
        line[: len(numbers)] = torch.tensor(numbers)
    return encoded


def _report(
    data: Definitions, test: NDArray[np.int64], logits: dict[str, list[Tensor]], quick: bool
) -> Report:
    seeds = len(logits[CE])
    return models_report(
        logits,
        data.classes[torch.from_numpy(test)],
        data.metric,
        labels=data.metric.labels or (),
        describe=lambda i: (data.words[test[i]], data.texts[test[i]]),
        may_show=np.array([len(data.texts[row]) <= _SHORT for row in test]),
        titles=_TITLES,
        warnings=["A quick run, to see that it works: these are not results."] if quick else [],
        notes=[
            f"{_TRAIN} definitions of nouns to learn from and {_TEST} others to judge by, in "
            f"{data.metric.size} classes of WordNet. The distance of two classes is how far up "
            "their lowest common ancestor is. A grave mistake has next to nothing in common with "
            "the truth.",
            "The same network (the mean of learned word vectors), optimiser, learning rate and "
            f"{seeds} {'seed' if seeds == 1 else 'seeds'} for both. Nothing was tuned for either, "
            "and WassersteinLoss has its defaults.",
            "Mistakes are of the first seed: the five pairs that differ most, either way round, "
            "where both losses are wrong and the definition is short.",
        ],
        unit="definition",
    )
