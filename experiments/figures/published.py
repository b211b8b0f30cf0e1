"""Published tables, on their splits: their methods reproduced, with ours next to them.

`tae` of ORCA's tutorial: 151 teaching assistants in three ordered classes, 30 splits into 113 for
training and 38 for testing. All methods get standardised features; as there, they are tuned by
five-fold cross-validation on the training part for mean absolute error.

s-JAFFE of python-ldl's README: 213 faces, each with a distribution over six emotions; ten folds,
ten times. As there, SA-BFGS gets the raw features; ours are standardised. The distance of labels is
that of their occurrence in the training part.

Methods of skordinal (POM, LogisticAT) and of python-ldl (SA-BFGS) are left out if these are not
installed.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from experiments.corpora.distributions import label_distributions
from experiments.corpora.orca import orca_splits
from experiments.lab.cache import Cache
from experiments.lab.experiment import Experiment, Outcome, Result, Verdict
from experiments.lab.intervals import split_interval
from experiments.lab.style import COLORS, finish, new_figure, state_sizes
from wassloss import WassersteinClassifier, WassersteinClassifierCV, scores
from wassloss.estimators import make_scorer
from wassloss.ground import Embedding, GroundMetric

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Array = NDArray[np.float64]
SCORES = ("chebyshev", "clark", "canberra", "kl_divergence", "cosine", "intersection")
OURS = {"tae": "W + KL, RBF features, tuned", "s-jaffe": "W + KL, tuned"}
RIVAL = {"tae": "SVC, RBF kernel, tuned", "s-jaffe": "SA-BFGS"}
# Means and standard deviations: doc/orca_tutorial_1.md of ORCA; README of python-ldl 0.1.2.
PUBLISHED: dict[str, dict[str, dict[str, tuple[float, float]]]] = {
    "tae": {
        "POM": {"distance": (0.616, 0.101)},
        "SVORIM, RBF kernel, tuned": {"distance": (0.475, 0.069)},
        "SVC, RBF kernel, tuned": {"distance": (0.534, 0.109)},
    },
    "s-jaffe": {
        "SA-BFGS": {
            "chebyshev": (0.092, 0.010),
            "clark": (0.361, 0.029),
            "canberra": (0.735, 0.060),
            "kl_divergence": (0.051, 0.009),
            "cosine": (0.954, 0.009),
            "intersection": (0.878, 0.011),
        }
    },
}


@dataclass(frozen=True)
class Settings:
    """Sizes.

    Attributes:
        sets: `tae` and `s-jaffe`.
        splits: number of splits of `tae`.
        seeds: number of random divisions of s-JAFFE into folds.
        folds: folds of s-JAFFE.
        alphas: penalties to choose from.
    """

    sets: tuple[str, ...] = ("tae", "s-jaffe")
    splits: int = 30
    seeds: int = 10
    folds: int = 10
    alphas: tuple[float, ...] = (100.0, 30.0, 10.0, 3.0)


def compute(settings: Settings, cache: Cache | None = None) -> dict[str, Any]:
    """Scores of every method, on the same splits."""
    cache = cache or Cache()
    found: dict[str, Any] = {}
    if "tae" in settings.sets:
        found["tae"] = {
            name: cache.part(f"tae, {name}", partial(_of_tae, method, settings))
            for name, method in _ordinal_methods().items()
        }
    if "s-jaffe" in settings.sets:
        found["s-jaffe"] = {
            name: cache.part(f"s-jaffe, {name}", partial(_of_jaffe, method, settings))
            for name, method in _distribution_methods(settings).items()
        }
    return found


def _ordinal_methods() -> dict[str, Callable[[], Any]]:
    """Estimators of ordered labels by name; the last step of each gets standardised features."""
    powers = (10.0 ** np.arange(-3, 4)).tolist()  # ORCA's grid
    tuned = partial(GridSearchCV, scoring="neg_mean_absolute_error", cv=5)
    ours = partial(WassersteinClassifier, "ordinal", classes=[0, 1, 2])
    of_kernel = {"nystroem__gamma": powers[:4], "wassersteinclassifier__alpha": powers[:4]}
    methods: dict[str, Callable[[], Any]] = {
        "logistic regression": lambda: LogisticRegression(max_iter=1000),
        "SVC, RBF kernel, tuned": lambda: tuned(SVC(), {"C": powers, "gamma": powers}),
        "W + KL": ours,
        "W + KL, tuned": lambda: WassersteinClassifierCV("ordinal", classes=[0, 1, 2], cv=5),
        "W + KL, a hidden layer of 32": lambda: ours(hidden_layer_sizes=(32,), random_state=0),
        OURS["tae"]: lambda: tuned(
            make_pipeline(Nystroem(random_state=0, n_components=80), ours(standardize=False)),
            of_kernel,
        ),
    }
    if find_spec("skordinal") is not None:
        from skordinal.classifiers import POM, LogisticAT

        methods = {"POM": POM, "LogisticAT": LogisticAT, **methods}
    return methods


def _of_tae(method: Callable[[], Any], settings: Settings) -> dict[str, list[float]]:
    """Mean absolute error and accuracy on each split."""
    found: dict[str, list[float]] = {"distance": [], "right": []}
    for split in orca_splits("tae", settings.splits):
        model = make_pipeline(StandardScaler(), method())
        off = np.abs(model.fit(split.x_train, split.y_train).predict(split.x_test) - split.y_test)
        found["distance"].append(float(off.mean()))
        found["right"].append(float((off == 0).mean()))
    return found


Fit = Callable[[Array, Array, Array], Array]  # training features, training targets, test features


def _distribution_methods(settings: Settings) -> dict[str, Fit]:
    def ours(x: Array, y: Array, x_test: Array, *, tune: bool, **keywords: Any) -> Array:
        model = WassersteinClassifier(_as_they_occur(y), **keywords)
        if tune:
            score = make_scorer(scores.kl_divergence)
            grid = {"alpha": list(settings.alphas)}
            model = GridSearchCV(model, grid, scoring=score, cv=KFold(3))
        predicted: Array = model.fit(x, y).predict_proba(x_test)
        return predicted

    methods: dict[str, Fit] = {
        "W + KL": partial(ours, tune=False),
        "KL, tuned": partial(ours, tune=True, transport_weight=0.0, kl_weight=1.0),
        OURS["s-jaffe"]: partial(ours, tune=True),
    }
    if find_spec("pyldl") is not None:
        os.environ.setdefault("KERAS_BACKEND", "torch")
        from pyldl.algorithms import SA_BFGS

        methods = {"SA-BFGS": lambda x, y, x_test: SA_BFGS().fit(x, y).predict(x_test)} | methods
    return methods


def _as_they_occur(y: Array) -> GroundMetric:
    """The metric given by the distance between the labels' standardised weights in the examples."""
    return Embedding(torch.from_numpy(((y - y.mean(0)) / y.std(0)).T))


