"""What would a Wasserstein loss gain? Losses and decisions, tuned alike, on data held out."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from math import ceil
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

from wassloss._checks import check_choice, check_seed
from wassloss.data.fingerprints import Fingerprints
from wassloss.data.table import frame_features, is_frame, table_of
from wassloss.estimators.classifier import WassersteinClassifier, decide
from wassloss.estimators.inputs import is_matrix
from wassloss.estimators.labels import Classes, Metric, ordered_categories
from wassloss.estimators.search import fitted_along
from wassloss.estimators.splitting import Fold, check_apart, check_known, held_out
from wassloss.ground import Ordinal
from wassloss.scores import paired_difference
from wassloss.scores.differences import Difference

Progress = Callable[[int, int], None]  # called with how many pieces are done, and of how many
MODELS = ("linear", "mlp")
PROBABLE, LEAST_COST, NEAREST = "probable", "least cost", "nearest"  # which label is the answer
RULE = {PROBABLE: "probable", LEAST_COST: "least_cost"}  # as the classifier calls them
SAID = {"better": "Milder mistakes", "worse": "Graver mistakes", "unclear": "No clear gain"}
CE, W, SOFT, RIDGE = "cross-entropy", "W + KL", "softened", "ridge"
# Eight settings for each loss: two strengths of its own and four penalties, or eight penalties.
_ALPHAS = (100.0, 10.0, 1.0, 0.1)
_MORE_ALPHAS = (300.0, 100.0, 30.0, 10.0, 3.0, 1.0, 0.3, 0.1)
_PATHS: dict[str, tuple[tuple[dict[str, float], Sequence[float]], ...]] = {
    CE: (({"transport_weight": 0.0, "kl_weight": 1.0}, _MORE_ALPHAS),),
    W: (({"kl_weight": 0.1}, _ALPHAS), ({"kl_weight": 0.5}, _ALPHAS)),
    SOFT: tuple(
        ({"transport_weight": 0.0, "kl_weight": 1.0, "softening": s}, _ALPHAS) for s in (0.1, 0.3)
    ),
}
_FOLDS, _MANY = 3, 5000  # folds to choose by; rows from which on one of them is enough
# Networks take few large steps, as there are many fits, and bear stronger penalties.
_HIDDEN, _BATCH, _STEPS, _STRONGER = (64,), 250, 500, 10


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """A loss and a decision, with their scores on the rows that were held out.

    Attributes:
        guess: the label of each row held out, as its place in the metric.
        accuracy, distance, nll: of each row held out; a regression has no likelihood.
        versus: the difference in `distance` from cross-entropy's most probable labels.
        settings: of the loss and the penalty, as chosen.
        validation: the mean distance by which they were chosen.
    """

    loss: str
    decision: str
    guess: NDArray[np.int64] = field(repr=False)
    accuracy: NDArray[np.float64] = field(repr=False)
    distance: NDArray[np.float64] = field(repr=False)
    nll: NDArray[np.float64] | None = field(default=None, repr=False)
    versus: Difference
    settings: dict[str, float] = field(default_factory=dict)
    validation: float = np.nan

    @property
    def name(self) -> str:
        """The loss and the decision in words."""
        return f"{self.loss}, {self.decision} label"

    @property
    def verdict(self) -> str:
        """Whether its mean distance is better or worse than cross-entropy's, or unclear."""
        return self.versus.verdict(more_is_better=False)


