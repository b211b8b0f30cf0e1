"""Tune each loss with the same budget on the training rows, and score it on the held-out rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV, GroupKFold, KFold, StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.parallel import Parallel, delayed
from torch import Tensor

from wassloss.app.comparison.answer import CE, NEAREST, RIDGE, RULE, SOFT, Candidate, W
from wassloss.app.model import log_probabilities
from wassloss.app.splitting import Fold
from wassloss.decisions import least_cost_label, top_labels
from wassloss.estimators import WassersteinClassifier, fit_path
from wassloss.ground import GroundMetric, Ordinal
from wassloss.scores import paired_difference

Progress = Callable[[int, int], None]  # called with the numbers of finished and of all pieces
# Eight settings per loss: two strengths of its own times four penalties, or eight penalties.
_ALPHAS = (100.0, 10.0, 1.0, 0.1)
_MORE_ALPHAS = (300.0, 100.0, 30.0, 10.0, 3.0, 1.0, 0.3, 0.1)
_PATHS: dict[str, tuple[tuple[dict[str, float], Sequence[float]], ...]] = {
    CE: (({"transport_weight": 0.0, "kl_weight": 1.0}, _MORE_ALPHAS),),
    W: (({"kl_weight": 0.1}, _ALPHAS), ({"kl_weight": 0.5}, _ALPHAS)),
    SOFT: tuple(
        ({"transport_weight": 0.0, "kl_weight": 1.0, "softening": s}, _ALPHAS) for s in (0.1, 0.3)
    ),
}
FOLDS, _MANY = 3, 5000  # validation folds; number of rows from which one fold is enough
# There are many fits, so networks take few large steps; they need stronger penalties.
HIDDEN, BATCH, STEPS, _STRONGER = (64,), 250, 500, 10


def candidates(work: Work, jobs: Jobs) -> list[Candidate]:
    """Tune, fit and score each loss with each decision rule."""
    factor = _STRONGER if work.whole.hidden_layer_sizes else 1
    every = [
        (loss, strengths, [factor * alpha for alpha in alphas])
        for loss, paths in _PATHS.items()
        for strengths, alphas in paths
    ]
    folds = range(len(work.folds))
    parts = [(*path, fold) for _, *path in every for fold in folds]
    means = iter(jobs.run(work.validated, parts, later=len(RULE) * len(_PATHS)))
    tried: dict[str, list[Any]] = {loss: [] for loss in _PATHS}  # (settings, distance by decision)
    for loss, strengths, alphas in every:
        mean = np.mean([next(means) for _ in folds], axis=0)  # (alphas, decisions)
        tried[loss] += zip(({**strengths, "alpha": alpha} for alpha in alphas), mean, strict=True)
    chosen = [
        (loss, i, *min(tried[loss], key=lambda one: one[1][i]))
        for i in range(len(RULE))
        for loss in _PATHS
    ]
    different = [dict(own) for own in {tuple(settings.items()): 0 for *_, settings, _ in chosen}]
    answers = jobs.run(work.predicted, [(settings,) for settings in different])
    found: list[Candidate] = []
    for loss, i, settings, distances in chosen:
        guesses, nll = answers[different.index(settings)]
        judged = work.judged(
            guesses[i],
            found[0].distance if found else None,
            loss=loss,
            decision=list(RULE)[i],
            nll=nll,
            settings=settings,
            validation=float(distances[i]),
        )
        found.append(judged)
    return found


class Jobs:
    """Run independent pieces of work through joblib, and report progress."""

    def __init__(self, n_jobs: int | None, progress: Progress | None) -> None:
        self._n_jobs, self._progress, self._done = n_jobs, progress, 0

    def run(
        self, function: Callable[..., Any], pieces: Sequence[tuple[Any, ...]], later: int = 0
    ) -> list[Any]:
        """Call `function` with the arguments of each piece; `later` more pieces will follow."""
        parallel, found = Parallel(n_jobs=self._n_jobs, return_as="generator"), []
        total = self._done + len(pieces) + later
        with closing(parallel(delayed(function)(*piece) for piece in pieces)) as answers:
            for answer in answers:
                found.append(answer)
                self._done += 1
                if self._progress is not None:
                    self._progress(self._done, total)
        return found


@dataclass(frozen=True)
class Work:
    """Training and held-out rows, and the computations on them."""

    whole: WassersteinClassifier  # with the metric and the classes of all rows
    x: NDArray[Any]
    y: NDArray[np.int64]  # label ids
    held_x: NDArray[Any]
    truth: NDArray[np.int64]  # label ids of the held-out rows
    folds: list[Fold]  # of the training rows
    groups: NDArray[np.int64] | None  # of the held-out rows

    @cached_property
    def distance(self) -> NDArray[np.float64]:
        """Distances from the predicted to the true label, `(labels, labels)`."""
        found: NDArray[np.float64] = self.metric.distance().double().numpy()
        return found

    @property
    def metric(self) -> GroundMetric:
        """The ground metric of the labels."""
        return cast(GroundMetric, self.whole.metric)

    def classes(self, labels: NDArray[np.int64]) -> NDArray[Any]:
        """The classes of label ids, as the classifier takes them."""
        found: NDArray[Any] = np.asarray(self.whole.classes)[labels]
        return found

    def validated(
        self, strengths: dict[str, float], alphas: Sequence[float], fold: int
    ) -> NDArray[np.float64]:
        """Mean distances on a fold along a path of penalties, `(alphas, decisions)`."""
        train, test = self.folds[fold]
        path = [with_settings(self.whole, {**strengths, "alpha": alpha}) for alpha in alphas]
        warm = not self.whole.hidden_layer_sizes
        fits = fit_path(path, self.x[train], self.classes(self.y[train]), warm=warm)
        guesses = [self.decided(log_probabilities(fitted, self.x[test])) for fitted in fits]
        means: NDArray[np.float64] = self.distance[np.array(guesses), self.y[test]].mean(2)
        return means

    def predicted(
        self, settings: dict[str, float]
    ) -> tuple[list[NDArray[np.int64]], NDArray[np.float64]]:
        """The predicted labels of the held-out rows by decision rule, and −log p of the truth."""
        classifier = with_settings(self.whole, settings).fit(self.x, self.classes(self.y))
        logs = log_probabilities(classifier, self.held_x)
        return self.decided(logs), -logs.numpy()[np.arange(len(logs)), self.truth]

    def decided(self, logs: Tensor) -> list[NDArray[np.int64]]:
        """The label of each row of log-probabilities, by decision rule in the order of `RULE`."""
        return [top_labels(logs)[:, 0].numpy(), least_cost_label(logs.exp(), self.metric).numpy()]

    def ridge(self, reference: NDArray[np.float64]) -> Candidate:
        """A tuned ridge regression on the positions of the labels, rounded to the nearest one."""
        line: NDArray[np.float64] = cast(Ordinal, self.metric).positions.double().numpy()

        def nearest(model: Any, x: NDArray[Any]) -> Any:
            return np.abs(model.predict(x)[:, None] - line).argmin(1)

        search = GridSearchCV(
            make_pipeline(StandardScaler(with_mean=not sparse.issparse(self.x)), Ridge()),
            {"ridge__alpha": _MORE_ALPHAS},
            scoring=lambda model, x, y: -float(np.abs(line[nearest(model, x)] - y).mean()),
            cv=self.folds,
        ).fit(self.x, line[self.y])
        return self.judged(
            nearest(search, self.held_x),
            reference,
            loss=RIDGE,
            decision=NEAREST,
            settings={"alpha": search.best_params_["ridge__alpha"]},
            validation=-float(search.best_score_),
        )

    def judged(
        self, guess: NDArray[np.int64], reference: NDArray[np.float64] | None, **found: Any
    ) -> Candidate:
        """Score predicted labels of the held-out rows against the distances of a `reference`."""
        off = self.distance[guess, self.truth]
        return Candidate(
            guess=guess,
            accuracy=(guess == self.truth).astype(np.float64),
            distance=off,
            versus=paired_difference(off - (off if reference is None else reference), self.groups),
            **found,
        )


def folds_of(y: NDArray[np.int64], groups: NDArray[np.int64] | None, seed: int) -> Iterator[Fold]:
    """Cross-validation folds of rows with these label ids.

    Ids, because scikit-learn takes classes such as 0.5 for a continuous target.
    """
    if groups is not None:
        made = GroupKFold(FOLDS).split(y, y, groups)
    elif np.unique(y, return_counts=True)[1].min() >= FOLDS:
        made = StratifiedKFold(FOLDS, shuffle=True, random_state=seed).split(y, y)
    else:
        made = KFold(FOLDS, shuffle=True, random_state=seed).split(y)
    yield from islice(made, 1 if len(y) >= _MANY else FOLDS)


def with_settings(whole: WassersteinClassifier, settings: dict[str, Any]) -> WassersteinClassifier:
    """A new classifier with these parameters, and the other ones of `whole`."""
    return WassersteinClassifier(**{**whole.get_params(deep=False), **settings})