def _of_jaffe(fit: Fit, settings: Settings) -> dict[str, Any]:
    """The mean scores of each fold, and the divergence of each example in each repetition."""
    x, y = label_distributions("s-jaffe")
    found: dict[str, Any] = {name: [] for name in SCORES}
    each = np.empty((settings.seeds, len(y)))
    for seed in range(settings.seeds):
        for train, test in KFold(settings.folds, shuffle=True, random_state=seed).split(x):
            h = fit(x[train], y[train], x[test])
            for name in SCORES:
                found[name].append(getattr(scores, name)(h, y[test]))
            each[seed, test] = scores.kl_divergence(h, y[test], reduction="none")
    return {**found, "divergences": each.round(6).tolist()}


def draw(result: Result) -> dict[str, Figure]:
    """Draw means and standard deviations of every method, published ones first."""
    found = result["found"]
    axes_of = {"tae": ("distance", "mean absolute error"), "s-jaffe": ("kl_divergence", "KL")}
    figure, axes = new_figure(1, len(found), (5.4 * len(found), 3.4))
    for axis, (name, own) in zip(axes[0], found.items(), strict=True):
        score, title = axes_of[name]
        rows = list(_rows(name, own, score))
        for place, (_, mean, deviation, published) in enumerate(rows):
            color = COLORS[1] if published else COLORS[0]
            axis.errorbar(mean, place, xerr=deviation, fmt="s" if published else "o", color=color)
        labels = [f"{title}{' (published)' if old else ''}" for title, _, _, old in rows]
        axis.set_yticks(range(len(rows)), labels, fontsize=7)
        axis.invert_yaxis()
        finish(axis, name, f"{title}: mean and standard deviation", "method", legend=False)
    settings = result["settings"]
    state_sizes(
        figure,
        f"tae: {settings['splits']} splits; s-jaffe: {settings['seeds']} times "
        f"{settings['folds']} folds",
    )
    return {"rows": figure}