@dataclass(frozen=True)
class Comparison:
    """What :func:`compare` found; as text it is a sentence and a table.

    Attributes:
        candidates: cross-entropy's most probable labels first.
        best: the classifier of least mean distance while tuning, fitted to all rows.
        rows: how many were trained on, and how many held out.
        held: which rows were held out.
        truth: their labels, as places in the metric.
    """

    candidates: tuple[Candidate, ...]
    best: WassersteinClassifier
    rows: tuple[int, int]
    held: NDArray[np.int64] = field(repr=False)
    truth: NDArray[np.int64] = field(repr=False)

    @property
    def answer(self) -> str:
        """The finding in a sentence."""
        plain, ours = self.candidates[0], self.ours
        decided = next(c for c in self.candidates if (c.loss, c.decision) == (CE, LEAST_COST))
        right = [f"{100 * c.accuracy.mean():.1f} %" for c in (plain, ours)]
        return (
            f"{SAID[ours.verdict]}: on {self.rows[1]} rows held out the mean distance is "
            f"{plain.distance.mean():.3g} with cross-entropy, {decided.distance.mean():.3g} if it "
            f"decides by least expected cost, and {ours.distance.mean():.3g} with the Wasserstein "
            f"loss and the {ours.decision} label, as chosen while tuning ({self.change(ours)} %); "
            f"accuracy {right[0]} (cross-entropy) and {right[1]} (Wasserstein)."
        )

    @property
    def kept(self) -> Candidate:
        """The one that `best` was fitted as: a regression is compared, but not kept."""
        return min((c for c in self.candidates if c.nll is not None), key=lambda c: c.validation)

    @property
    def ours(self) -> Candidate:
        """W + KL, with the decision rule of less mean distance while tuning."""
        return min((c for c in self.candidates if c.loss == W), key=lambda c: c.validation)

    def change(self, candidate: Candidate) -> str:
        """The change in mean distance from cross-entropy's most probable labels, in %."""
        return in_percent(candidate.versus, float(self.candidates[0].distance.mean()))

    @property
    def labels(self) -> list[str]:
        """The names of the labels, in the metric's order."""
        return list(self.best._labels.names)

    def table(self) -> tuple[list[str], list[list[str]]]:
        """A header and a row for each candidate, in words."""
        rows = []
        for c in self.candidates:
            own = "" if c is self.candidates[0] else self.change(c)
            nll = "" if c.nll is None else f"{c.nll.mean():.3f}"
            accuracy, distance = f"{100 * c.accuracy.mean():.1f} %", f"{c.distance.mean():.3f}"
            rows.append([c.loss, c.decision, accuracy, distance, nll, own, own and c.verdict])
        return ["loss", "answer", "accuracy", "mean distance", "NLL", "change, %", ""], rows

    def __str__(self) -> str:
        header, rows = self.table()
        widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
        lines = (map(str.ljust, row, widths) for row in [header, *rows])
        return "\n".join([self.answer, "", *("  ".join(line).rstrip() for line in lines)])


def in_percent(gap: Difference, before: float) -> str:
    """A difference and its interval relative to the mean that it is a difference from.

    >>> in_percent(Difference(-0.5, -0.75, -0.25), 5.0)
    '-10.0 [-15.0, -5.0]'
    >>> in_percent(Difference(-0.5, math.nan, math.nan), 5.0)
    '-10.0 [no interval]'
    """
    if not before:
        return "–"  # nothing is relative to 0
    mean, low, high = (100 * x / before for x in (gap.mean, gap.low, gap.high))
    ends = "no interval" if math.isnan(low) else f"{low:+.1f}, {high:+.1f}"
    return f"{mean:+.1f} [{ends}]"


