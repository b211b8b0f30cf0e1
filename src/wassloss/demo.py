"""Cross-entropy against the Wasserstein loss on WordNet's definitions, with nothing tuned."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from wassloss.data import Definitions, definitions
from wassloss.ground import GroundMetric
from wassloss.losses import WassersteinLoss
from wassloss.report.gains import Gains, Mistake, Point, most_mended, write_gains
from wassloss.scores import least_cost_label, paired_difference, top_k_cost
from wassloss.training import TrainingPlan, train

CE, W = "cross-entropy", "Wasserstein"
_TEST, _TRAIN, _WORDS = 10_000, 3000, 40  # definitions, definitions, words of each
_GRAVE = 0.9  # of the largest distance, from which on a mistake is called grave
_SHORT = 60  # letters of a definition that is shown
# Of each score: what it is, whether more is better, how it is shown.
_SCORES = {
    "accuracy": ("accuracy", True, "{:.1f} %"),
    "distance": ("mean distance", False, "{:.3f}"),
    "distance of 5": ("distance of 5 guesses", False, "{:.3f}"),
    "grave": ("grave mistakes", False, "{:.1f} %"),
    "nll": ("neg. log-likelihood", False, "{:.3f}"),
}
Scores = dict[str, NDArray[np.float64]]


class BagOfWords(nn.Module):
    """The mean of learned word vectors, and a linear layer."""

    def __init__(self, words: int, labels: int, width: int = 128) -> None:
        super().__init__()
        self.embedding = nn.EmbeddingBag(words, width, mode="mean", padding_idx=0)
        self.head = nn.Linear(width, labels)

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.head(self.embedding(x))
        return logits


def run_demo(out: Path, seeds: int, quick: bool, say: Callable[[str], None]) -> tuple[Gains, Path]:
    """Train a network with both losses and several seeds, and compare them on unseen definitions.

    Each seed draws its own training definitions, initial weights and order of examples; everything
    but the loss is the same for both.

    Returns:
        What was found, and the page that shows it.
    """
    data = definitions()
    chances: dict[str, list[Tensor]] = {CE: [], W: []}
    order = np.random.default_rng(0).permutation(len(data))
    test, rest = order[:_TEST], order[_TEST:]
    losses = {CE: nn.CrossEntropyLoss(), W: WassersteinLoss(data.metric)}
    for seed in range(seeds):
        rows = np.random.default_rng(seed).permutation(rest)[:_TRAIN]
        for name, loss_fn in losses.items():
            say(f"{name}: training a network, {seed + 1} of {seeds}")
            chances[name].append(_chances(data, rows, test, loss_fn, seed, quick))
    say("writing the report")
    found = _gains(data, test, chances, quick)
    out.mkdir(parents=True, exist_ok=True)
    write_gains(found, out / "report.html")
    return found, out / "report.html"


def _chances(
    data: Definitions,
    rows: NDArray[np.int64],
    test: NDArray[np.int64],
    loss_fn: nn.Module,
    seed: int,
    quick: bool,
) -> Tensor:
    """Probabilities of the classes of `test`, `(n, classes)`, after training on `rows`."""
    vocabulary = _vocabulary([data.texts[i] for i in rows])
    torch.manual_seed(seed)
    model = BagOfWords(len(vocabulary) + 2, data.metric.size)
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
    examples = _encoded(data, rows, vocabulary), data.classes[torch.from_numpy(rows)]
    train(model, loss_fn, examples, plan, progress=False)
    with torch.no_grad():
        logits: Tensor = model(_encoded(data, test, vocabulary))
    return logits.softmax(1)


def _vocabulary(texts: Sequence[str]) -> dict[str, int]:
    """Words of two texts or more, numbered from 2: 0 is padding and 1 any other word."""
    counts = Counter(word for text in texts for word in set(_words(text)))
    kept = sorted(word for word, count in counts.items() if count > 1)
    return {word: number for number, word in enumerate(kept, 2)}


def _encoded(data: Definitions, rows: NDArray[np.int64], vocabulary: dict[str, int]) -> Tensor:
    encoded = torch.zeros(len(rows), _WORDS, dtype=torch.long)
    for line, row in zip(encoded, rows.tolist(), strict=True):
        numbers = [vocabulary.get(word, 1) for word in _words(data.texts[row])[:_WORDS]]
        line[: len(numbers)] = torch.tensor(numbers)
    return encoded


def _words(text: str) -> list[str]:
    return re.findall(r"[a-z]+", text)


def _gains(
    data: Definitions, test: NDArray[np.int64], chances: dict[str, list[Tensor]], quick: bool
) -> Gains:
    truth, distance = data.classes[torch.from_numpy(test)], data.metric.distance()
    scores = {
        name: [_scores(p, truth, data.metric) for p in each] for name, each in chances.items()
    }
    rows, changes = [], {}
    for key, (title, more, form) in _SCORES.items():
        pairs = list(zip(scores[CE], scores[W], strict=True))
        gap = paired_difference([w[key] - ce[key] for ce, w in pairs])
        means = [float(np.mean([run[key].mean() for run in scores[name]])) for name in (CE, W)]
        changes[key], low, high = (100 * x / means[0] for x in (gap.mean, gap.low, gap.high))
        unit = 100 if form.endswith("%") else 1
        rows.append([
            f"{title} {'↑' if more else '↓'}",
            *(form.format(unit * mean) for mean in means),
            f"{changes[key]:+.1f} %",
            f"[{low:+.1f}, {high:+.1f}]",
            gap.verdict(more),
        ])  # fmt: skip
    guesses = {name: torch.stack([p.argmax(1) for p in each]) for name, each in chances.items()}
    best_bets = {
        name: torch.stack([least_cost_label(p, data.metric) for p in each])
        for name, each in chances.items()
    }
    first = [each[0] for each in guesses.values()]
    off = [distance[guess, truth].numpy() for guess in first]
    seeds = len(chances[CE])
    notes = [
        f"{_TRAIN} definitions of nouns to learn from and {_TEST} others to judge by, in "
        f"{data.metric.size} classes of WordNet. The distance of two classes is how far up their "
        "lowest common ancestor is. A grave mistake has next to nothing in common with the truth.",
        "The same network (the mean of learned word vectors), optimiser, learning rate and "
        f"{_count(seeds)} for both. Nothing was tuned for either, and WassersteinLoss has its "
        "defaults.",
        "Changes are relative to cross-entropy's, with 95 % intervals over definitions and seeds; "
        "“unclear” means that the interval includes 0. ↓ lower is better, ↑ higher is better.",
        "Mistakes are of the first seed: the five pairs that differ most, either way round, where "
        "both losses are wrong and the definition is short.",
    ]
    if quick:
        notes.insert(0, "A quick run, to see that it works: these are not results.")
    return Gains(
        answer=_answer(changes),
        header=["score", CE, W, "change", "interval", "W is"],
        rows=rows,
        notes=notes,
        names=(CE, W),
        metric=data.metric,
        labels=data.metric.labels or (),
        truth=truth.repeat(seeds).numpy(),
        guesses=(guesses[CE].flatten().numpy(), guesses[W].flatten().numpy()),
        points=[
            Point(
                name,
                decision,
                float((each == truth).double().mean()),
                float(distance[each, truth].double().mean()),
            )
            for decision, answers in (("probable", guesses), ("least cost", best_bets))
            for name, each in answers.items()
        ],
        unit="definition",
        mended=_mistakes(data, test, truth, first, off),
        made=_mistakes(data, test, truth, first, off[::-1]),
    )


def _scores(p: Tensor, truth: Tensor, metric: GroundMetric) -> Scores:
    """Scores of each definition."""
    off, of_five = top_k_cost(p, truth, metric, k=[1, 5], reduction="none").T
    found = {
        "accuracy": off == 0,
        "distance": off,
        "distance of 5": of_five,
        "grave": off >= _GRAVE * metric.distance().max(),
        "nll": -p.gather(1, truth[:, None]).squeeze(1).clamp(min=1e-30).log(),
    }
    return {name: values.double().numpy() for name, values in found.items()}


def _answer(changes: dict[str, float]) -> str:
    """The finding in a sentence."""
    milder = "nearer to the truth" if changes["distance"] < 0 else "farther from the truth"
    fewer = "fewer" if changes["grave"] < 0 else "more"
    right = "more" if changes["accuracy"] > 0 else "fewer"
    return (
        f"With the Wasserstein loss guesses are {abs(changes['distance']):.1f} % {milder}: "
        f"{abs(changes['grave']):.0f} % {fewer} grave mistakes, {abs(changes['accuracy']):.1f} % "
        f"{right} right answers, and the likelihood is {abs(changes['nll']):.1f} % "
        f"{'better' if changes['nll'] < 0 else 'worse'}."
    )


def _mistakes(
    data: Definitions,
    test: NDArray[np.int64],
    truth: Tensor,
    first: Sequence[Tensor],
    off: Sequence[NDArray[np.float32]],
) -> list[Mistake]:
    """Short definitions that both get wrong, with the largest gain from `off[0]` to `off[1]`."""
    labels = data.metric.labels or ()
    short = np.array([len(data.texts[row]) <= _SHORT for row in test.tolist()])
    shown = np.flatnonzero(short & (off[1] > 0))
    return [
        Mistake(
            data.words[test[i]],
            data.texts[test[i]],
            labels[int(truth[i])],
            (labels[int(first[0][i])], labels[int(first[1][i])]),
        )
        for i in shown[most_mended(off[0][shown], off[1][shown])].tolist()
    ]


def _count(seeds: int) -> str:
    return "1 seed" if seeds == 1 else f"{seeds} seeds"
