"""The report on models that predicted the same examples, however they were trained."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from wassloss import SparseTarget
from wassloss.app.comparison import LEAST_COST, PROBABLE, SAID, Candidate, in_percent
from wassloss.app.evaluation import ExampleScores, example_scores
from wassloss.app.report.page import Mistake, Report, most_mended
from wassloss.app.score_kinds import ONE, ORDERED, SCORES, TAGS
from wassloss.decisions import least_cost_label, top_labels
from wassloss.ground import GroundMetric
from wassloss.scores import accuracy, paired_difference, top_k_cost

_NAMED = 5  # true labels shown per example
_FAR_FROM = {ONE: "the truth", ORDERED: "the truth", TAGS: "the nearest true label"}
_ONE_SEED = " They do not include the variation between seeds."


@torch.no_grad()
def answers_report(
    answers: Mapping[str, Tensor],
    target: Any,
    metric: GroundMetric,
    *,
    labels: Sequence[str],
    describe: Callable[[int], tuple[str, str]],
    may_show: NDArray[np.bool_] | None = None,
    groups: NDArray[np.int64] | None = None,
    seeds: int = 1,
    titles: Mapping[str, str] | None = None,
    notes: Sequence[str],
    **page: Any,
) -> Report:
    """Score the predictions of models by their distance from the truth.

    The distance of a prediction is that to the nearest true label or, if targets are distributions,
    the Wasserstein distance between the predicted and the true distribution.

    Args:
        answers: logits by name of the model, `(seeds * examples, labels)`.
        target: the target of the examples, repeated for each seed.
        metric: the ground metric that defines the distances.
        labels: the names of the labels.
        describe: maps the index of an example to its name and a text.
        may_show: marks the examples to show as mistakes if both models are wrong, `(examples,)`; by
            default any example is shown, even if one of the models is right.
        groups: the group of each example; examples of a group are not independent.
        seeds: how many times each model was trained.
        titles: titles by name of the scores to show; by default all scores under their names.
        notes: sentences about how the models were trained.
        **page: other fields of the report.
    """
    names = list(answers)
    scores = [example_scores(own, target, metric) for own in answers.values()]
    kind = scores[0].kind
    candidates = list[Candidate]()
    for decision in (PROBABLE, LEAST_COST) if kind in _FAR_FROM else (PROBABLE,):
        for name, own, found in zip(names, answers.values(), scores, strict=True):
            guess, right, off = _decided(own, target, metric, decision)
            off = off if kind in _FAR_FROM else found.values["transport"]
            gaps = off - (candidates[0].distance if candidates else off)
            candidates.append(
                Candidate(
                    loss=name,
                    decision=decision,
                    guess=guess,
                    accuracy=right,
                    distance=off,
                    versus=paired_difference(gaps.reshape(seeds, -1), groups),
                )
            )
    models = candidates[: len(names)]
    far_from = _FAR_FROM.get(kind, "the true distribution")
    titles = titles or {name: name for name in scores[0].values}
    titles = {name: titles[name] for name in titles if not np.isnan(scores[0].mean(name))}
    first = models[0].distance
    second = models[1].distance if len(models) > 1 else np.zeros_like(first)
    rows = np.arange(len(first))
    if may_show is not None:
        wrong = ((first > 0) & (second > 0))[: len(may_show)]  # the answers of the first seed
        rows = np.flatnonzero(may_show & wrong)

    def mistake(i: int) -> Mistake:
        true = ", ".join(labels[j] for j in _true_labels(target, i))
        return Mistake(*describe(i), true, [labels[one.guess[i]] for one in models[:2]])

    return Report(
        answer=_answer(models, far_from),
        models=models,
        names=names,
        candidates=candidates,
        metric=metric,
        labels=labels,
        truth=target.numpy() if kind in (ONE, ORDERED) else None,
        far_from=far_from,
        header=["score", *names, *(["change, %", ""] if len(names) == 2 else [])],
        rows=_rows(scores, titles, groups, seeds),
        meanings=[SCORES[name].meaning for name in titles],
        mended=[mistake(i) for i in rows[most_mended(first[rows], second[rows])]],
        made=[mistake(i) for i in rows[most_mended(second[rows], first[rows])]],
        notes=[
            *notes,
            "Scores are means, ↓ lower is better, ↑ higher is better. Changes are relative to "
            f"{names[0]}, with 95 % intervals over examples{' and seeds' if seeds > 1 else ''}; "
            "“unclear” means that the interval includes 0 or is not defined."
            f"{'' if seeds > 1 else _ONE_SEED}",
        ],
        **page,
    )


def _decided(
    logits: Tensor, target: Any, metric: GroundMetric, decision: str
) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.float64]]:
    """The predicted labels, whether they are right, and their distance from the truth."""
    p = logits.softmax(1)
    guess = top_labels(p)[:, 0] if decision == PROBABLE else least_cost_label(p, metric)
    chosen = torch.zeros_like(logits).scatter_(1, guess[:, None], 1.0)
    right = accuracy(chosen, target, reduction="none")
    off = top_k_cost(chosen, target, metric, reduction="none")
    return guess.numpy(), right.double().numpy(), off.double().numpy()


def _answer(models: Sequence[Candidate], far_from: str) -> str:
    """The finding in a sentence, which begins with a verdict if there are two models."""
    far = " and ".join(f"{one.distance.mean():.3g} with {one.loss}" for one in models)
    right = " and ".join(f"{100 * one.accuracy.mean():.1f} % ({one.loss})" for one in models)
    found, change = f"the mean distance from {far_from} is {far}", ""
    if len(models) == 2:
        first, second = models
        found = f"{SAID[second.verdict]}: {found}"
        change = f" ({in_percent(second.versus, float(first.distance.mean()))} %)"
    return f"{found[0].upper()}{found[1:]}{change}; accuracy {right}."


def _rows(
    scores: Sequence[ExampleScores],
    titles: Mapping[str, str],
    groups: NDArray[np.int64] | None,
    seeds: int,
) -> list[tuple[str, ...]]:
    """A row for each score, with the change if there are two models."""
    rows = []
    for name, title in titles.items():
        means = [found.mean(name) for found in scores]
        arrow = "↑" if SCORES[name].more_is_better else "↓"
        change = ("", "") if len(scores) == 2 else ()
        if change and means[0] and scores[0].values[name].ndim:
            gaps = scores[1].values[name] - scores[0].values[name]
            gap = paired_difference(gaps.reshape(seeds, -1), groups)
            change = in_percent(gap, means[0]), gap.verdict(SCORES[name].more_is_better)
        rows.append((f"{title} {arrow}", *(f"{mean:.3f}" for mean in means), *change))
    return rows


def _true_labels(target: Any, i: int) -> list[int]:
    """At most five true labels of an example, by decreasing mass."""
    if isinstance(target, SparseTarget):
        indices, weights = target.indices[i], target.weights[i]
    elif target.dim() == 1:
        return [int(target[i])]
    else:
        weights = target[i].to_dense()
        indices = torch.arange(len(weights))
    order = weights.argsort(descending=True, stable=True)
    found: list[int] = indices[order[weights[order] > 0][:_NAMED]].tolist()
    return found