def compare(
    X: Any,
    y: Any,
    metric: Metric = None,
    *,
    classes: Classes = None,
    model: str = "linear",
    test: float | Sequence[int] | NDArray[np.int64] = 0.25,
    groups: Any = None,
    n_jobs: int | None = None,
    random_state: int = 0,
    device: str = "cpu",
    progress: Progress | None = None,
) -> Comparison:
    """Tune cross-entropy, W + KL and softened labels alike, and score them on rows held out.

    Each loss has eight settings, chosen by the mean distance in cross-validation (on one fold from
    5000 rows on), once for the most probable label and once for that of least expected cost. Where
    labels are on a line, a ridge regression, rounded to the nearest label, is tuned too. Nothing is
    chosen on the rows held out.

    Args:
        X: features `(n, d)`, dense or `scipy.sparse`; or a data frame with text and gaps, whose
            columns become features as in `wl.data.read`, by what the rows to train on hold. The
            best model then predicts from such frames.
        y: class ids `(n,)`. Ordered categories of pandas are taken as `classes` where the metric is
            ``"ordinal"``.
        metric: as in :class:`WassersteinClassifier`.
        classes: likewise.
        model: ``"linear"``; or ``"mlp"``, with a hidden layer of 64, in 500 steps of 250 rows.
        test: the share of rows to hold out, or which rows.
        groups: of rows that must stay together, `(n,)`; with rows in `test`, no group may have rows
            on both sides.
        n_jobs: processes, through joblib.
        random_state: seeds the split.
        device: where to train, as in :class:`WassersteinClassifier`.
        progress: called with the number of finished pieces of work and of all.

    On several machines, with a Dask cluster (`pip install distributed`)::

        with distributed.Client("scheduler:8786"), joblib.parallel_config("dask"):
            found = wl.compare(X, y, metric)

    >>> import numpy as np, wassloss as wl
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(400, 3))
    >>> y = np.digitize(X[:, 0] + 0.5 * rng.normal(size=400), [-1, 0, 1])
    >>> found = wl.compare(X, y, "ordinal")
    >>> found.rows
    (300, 100)
    """
    check_choice("model", model, MODELS)
    check_seed("random_state", random_state)
    if np.ndim(test) == 0 and not 0 < cast(float, test) < 1:
        raise ValueError(f"test must be more than 0 and less than 1, got {test}")
    if classes is None and isinstance(metric, str):
        classes = ordered_categories(y)
    whole = WassersteinClassifier(metric, classes=classes, random_state=random_state, device=device)
    # What becomes of a frame's columns is decided when the rows to train on are known.
    first = np.zeros((len(X), 1)) if is_frame(X) else X
    features, target, _ = whole._examples(first, y, None)
    if is_matrix(target):
        raise ValueError("y must hold class ids (n,) to be compared, got a matrix")
    together = None if groups is None else np.unique(groups, return_inverse=True)[1]
    if together is not None and len(together) != len(target):
        raise ValueError(f"groups must have {len(target)} entries, got {len(together)}")
    train, held = _divided(test, target, together, random_state)
    _check_enough(train, together)
    if classes is None and (metric is None or isinstance(metric, str)):
        check_known(target[train], target[held])
    table = None
    if is_frame(X):
        table = table_of(X, held)
        X = frame_features(X, table)
        features, target, _ = whole._examples(X, y, None)
    if model == "mlp":
        passes = ceil(_STEPS * min(_BATCH, len(train)) / len(train))
        whole.set_params(hidden_layer_sizes=_HIDDEN, batch_size=_BATCH, max_iter=passes)
    inside = None if together is None else together[train]
    truth = whole._labels.places_of(target[held])
    work = _Work(
        *(whole, features[train], target[train], features[held], truth),
        folds=list(_folds(whole._labels.places_of(target[train]), inside, random_state)),
        groups=None if together is None else together[held],
    )
    found = _candidates(work, _Jobs(n_jobs, progress))
    best = min(found, key=lambda c: c.validation)
    if isinstance(whole.metric_, Ordinal):
        found.append(work.ridge(found[0].distance))
    saved = _with(whole, best.settings)
    saved.decision = RULE[best.decision]
    saved.fit(X, y)
    saved.trained_on_ = Fingerprints.of(X)
    if table is not None:
        saved.table_ = table
    rows = (len(train), len(held))
    return Comparison(tuple(found), saved, rows, held, truth)


def _divided(test: Any, target: NDArray[Any], groups: NDArray[np.int64] | None, seed: int) -> Fold:
    """Rows to train on, and those to hold out: a share, or the rows given."""
    every = np.arange(len(target))
    if np.ndim(test) == 0:
        return held_out(target, len(target), test, groups, seed)
    held = np.unique(test)
    train = np.setdiff1d(every, held)
    some = 0 < len(train) == len(target) - len(held) < len(target)
    if held.dtype.kind not in "iu" or not some:
        raise ValueError(
            f"test must be a share or rows in 0..{len(target) - 1}, some but not all, got {held}"
        )
    if groups is not None:
        check_apart(groups, train, held)
    return train, held


def _check_enough(train: NDArray[np.int64], groups: NDArray[np.int64] | None) -> None:
    """Refuse fewer rows, or groups, to train on than folds to choose by."""
    count, what = len(train), "rows"
    if groups is not None:
        count, what = len(np.unique(groups[train])), "groups"
    if count < _FOLDS:
        raise ValueError(
            f"X must have {_FOLDS} {what} to train on at least, without those held out, got {count}"
        )


def _candidates(work: _Work, jobs: _Jobs) -> list[Candidate]:
    """Each loss with each decision and the best settings for both, fitted and judged."""
    factor = _STRONGER if work.whole.hidden_layer_sizes else 1
    every = [
        (loss, strengths, [factor * alpha for alpha in alphas])
        for loss, paths in _PATHS.items()
        for strengths, alphas in paths
    ]
    folds = range(len(work.folds))
    parts = [(*path, fold) for _, *path in every for fold in folds]
    means = iter(jobs.run(work.validated, parts, later=len(RULE) * len(_PATHS)))
    tried: dict[str, list[Any]] = {loss: [] for loss in _PATHS}  # settings, and distances by rule
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


