"""Numbers in language models: does a loss that knows numbers reduce the error of answers?

A small decoder is trained from scratch on sums, on products, and on a regression in text, with
tokens of one digit and of three. Every family of losses has the same number of trials, which are
chosen by the mean error of greedy answers on validation data and trained again with other seeds.
Seeds initialise the weights and order the examples; all models have the same data.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

import wassloss as wl
from experiments.corpora.written_numbers import Texts, texts
from experiments.lab.cache import Cache
from experiments.lab.decoders import Decoders, Size, answer_greedily, train_decoders
from experiments.lab.experiment import Experiment, Outcome, Result, Verdict
from experiments.lab.labelled import best_device
from experiments.lab.style import COLORS, MARKERS, finish, new_figure, state_sizes
from wassloss.scores import paired_difference

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from experiments.lab.decoders import LossOfModels

CE = "cross-entropy"
# Settings of each family: label smoothing, or the weight of the term for numbers.
FAMILIES: dict[str, tuple[float, ...]] = {
    CE: (0.0, 0.05, 0.1),
    "W": (0.3, 1.0, 3.0),
    "W, relative places": (0.3, 1.0, 3.0),
    "squared error": (0.1, 0.3, 1.0),
}
SCORES = {
    "error": "mean error",
    "exact": "exact answers",
    "within 1 %": "answers within 1 %",
    "within 10 %": "answers within 10 %",
}


@dataclass(frozen=True)
class Settings:
    """Sizes.

    Attributes:
        tasks: kind of task, and digits per token.
        size: size of the models, and their training.
        tuning_steps: training steps of trials.
        examples: number of training texts.
        held_out: number of validation texts, and of test texts.
        seeds: number of seeds for the chosen trials.
    """

    tasks: tuple[tuple[str, int], ...] = (
        *(("sum", 1), ("product", 1), ("regression", 1)),
        *(("sum", 3), ("product", 3), ("regression", 3)),
    )
    size: Size = field(default_factory=Size)
    tuning_steps: int = 1000
    examples: int = 20_000
    held_out: int = 2000
    seeds: int = 3


def compute(settings: Settings, cache: Cache | None = None) -> dict[str, Any]:
    """Choices and scores for each task."""
    cache = cache or Cache()
    return {
        f"{task}, {width} digit{'s' if width > 1 else ''}": cache.part(
            f"{task} {width}", partial(_task, task, width, settings)
        )
        for task, width in settings.tasks
    }


def _task(task: str, width: int, settings: Settings) -> dict[str, Any]:
    count = settings.examples + 2 * settings.held_out
    data = texts(task, count, width)
    validation = slice(settings.examples, settings.examples + settings.held_out)
    test = slice(settings.examples + settings.held_out, count)
    trials = [(family, value) for family, values in FAMILIES.items() for value in values]
    size = replace(settings.size, steps=settings.tuning_steps)
    said = iter(_answers(data, trials, [0] * len(trials), settings.examples, validation, size))
    found = {
        family: [float(_scores(next(said), data.numbers[validation])["error"].mean()) for _ in of]
        for family, of in FAMILIES.items()
    }
    chosen = {family: FAMILIES[family][int(np.argmin(each))] for family, each in found.items()}
    runs = [(family, value) for family, value in chosen.items() for _ in range(settings.seeds)]
    seeds = [1 + run % settings.seeds for run in range(len(runs))]
    answers = _answers(data, runs, seeds, settings.examples, test, settings.size)
    by_family = {
        family: _scores(answers[i * settings.seeds :][: settings.seeds], data.numbers[test])
        for i, family in enumerate(FAMILIES)
    }
    return {
        "validation": found,
        "chosen": chosen,
        "scores": {family: _summary(scores) for family, scores in by_family.items()},
        "differences": {
            family: {
                name: vars(paired_difference(scores[name] - by_family[CE][name])) for name in SCORES
            }
            for family, scores in by_family.items()
            if family != CE
        },
    }


def _answers(
    data: Texts,
    trials: Sequence[tuple[str, float]],
    seeds: Sequence[int],
    examples: int,
    part: slice,
    size: Size,
) -> NDArray[np.int64]:
    """Answers of models after training, one model per trial: `(trials, texts)`."""
    device = best_device()
    ids = torch.from_numpy(data.ids).to(device)
    models = Decoders(seeds, len(data.vocabulary), ids.shape[1], size).to(device)
    loss = _loss_of_models(data, trials, device)
    train_decoders(models, ids[:examples], data.answer, loss, seeds)
    said = answer_greedily(models, ids[part], data.answer, 10**data.width)
    return data.value(said.cpu().numpy())


def _loss_of_models(
    data: Texts, trials: Sequence[tuple[str, float]], device: torch.device
) -> LossOfModels:
    """The loss of consecutive models; equal trials are computed in one call."""
    first = [i for i, trial in enumerate(trials) if not i or trial != trials[i - 1]]
    groups = [
        (slice(start, end), _loss_of(data, *trials[start]).to(device))
        for start, end in zip(first, [*first[1:], len(trials)], strict=True)
    ]

    def total(logits: Tensor, labels: Tensor) -> Tensor:
        # A mean over a group divides each model's loss by the group's size; Adam is invariant to
        # it.
        return torch.stack(
            [
                loss(logits[models].float().flatten(0, -2), labels[models].flatten())
                if isinstance(loss, nn.CrossEntropyLoss)
                else loss(logits[models].float(), labels[models])
                for models, loss in groups
            ]
        ).sum()

    return total


def _loss_of(data: Texts, family: str, value: float) -> nn.Module:
    if family == CE:
        return nn.CrossEntropyLoss(label_smoothing=value)
    if family == "squared error":
        return SquaredError(data.vocabulary, number_weight=value)
    places = "relative" if family == "W, relative places" else None
    return wl.NumberTokenLoss(data.vocabulary, number_weight=value, places=places)


class SquaredError(wl.NumberTokenLoss):
    """Cross-entropy, plus the squared error of the mean number, of Zausinger et al. (2025)."""

    def forward(self, logits: Tensor, target: Tensor) -> Tensor:
        counts = target != self.ignore_index
        logits, labels = logits[counts], target[counts]
        cross_entropy = nn.functional.cross_entropy(logits, labels)
        number = labels[:, None] == self.ids  # (labels, numbers)
        values = self.values / self.metric.scale
        mean = logits[:, self.ids].softmax(1) @ values
        off = torch.where(number.any(1), mean - number.to(values) @ values, 0.0)
        return cross_entropy + self.number_weight * off.square().mean()


def _scores(said: NDArray[np.int64], truth: NDArray[np.int64]) -> dict[str, NDArray[np.float64]]:
    """Scores by answer, `(runs, texts)`; errors are relative to the mean of the true numbers."""
    error = np.abs(said - truth).astype(np.float64)
    relative = error / np.maximum(truth, 1)
    return {
        "error": error / truth.mean(),
        "exact": (error == 0).astype(np.float64),
        "within 1 %": (relative <= 0.01).astype(np.float64),
        "within 10 %": (relative <= 0.1).astype(np.float64),
    }


def _summary(scores: Mapping[str, NDArray[np.float64]]) -> dict[str, list[float]]:
    """The mean scores of each run."""
    found = {name: values.mean(1).tolist() for name, values in scores.items()}
    return {**found, "median error": np.median(scores["error"], 1).tolist()}


def draw(result: Result) -> dict[str, Figure]:
    """Draw the change by each family, in error and in shares of good answers."""
    found = result["found"]
    figure, axes = new_figure(1, len(SCORES), (14.5, 1.6 + 0.5 * len(found)))
    for ax, (score, title) in zip(axes[0], SCORES.items(), strict=True):
        for row, of in enumerate(found.values()):
            for place, (family, gaps) in enumerate(of["differences"].items()):
                unit = np.mean(of["scores"][CE][score]) if score == "error" else 1.0
                low, mean, high = (
                    100 * gaps[score][k] / (unit or 1.0) for k in ("low", "mean", "high")
                )
                y, color = row + 0.2 * (place - 1), COLORS[place]
                ax.plot([low, high], [y, y], color=color, linewidth=2)
                ax.plot(
                    [mean], [y], color=color, marker=MARKERS[place], linestyle="none",
                    label=family if row == 0 else None,
                )  # fmt: skip
        ax.axvline(0, color="#444444", linewidth=0.8)
        ax.set_yticks(range(len(found)), list(found), fontsize=8)
        ax.invert_yaxis()
        unit_of = "% of cross-entropy's (less is better)" if score == "error" else "points (more)"
        finish(ax, title, unit_of, "", legend=score == "error")
        ax.set_ylabel("task" if score == "error" else " ")
        ax.tick_params(axis="y", labelleft=score == "error")
    settings = result["settings"]
    state_sizes(
        figure,
        f"{result['mode']}: minus cross-entropy's; {settings['examples']} texts to train on, "
        f"{settings['held_out']} to test on, {settings['seeds']} seeds; lines: 95 % intervals",
    )
    return {"differences": figure}


def verdict(result: Result) -> list[Verdict]:
    """Compare each family with cross-entropy, in mean error and in exact answers."""
    found = result["found"]
    families = [family for family in FAMILIES if family != CE]
    return [_verdict(found, family, score) for family in families for score in ("error", "exact")]


def _verdict(found: Mapping[str, Any], family: str, score: str) -> Verdict:
    sign = 1 if score == "error" else -1  # above 0 is worse
    gaps = {task: of["differences"][family][score] for task, of in found.items()}
    better = [t for t, gap in gaps.items() if max(sign * gap["low"], sign * gap["high"]) < 0]
    worse = [t for t, gap in gaps.items() if min(sign * gap["low"], sign * gap["high"]) > 0]
    held = len(better) == len(gaps) if score == "error" else not worse
    means = {
        task: [float(np.mean(of["scores"][each][score])) for each in (CE, family)]
        for task, of in found.items()
    }
    lines = [f"{task} {before:.3g} → {after:.3g}" for task, (before, after) in means.items()]
    claim = "a smaller mean error" if score == "error" else "no fewer exact answers"
    return Verdict(
        f"{family} has {claim} than cross-entropy",
        Outcome.HELD if held else Outcome.PARTLY if len(better) > len(worse) else Outcome.FAILED,
        f"better outside the interval on {len(better)} of {len(gaps)} tasks, worse on {len(worse)}",
        f"From cross-entropy's: {', '.join(lines)}.",
    )


EXPERIMENT = Experiment(
    name="numbers",
    title="Numbers in language models",
    claim="a loss that knows which tokens are numbers gives more accurate numbers",
    figure="beyond the paper",
    quick=Settings(
        (("sum", 1), ("regression", 1)),
        Size(width=32, layers=1, heads=2, batch=32, steps=150),
        tuning_steps=75,
        examples=2000,
        held_out=200,
        seeds=2,
    ),
    full=Settings(),
    compute=compute,
    draw=draw,
    verdict=verdict,
)