def _rows(
    name: str, own: Mapping[str, Any], score: str
) -> Iterator[tuple[str, float, float, bool]]:
    for method, theirs in PUBLISHED[name].items():
        yield method, *theirs[score], True
    for method, values in own.items():
        spread = np.std(values[score], ddof=1) if len(values[score]) > 1 else 0.0
        yield method, float(np.mean(values[score])), float(spread), False


def verdict(result: Result) -> list[Verdict]:
    """Whether published rows are reproduced, and whether our methods are nearer."""
    verdicts = []
    for name, own in result["found"].items():
        verdicts += [_agreement(name, m, own[m]) for m in PUBLISHED[name] if m in own]
        if RIVAL[name] in own:
            verdicts.append(_nearer(name, own[OURS[name]], own[RIVAL[name]], own))
    return verdicts


def _agreement(name: str, method: str, values: Mapping[str, Any]) -> Verdict:
    published = PUBLISHED[name][method]
    found = {score: float(np.mean(values[score])) for score in published}
    within = [abs(found[s] - mean) <= deviation for s, (mean, deviation) in published.items()]
    effect = ", ".join(
        f"{score.replace('_', ' ')} {found[score]:.3f} ({mean:.3f} ± {deviation:.3f})"
        for score, (mean, deviation) in published.items()
    )
    return Verdict(
        f"{method} on {name} is as published",
        Outcome.HELD if all(within) else Outcome.PARTLY if any(within) else Outcome.FAILED,
        effect,
        "In brackets what was published; held if within its standard deviation.",
    )


def _nearer(
    name: str, ours: Mapping[str, Any], theirs: Mapping[str, Any], own: Mapping[str, Any]
) -> Verdict:
    if name == "tae":
        gaps = np.subtract(ours["distance"], theirs["distance"])
        gap = split_interval(gaps, 38 / 113)._asdict()
        base, unit = float(np.mean(theirs["distance"])), "mean absolute error"
    else:
        gap = asdict(
            scores.paired_difference(np.subtract(ours["divergences"], theirs["divergences"]))
        )
        base, unit = float(np.mean(theirs["divergences"])), "KL divergence"
    outcome = Outcome.HELD if gap["high"] < 0 else Outcome.FAILED
    words = ""
    if name == "s-jaffe":
        plain = float(np.mean(own["KL, tuned"]["divergences"]))
        words = f" KL alone, with the same tuning, has {plain:.4f}."
    return Verdict(
        f"{OURS[name]}, is nearer than {RIVAL[name]} on {name}",
        outcome,
        f"{gap['mean']:+.4f} [{gap['low']:+.4f}, {gap['high']:+.4f}] against {base:.4f}",
        f"In {unit}, on the same splits.{words}",
    )


EXPERIMENT = Experiment(
    name="published",
    title="Published tables: ordered classes and label distributions",
    claim="on the splits of published tables, rows come out as published, and ours are nearer",
    figure="beyond the paper",
    quick=Settings(splits=5, seeds=1),
    full=Settings(),
    compute=compute,
    draw=draw,
    verdict=verdict,
)
