"""What a report says, in numbers and words, whoever found it: nothing is drawn here."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from wassloss.estimators.comparison import RULE, SAID, Candidate, in_percent
from wassloss.estimators.model_file import decide
from wassloss.ground import GroundMetric
from wassloss.report.confusion import GROUPS, neighbour_order
from wassloss.runs.evaluation import ExampleScores
from wassloss.scores import accuracy, paired_difference, top_k_cost
from wassloss.scores.by_kind import SCORES
from wassloss.training.log import Record

_SHOWN = 5  # mistakes of each kind


@dataclass(frozen=True)
class Mistake:
    """An example, its true label or labels, and what the models say."""

    name: str
    text: str
    truth: str
    guesses: Sequence[str]


@dataclass(frozen=True, kw_only=True)
class Report:
    """All that the page shows.

    Attributes:
        answer: the finding in a sentence.
        warnings: what to keep in mind when reading it.
        models, names: what is shown next to each other; mistakes are of the first two.
        candidates: each loss, or run, with each decision, as marks of accuracy against distance.
        metric, labels: how far apart labels are, and their names.
        truth: the true label of each answer, `(answers,)`; None if there may be several.
        far_from: what distances are measured from.
        header, rows: a table of scores.
        meanings: of scores, by the first cell of their row.
        notes: how it was found.
        unit: what an example is, in a word.
        mended, made: mistakes of the first model that the second mends, and the other way round; of
            a single model, its worst.
        curves: the top-k cost of each answer, `(answers, k)`, by model.
        logs: of the models' training.
        settings: a name and a value for each model.
    """

    answer: str
    warnings: Sequence[str] = ()
    models: Sequence[Candidate]
    names: Sequence[str]
    candidates: Sequence[Candidate]
    metric: GroundMetric
    labels: Sequence[str]
    truth: NDArray[np.int64] | None
    far_from: str = "the truth"
    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    meanings: dict[str, str] | None = None
    notes: Sequence[str]
    unit: str
    mended: Sequence[Mistake] = ()
    made: Sequence[Mistake] = ()
    curves: Sequence[NDArray[np.float64]] = ()
    logs: Sequence[Sequence[Record]] = ()
    settings: Sequence[tuple[str, Sequence[str]]] = ()

    @cached_property
    def groups(self) -> list[NDArray[np.int64]]:
        """Labels in an order in which near ones are neighbours, put together if they are many."""
        order = neighbour_order(self.metric)
        return np.array_split(order, min(GROUPS, len(order)))


def judged(
    name: str,
    decision: str,
    answers: Iterable[tuple[Tensor, Any]],
    metric: GroundMetric,
    versus: Candidate | None = None,
    groups: NDArray[np.int64] | None = None,
    seeds: int = 1,
) -> Candidate:
    """What probabilities are worth with a decision, next to another candidate.

    Args:
        name: of the loss or the run.
        decision: ``"probable"`` or ``"least cost"``.
        answers: batches of probabilities and targets, those of one seed after the other.
        metric: whose distances count.
        versus: the candidate to compare with; by default its own.
        groups: of examples that are variants of each other.
        seeds: how often each example was answered.
    """
    guesses, right, off = [], [], []
    for p, target in answers:
        guess = decide(p, metric, 1, RULE[decision])
        chosen = torch.zeros_like(p).scatter_(1, guess, 1.0)
        guesses.append(guess[:, 0])
        right.append(accuracy(chosen, target, reduction="none"))
        off.append(top_k_cost(chosen, target, metric, reduction="none"))
    distance = torch.cat(off).double().numpy()
    gaps = distance - (distance if versus is None else versus.distance)
    return Candidate(
        loss=name,
        decision=decision,
        guess=torch.cat(guesses).numpy(),
        accuracy=torch.cat(right).double().numpy(),
        distance=distance,
        versus=paired_difference(gaps.reshape(seeds, -1), groups),
    )


def answer(models: Sequence[Candidate], names: Sequence[str], far_from: str) -> str:
    """The finding in a sentence; of two models, it begins with what became of the mistakes."""
    each = list(zip(models, names, strict=True))
    far = " and ".join(f"{model.distance.mean():.3g} with {name}" for model, name in each)
    right = " and ".join(f"{100 * m.accuracy.mean():.1f} % ({name})" for m, name in each)
    found, change = f"the mean distance from {far_from} is {far}", ""
    if len(models) == 2:
        first, second = models
        found = f"{SAID[second.verdict]}: {found}"
        change = f" ({in_percent(second.versus, float(first.distance.mean()))} %)"
    return f"{found[0].upper()}{found[1:]}{change}; accuracy {right}."


def score_table(
    models: Sequence[Sequence[ExampleScores]],
    names: Sequence[str],
    groups: NDArray[np.int64] | None = None,
    titles: dict[str, str] | None = None,
) -> tuple[list[str], list[list[str]], dict[str, str]]:
    """A header, a row for each score, and what the scores mean.

    Args:
        models: the scores of each model, of one or more seeds, on the same examples.
        names: of the models.
        groups: of examples that are variants of each other.
        titles: of the scores to show; by default all, by their names.
    """
    pair = len(models) == 2
    kind = models[0][0].kind
    rows, meanings = [], {}
    for name, title in (titles or {name: name for name in models[0][0].names}).items():
        more = SCORES[name].more_is_better
        means = [float(np.mean([scores.mean(name) for scores in seeds])) for seeds in models]
        if np.isnan(means).any():
            continue
        row = [f"{title} {'↑' if more else '↓'}", *(f"{mean:.3f}" for mean in means)]
        if pair and means[0] and name in models[0][0].values:
            gaps = [b.values[name] - a.values[name] for a, b in zip(*models, strict=True)]
            gap = paired_difference(gaps, groups)
            row += [in_percent(gap, means[0]), gap.verdict(more)]
        elif pair:
            row += ["", ""]
        rows.append(row)
        meanings[row[0]] = SCORES[name].meaning_for(kind)
    return ["score", *names, *(["change, %", ""] if pair else [])], rows, meanings


def mistakes(
    models: Sequence[Candidate],
    shown: Callable[[int], Mistake],
    among: NDArray[np.int64] | None = None,
) -> tuple[list[Mistake], list[Mistake]]:
    """The worst that the second model mends, and the worst that it makes; of one, its worst."""
    first = models[0].distance
    second = models[1].distance if len(models) > 1 else np.zeros_like(first)
    rows = np.arange(len(first)) if among is None else among
    mended = [shown(i) for i in rows[most_mended(first[rows], second[rows])]]
    return mended, [shown(i) for i in rows[most_mended(second[rows], first[rows])]]


def most_mended(before: NDArray[np.floating], after: NDArray[np.floating]) -> NDArray[np.int64]:
    """The examples whose distance falls most, the worst mistakes first; at most five.

    >>> most_mended(np.array([3.0, 0.0, 4.0, 2.0]), np.array([1.0, 1.0, 2.0, 2.0])).tolist()
    [2, 0]
    """
    gain = before - after
    order = np.lexsort((-before, -gain))[:_SHOWN]
    return order[gain[order] > 0]