class _Jobs:
    """Runs independent pieces of work through joblib."""

    def __init__(self, n_jobs: int | None, progress: Progress | None) -> None:
        self._n_jobs, self._progress, self._done = n_jobs, progress, 0

    def run(
        self, function: Callable[..., Any], pieces: Sequence[tuple[Any, ...]], later: int = 0
    ) -> list[Any]:
        """What `function` returns for the arguments of each piece; `later` are still to come."""
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
class _Work:
    """Rows to train on and rows held out, and what is done with them."""

    whole: WassersteinClassifier  # which knows the labels of all rows
    x: NDArray[Any]
    y: NDArray[Any]
    held_x: NDArray[Any]
    truth: NDArray[np.int64]  # their labels
    folds: list[Fold]  # of the rows to train on
    groups: NDArray[np.int64] | None  # of the rows held out

    @cached_property
    def distance(self) -> NDArray[np.float64]:
        """From the label that is predicted to the true one."""
        found: NDArray[np.float64] = self.whole.metric_.distance().double().numpy()
        return found

    def validated(
        self, strengths: dict[str, float], alphas: Sequence[float], fold: int
    ) -> NDArray[np.float64]:
        """Mean distances on a fold along a path of penalties, `(alphas, decisions)`."""
        train, test = self.folds[fold]
        truth = self.whole._labels.places_of(self.y[test])
        path = [_with(self.whole, {**strengths, "alpha": alpha}) for alpha in alphas]
        data = (self.x[train], self.y[train], None, self.whole._labels)
        fits = fitted_along(path, *data, warm=not self.whole.hidden_layer_sizes)
        guesses = [self.decided(fitted._outputs(self.x[test]).softmax(1)) for fitted in fits]
        means: NDArray[np.float64] = self.distance[np.array(guesses), truth].mean(2)
        return means

    def predicted(
        self, settings: dict[str, float]
    ) -> tuple[list[NDArray[np.int64]], NDArray[np.float64]]:
        """Labels of the rows held out by each decision, and −log p of the true ones."""
        classifier = _with(self.whole, settings)
        classifier._fit_part(self.x, self.y, None, self.whole._labels, None)
        logs = classifier._outputs(self.held_x).log_softmax(1)
        return self.decided(logs.exp()), -logs.numpy()[np.arange(len(logs)), self.truth]

    def decided(self, p: Tensor) -> list[NDArray[np.int64]]:
        """The label of each row of probabilities by each decision of the classifier."""
        return [decide(p, self.whole.metric_, 1, rule)[:, 0].numpy() for rule in RULE.values()]

    def ridge(self, reference: NDArray[np.float64]) -> Candidate:
        """A regression on the positions of the labels, rounded to the nearest of them."""
        line: NDArray[np.float64] = cast(Ordinal, self.whole.metric_).positions.double().numpy()

        def nearest(model: Any, x: NDArray[Any]) -> Any:
            return np.abs(model.predict(x)[:, None] - line).argmin(1)

        search = GridSearchCV(
            make_pipeline(StandardScaler(with_mean=not sparse.issparse(self.x)), Ridge()),
            {"ridge__alpha": _MORE_ALPHAS},
            scoring=lambda model, x, y: -float(np.abs(line[nearest(model, x)] - y).mean()),
            cv=self.folds,
        ).fit(self.x, line[self.whole._labels.places_of(self.y)])
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
        """What labels of the rows held out are worth, next to the distances of a `reference`."""
        off = self.distance[guess, self.truth]
        return Candidate(
            guess=guess,
            accuracy=(guess == self.truth).astype(np.float64),
            distance=off,
            versus=paired_difference(off - (off if reference is None else reference), self.groups),
            **found,
        )


def _folds(y: NDArray[np.int64], groups: NDArray[np.int64] | None, seed: int) -> Iterator[Fold]:
    """Folds of rows with these labels; as numbers, because half stars look continuous."""
    if groups is not None:
        made = GroupKFold(_FOLDS).split(y, y, groups)
    elif np.unique(y, return_counts=True)[1].min() >= _FOLDS:
        made = StratifiedKFold(_FOLDS, shuffle=True, random_state=seed).split(y, y)
    else:
        made = KFold(_FOLDS, shuffle=True, random_state=seed).split(y)
    yield from islice(made, 1 if len(y) >= _MANY else _FOLDS)


def _with(whole: WassersteinClassifier, settings: dict[str, float]) -> WassersteinClassifier:
    return WassersteinClassifier(**{**whole.get_params(deep=False), **settings})
