"""Words in language models: does a loss that knows distances between words predict nearer ones?

A small decoder reads the definitions of WordNet's nouns and predicts each next word; distances are
those of GloVe's vectors. Every family of losses has the same number of trials, chosen on validation
texts, once by the distance of the first guess and once by perplexity, and trained again with other
seeds. Models are small enough for one core, on which the time per step is measured.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

import wassloss as wl
from experiments.corpora.glosses import Glosses, glosses
from experiments.lab.cache import Cache
from experiments.lab.decoders import Decoders, Size, train_decoders
from experiments.lab.experiment import Experiment, Outcome, Result, Verdict
from experiments.lab.style import COLORS, MARKERS, finish, new_figure, state_sizes
from experiments.lab.threads import one_thread
from wassloss.scores import accuracy, distance_at_k, paired_difference

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CE, SMOOTHED, SOFTENED, W = "cross-entropy", "label smoothing", "softened labels", "W + α KL"
UNTOUCHED = "W + α KL, untouched"
# Settings of each family; cross-entropy has more learning rates instead.
STRENGTHS: dict[str, tuple[float, ...]] = {
    SMOOTHED: (0.02, 0.05, 0.1),
    SOFTENED: (12.0, 16.0, 24.0),
    W: (0.3, 1.0, 3.0),
}
CRITERIA = {"distance": "distance", "nll": "perplexity"}  # criteria of choice
BY_MEAN = "distance of the nearest to the mean"  # a decision other than the most likely word
COMMON = 100  # number of most frequent words; the others are the rarer ones

# Maps hidden states `(tokens, width)`, the head's weight and the true words to a scalar.
HeadLoss = Callable[[Tensor, Tensor, Tensor], Tensor]
# One number per predicted word, `(tokens,)`; for several runs, `(runs, tokens)`.
TokenScores = Mapping[str, NDArray[np.float64]]


class Trial(NamedTuple):
    """A loss and its learning rate."""

    family: str
    rate: float
    strength: float = 0.0


@dataclass(frozen=True)
class Settings:
    """Sizes.

    Attributes:
        words: size of the vocabulary; words without a vector are read but not predicted.
        length: words per text.
        size: size of the models, and their training; its rate is that of trials.
        tuning_steps: training steps of trials.
        held_out: number of validation texts, and of test texts.
        rates: learning rates of losses with a strength to choose.
        only_rates: learning rates of cross-entropy.
        seeds: number of seeds for the chosen trials.
    """

    words: int = 2000
    length: int = 16
    size: Size = field(default_factory=lambda: Size(64, 1, 2, batch=32, steps=1000))
    tuning_steps: int = 500
    held_out: int = 2000
    rates: tuple[float, ...] = (1e-2, 1.4e-2)
    only_rates: tuple[float, ...] = (3e-3, 5e-3, 7e-3, 1e-2, 1.4e-2, 2e-2)
    seeds: int = 3


def compute(settings: Settings, cache: Cache | None = None) -> dict[str, Any]:
    """Trials, choices, scores and differences."""
    cache, data = cache or Cache(), glosses(settings.words, settings.length)
    tuning = replace(settings, size=replace(settings.size, steps=settings.tuning_steps))
    validation = slice(-2 * settings.held_out, -settings.held_out)
    test = slice(-settings.held_out, None)

    def scored(trial: Trial, of: Settings, part: slice, seed: int) -> dict[str, list[float]]:
        name = "{} {:g} {:g}".format(*trial) + f" seed {seed}"
        found: dict[str, list[float]] = cache.part(
            name, lambda: _as_json(_scores_of(trial, data, of, part, seed))
        )
        return found

    with one_thread():
        tried = {
            family: [
                {**trial._asdict(), **_means(_together(data, validation, [found]), 0)}
                for trial in trials
                for found in [scored(trial, tuning, validation, 0)]
            ]
            for family, trials in _trials(settings).items()
        }
        chosen = {criterion: _chosen(tried, criterion) for criterion in CRITERIA}
        runs = {
            trial: _together(
                data, test, [scored(trial, settings, test, 1 + s) for s in range(settings.seeds)]
            )
            for trial in dict.fromkeys(trial for of in chosen.values() for trial in of.values())
        }
        seconds = cache.part("time", partial(_seconds, data, settings))
    scores = {
        criterion: {family: runs[trial] for family, trial in of.items()}
        for criterion, of in chosen.items()
    }
    texts = _texts(data, test)
    return {
        "words": data.metric.size,
        "tokens": {
            "train": _predicted(data, slice(0, -2 * settings.held_out)),
            "test": _predicted(data, test),
        },
        "tried": tried,
        "chosen": {
            criterion: {family: trial._asdict() for family, trial in of.items()}
            for criterion, of in chosen.items()
        },
        "scores": {
            criterion: {
                family: [_means(each, run) for run in range(settings.seeds)]
                for family, each in of.items()
            }
            for criterion, of in scores.items()
        },
        "differences": {criterion: _differences(of, texts) for criterion, of in scores.items()},
        "first word minus cross-entropy's by the mean": {
            criterion: {
                family: vars(paired_difference(each["distance"] - of[CE][BY_MEAN], texts))
                for family, each in of.items()
            }
            for criterion, of in scores.items()
        },
        "seconds": seconds,
    }


def _trials(settings: Settings) -> dict[str, list[Trial]]:
    others = {
        family: [Trial(family, rate, strength) for rate in settings.rates for strength in strengths]
        for family, strengths in STRENGTHS.items()
    }
    return {CE: [Trial(CE, rate) for rate in settings.only_rates], **others}


def _chosen(tried: Mapping[str, Sequence[Any]], criterion: str) -> dict[str, Trial]:
    best = {family: min(of, key=lambda each: each[criterion]) for family, of in tried.items()}
    found = {f: Trial(f, each["rate"], each["strength"]) for f, each in best.items()}
    # Replaces cross-entropy, with nothing else changed.
    return {**found, UNTOUCHED: Trial(UNTOUCHED, found[CE].rate)}


def _scores_of(trial: Trial, data: Glosses, settings: Settings, part: slice, seed: int) -> Any:
    """Train a model and score it on a part."""
    ids = torch.from_numpy(data.ids)
    size = replace(settings.size, rate=trial.rate)
    model = _trained(_head_loss(trial, data), data, ids[: -2 * settings.held_out], size, seed)
    validation = ids[-2 * settings.held_out : -settings.held_out]
    temperature = _best_temperature(model, data, validation[:400])
    return _token_scores(model, data, ids[part], temperature)


def _trained(loss: HeadLoss, data: Glosses, ids: Tensor, size: Size, seed: int) -> Decoders:
    model = Decoders([seed], data.tokens, ids.shape[1], size)

    def of_hidden(hidden: Tensor, following: Tensor) -> Tensor:
        predicted = following < data.metric.size
        return loss(hidden[predicted], _head(model, data), following[predicted])

    train_decoders(model, ids, ids.shape[1] - 1, of_hidden, [seed], from_hidden=True)
    return model


def _head(model: Decoders, data: Glosses) -> Tensor:
    """The weight of the last layer, `(words, width)`."""
    return model.head[0, :, : data.metric.size].T


def _head_loss(trial: Trial, data: Glosses) -> HeadLoss:
    if trial.family == UNTOUCHED:
        return wl.LinearWassersteinLoss(data.metric)
    if trial.family == W:
        return wl.LinearWassersteinLoss(data.metric, kl_weight=trial.strength)
    loss: nn.Module = nn.CrossEntropyLoss(label_smoothing=trial.strength)
    if trial.family == SOFTENED:
        squares = data.metric.with_cost(power=2.0)
        loss = wl.losses.baselines.SoftLabelLoss(squares, beta=trial.strength)
    return lambda hidden, weight, target: loss(hidden @ weight.T, target)


@torch.no_grad()
def _token_scores(
    model: Decoders, data: Glosses, ids: Tensor, temperature: float
) -> dict[str, Tensor]:
    """Scores of every word to predict."""
    found: list[dict[str, Tensor]] = []
    vectors = data.metric.vectors.float()
    for texts in ids.split(500):
        logits, truth = _predictions(model, data, texts)
        given = (logits, truth, data.metric)
        # Among unit vectors, the one nearest to the mean has the least expected squared distance.
        nearest = (logits.softmax(1) @ vectors @ vectors.T).argmax(1)
        cooled = logits / temperature
        found.append(
            {
                "nll": functional.cross_entropy(logits, truth, reduction="none"),
                "nll with a temperature": functional.cross_entropy(cooled, truth, reduction="none"),
                "accuracy": accuracy(logits, truth, reduction="none"),
                "distance": distance_at_k(*given, k=1, reduction="none"),
                "distance of 5": distance_at_k(*given, k=5, reduction="none"),
                BY_MEAN: data.metric.cost_between(nearest, truth),
            }
        )
    return {name: torch.cat([each[name] for each in found]) for name in found[0]}


def _predictions(model: Decoders, data: Glosses, texts: Tensor) -> tuple[Tensor, Tensor]:
    """Logits of the words to predict, and these words."""
    following = texts[:, 1:]
    hidden = model.hidden(texts[None, :, :-1], following.shape[1]).squeeze(0)
    predicted = following < data.metric.size
    return hidden[predicted] @ _head(model, data).T, following[predicted]


@torch.no_grad()
def _best_temperature(model: Decoders, data: Glosses, texts: Tensor) -> float:
    """The temperature of least perplexity: only cross-entropy aims at calibrated predictions."""
    logits, truth = _predictions(model, data, texts)
    candidates = [round(0.3 + 0.05 * step, 2) for step in range(23)]
    return min(candidates, key=lambda t: float(functional.cross_entropy(logits / t, truth)))


def _as_json(scores: Mapping[str, Tensor]) -> dict[str, list[float]]:
    return {name: values.double().numpy().round(4).tolist() for name, values in scores.items()}


def _labels(data: Glosses, part: slice) -> NDArray[np.int64]:
    following = data.ids[part, 1:]
    labels: NDArray[np.int64] = following[following < data.metric.size]
    return labels


def _predicted(data: Glosses, part: slice) -> int:
    return len(_labels(data, part))


def _texts(data: Glosses, part: slice) -> NDArray[np.int64]:
    """The text of each predicted word."""
    following = data.ids[part, 1:]
    texts: NDArray[np.int64] = np.nonzero(following < data.metric.size)[0]
    return texts


def _together(data: Glosses, part: slice, runs: Sequence[Mapping[str, Any]]) -> TokenScores:
    """Join the scores of several runs; scores of a subset of words are NaN for the others."""
    scores = {name: np.array([run[name] for run in runs], dtype=np.float64) for name in runs[0]}
    wrong, rarer = scores["accuracy"] == 0, _labels(data, part) >= COMMON
    return {
        **scores,
        "severity": np.where(wrong, scores["distance"], np.nan),
        "distance of rarer words": np.where(rarer, scores["distance"], np.nan),
    }


def _means(scores: TokenScores, run: int) -> dict[str, float]:
    return {name: round(float(np.nanmean(values[run])), 5) for name, values in scores.items()}


def _differences(scores: Mapping[str, TokenScores], texts: NDArray[np.int64]) -> dict[str, Any]:
    """Differences `own − other` of any two; words of one text form a group."""
    return {
        own: {
            other: {
                name: vars(paired_difference(scores[own][name] - scores[other][name], texts))
                for name in scores[own]
            }
            for other in scores
            if other != own
        }
        for own in scores
    }


def _seconds(data: Glosses, settings: Settings, steps: int = 20, rounds: int = 5) -> dict[str, Any]:
    """Processor time of a training step, the minimum of several rounds; losses alternate."""
    ids, size = torch.from_numpy(data.ids), replace(settings.size, steps=steps)
    losses = {
        family: _head_loss(Trial(family, size.rate, *STRENGTHS.get(family, ())[:1]), data)
        for family in (CE, *STRENGTHS, UNTOUCHED)
    }
    found: dict[str, list[float]] = {family: [] for family in losses}
    for _ in range(rounds):
        for family, loss in losses.items():
            began = time.process_time()
            _trained(loss, data, ids, size, seed=0)
            found[family].append((time.process_time() - began) / steps)
    return {family: round(min(each), 5) for family, each in found.items()}


# Title, unit, and the conversion of a difference and cross-entropy's score to that unit.
PANELS: dict[str, tuple[str, str, Callable[[float, float], float]]] = {
    "distance": ("distance of the first word", "%", lambda gap, of: 100 * gap / of),
    "distance of 5": ("distance of the first five words", "%", lambda gap, of: 100 * gap / of),
    "severity": ("distance where all are wrong", "%", lambda gap, of: 100 * gap / of),
    "distance of rarer words": ("distance, rarer words", "%", lambda gap, of: 100 * gap / of),
    "nll": ("perplexity", "%", lambda gap, _: 100 * (np.exp(gap) - 1)),
    "accuracy": ("accuracy (more is better)", "points", lambda gap, _: 100 * gap),
}


def draw(result: Result) -> dict[str, Figure]:
    """Draw the change from cross-entropy of every family, chosen by distance and by perplexity."""
    found = result["found"]
    figure, axes = new_figure(2, 3, (11.5, 5.6))
    for number, (ax, (score, panel)) in enumerate(zip(axes.flat, PANELS.items(), strict=True)):
        title, unit, changed = panel
        for place, criterion in enumerate(CRITERIA):
            of = _of_cross_entropy(found, criterion, score)
            for row, family in enumerate((*STRENGTHS, UNTOUCHED)):
                gap = found["differences"][criterion][family][CE][score]
                low, mean, high = (changed(gap[end], of) for end in ("low", "mean", "high"))
                y, color = row + 0.24 * (place - 0.5), COLORS[place]
                ax.plot([low, high], [y, y], color=color, linewidth=2)
                ax.plot(
                    [mean], [y], color=color, marker=MARKERS[place], linestyle="none",
                    label=f"chosen by {CRITERIA[criterion]}" if row == 0 else None,
                )  # fmt: skip
        ax.axvline(0, color="#444444", linewidth=0.8)
        ax.set_yticks(range(len(STRENGTHS) + 1), [*STRENGTHS, UNTOUCHED], fontsize=8)
        ax.invert_yaxis()
        finish(ax, title, f"change from cross-entropy, {unit}", " ", legend=number == 0)
        ax.tick_params(axis="y", labelleft=number % 3 == 0)
    settings, tokens = result["settings"], found["tokens"]
    state_sizes(
        figure,
        f"{result['mode']}: {found['words']} words, {settings['size']['steps']} steps, "
        f"{tokens['test']} words to predict in test texts, {settings['seeds']} seeds; "
        "lines: 95 % intervals",
    )
    return {"differences": figure}


def _of_cross_entropy(found: Mapping[str, Any], criterion: str, score: str) -> float:
    return float(np.mean([run[score] for run in found["scores"][criterion][CE]]))


def verdict(result: Result) -> list[Verdict]:
    """Compare the Wasserstein loss with cross-entropy, and with other tuned losses."""
    found = result["found"]
    return [
        *(
            _against_cross_entropy(found, family, criterion)
            for family in (W, UNTOUCHED)
            for criterion in CRITERIA
        ),
        _against_others(found),
        _against_decision(found),
    ]


def _against_cross_entropy(found: Mapping[str, Any], family: str, criterion: str) -> Verdict:
    gaps = found["differences"][criterion][family][CE]
    claim = "predicts nearer words" if criterion == "distance" else "has less perplexity"
    chosen = found["chosen"][criterion]
    strength = f", α = {chosen[family]['strength']:g}" if family == W else ""
    return Verdict(
        f"{family} {claim} than cross-entropy, chosen by {CRITERIA[criterion]}",
        Outcome.HELD if gaps[criterion]["high"] < 0 else Outcome.FAILED,
        "; ".join(
            f"{PANELS[score][0].partition(' (')[0]} {_change(found, criterion, family, score)}"
            for score in ("distance", "nll", "accuracy")
        ),
        f"Learning rate {chosen[family]['rate']:g}{strength}; cross-entropy's "
        f"{chosen[CE]['rate']:g}.",
    )


def _change(found: Mapping[str, Any], criterion: str, family: str, score: str) -> str:
    """A difference from cross-entropy with its interval, in the unit of its panel."""
    gap, (_, unit, changed) = found["differences"][criterion][family][CE][score], PANELS[score]
    of = _of_cross_entropy(found, criterion, score)
    mean, low, high = (changed(gap[end], of) for end in ("mean", "low", "high"))
    return f"{mean:+.1f} [{low:+.1f}, {high:+.1f}] {unit}"


def _against_others(found: Mapping[str, Any]) -> Verdict:
    rivals = {
        family: found["differences"]["distance"][W][family]["distance"]
        for family in STRENGTHS
        if family != W
    }
    ahead = [family for family, gap in rivals.items() if gap["low"] > 0]
    behind = [family for family, gap in rivals.items() if gap["high"] < 0]
    gaps = (f"{f}: {g['mean']:+.4f} [{g['low']:+.4f}, {g['high']:+.4f}]" for f, g in rivals.items())
    return Verdict(
        f"no other loss predicts nearer words than {W}, with the same tuning",
        Outcome.FAILED if ahead else Outcome.HELD,
        f"distance of {W} minus theirs, {'; '.join(gaps)}",
        f"Ahead of it outside the interval: {', '.join(ahead) or 'none'}; behind: "
        f"{', '.join(behind) or 'none'}.",
    )


def _against_decision(found: Mapping[str, Any]) -> Verdict:
    gap = found["first word minus cross-entropy's by the mean"]["distance"][W]
    own, theirs = (
        np.mean([run[score] for run in found["scores"]["distance"][family]])
        for family, score in ((W, "distance"), (CE, BY_MEAN))
    )
    return Verdict(
        f"{W} predicts nearer words than cross-entropy with the decision for the word nearest to "
        "the mean vector",
        Outcome.HELD if gap["high"] < 0 else Outcome.FAILED,
        f"{own:.4f} and {theirs:.4f}: {gap['mean']:+.4f} [{gap['low']:+.4f}, {gap['high']:+.4f}]",
        "That decision needs no other loss.",
    )


EXPERIMENT = Experiment(
    name="words",
    title="Words in language models",
    claim="a loss that knows which words are near predicts nearer words at no more perplexity",
    figure="beyond the paper",
    quick=Settings(
        words=500,
        size=Size(32, 1, 2, batch=32, steps=200),
        tuning_steps=100,
        held_out=500,
        seeds=2,
    ),
    full=Settings(),
    compute=compute,
    draw=draw,
    verdict=verdict,
)
