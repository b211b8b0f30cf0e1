"""Every score recomputed from definitions or other libraries, without wassloss.

Each takes predictions `h` and targets `y`, both `(batch, K)` with rows that sum to 1, and the
weights of the examples. Ordered labels are one step apart.
"""

import itertools
import warnings
from collections.abc import Callable

import numpy as np
from scipy.stats import wasserstein_distance
from sklearn import metrics

from tests.scores.cases import Array, ranked

Oracle = Callable[[Array, Array, Array], float]
TINY = np.finfo(float).eps


def mean_over_examples(of_one: Callable[[Array, Array], float]) -> Oracle:
    def score(h: Array, y: Array, weight: Array) -> float:
        values = [of_one(a, b) for a, b in zip(h, y, strict=True)]
        return float(np.average(values, weights=weight))

    return score


def steps(a: Array, b: Array) -> float:
    return abs(ranked(a)[0] - int(b.argmax()))


def distance_at(k: int) -> Callable[[Array, Array], float]:
    def of_one(a: Array, b: Array) -> float:
        return sum(b[j] * abs(guess - j) for guess in ranked(a)[:k] for j in range(len(b))) / k

    return of_one


def nearest_at(k: int) -> Callable[[Array, Array], float]:
    def of_one(a: Array, b: Array) -> float:
        return sum(np.abs(np.flatnonzero(b) - guess).min() for guess in ranked(a)[:k]) / k

    return of_one


def hits(a: Array, b: Array, k: int) -> int:
    return sum(b[guess] > 0 for guess in ranked(a)[:k])


def mistake_severity(h: Array, y: Array, weight: Array) -> float:
    total = count = 0.0
    for a, b, w in zip(h, y, weight, strict=True):
        if steps(a, b):
            total, count = total + w * steps(a, b), count + w
    return total / count if count else float("nan")


def errors_of_classes(h: Array, y: Array, weight: Array) -> list[float]:
    true = y.argmax(1)
    error = np.array([steps(a, b) for a, b in zip(h, y, strict=True)])
    return [float(np.average(error[true == c], weights=weight[true == c])) for c in np.unique(true)]


def quadratic_weighted_kappa(h: Array, y: Array, weight: Array) -> float:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about an undefined kappa
        return metrics.cohen_kappa_score(
            y.argmax(1),
            [ranked(row)[0] for row in h],
            weights="quadratic",
            sample_weight=weight,
            labels=range(h.shape[1]),
        )


def expected_calibration_error(h: Array, y: Array, weight: Array) -> float:
    gap, edges = 0.0, np.linspace(0, 1, 16)
    right = np.array([b[ranked(a)[0]] == b.max() for a, b in zip(h, y, strict=True)])
    for low, high in itertools.pairwise(edges):
        inside = (h.max(1) > low) & (h.max(1) <= high)
        gap += abs((weight * inside * (right - h.max(1))).sum())
    return gap / weight.sum()


def pairs_won(a: Array, b: Array) -> float:
    """The AUC by its definition: how often a true label has a higher score than a false one."""
    true, false = a[b > 0][:, None], a[b == 0]
    return ((true > false) + (true == false) / 2).mean()


def clipped(of_one: Callable[[Array, Array], float]) -> Oracle:
    """Clip entries to the rounding of 1, as in python-ldl."""
    return mean_over_examples(lambda a, b: of_one(np.clip(a, TINY, 1), np.clip(b, TINY, 1)))


# Names of distributions in python-ldl 0.1.2.
OF_DISTRIBUTIONS: dict[str, Oracle] = {
    "brier_score": mean_over_examples(lambda a, b: np.square(a - b).sum()),
    "canberra": clipped(lambda a, b: (np.abs(a - b) / (a + b)).sum()),
    "chebyshev": mean_over_examples(lambda a, b: np.abs(a - b).max()),
    "clark": clipped(lambda a, b: np.sqrt(((a - b) ** 2 / (a + b) ** 2).sum())),
    "cosine": mean_over_examples(lambda a, b: a @ b / np.sqrt((a @ a) * (b @ b))),
    "distance_at_k": mean_over_examples(distance_at(1)),
    "intersection": mean_over_examples(lambda a, b: 1 - 0.5 * np.abs(a - b).sum()),
    "kl_divergence": clipped(lambda a, b: (b * (np.log(b) - np.log(a))).sum()),
    "mean_wasserstein": mean_over_examples(
        lambda a, b: wasserstein_distance(range(len(a)), range(len(a)), a, b)
    ),
    "negative_log_likelihood": clipped(lambda a, b: -(b * np.log(a)).sum()),
    "ranked_probability_score": mean_over_examples(
        lambda a, b: sum((a[: j + 1].sum() - b[: j + 1].sum()) ** 2 for j in range(len(a)))
    ),
}


def in_branches(a: Array, b: Array) -> float:
    """The first guess in a tree of two branches, of even and of odd labels."""
    guess, true = int(a.argmax()), int(b.argmax())
    return 1.0 if guess == true else 0.5 * float(guess % 2 == true % 2)


OF_CLASSES: dict[str, Oracle] = {
    "hierarchical_fbeta": mean_over_examples(in_branches),
    "accuracy": mean_over_examples(lambda a, b: steps(a, b) == 0),
    "average_mae": lambda *data: float(np.mean(errors_of_classes(*data))),
    "expected_calibration_error": expected_calibration_error,
    "maximum_mae": lambda *data: max(errors_of_classes(*data)),
    "mean_absolute_error": mean_over_examples(steps),
    "mistake_severity": mistake_severity,
    "off_by_one_accuracy": mean_over_examples(lambda a, b: steps(a, b) <= 1),
    "precision_at_k": mean_over_examples(lambda a, b: hits(a, b, 1)),
    "quadratic_weighted_kappa": quadratic_weighted_kappa,
    "ranking_auc": mean_over_examples(pairs_won),
    "recall_at_k": mean_over_examples(lambda a, b: hits(a, b, 1) / (b > 0).sum()),
    "top_k_cost": mean_over_examples(nearest_at(1)),
}
ORACLES = OF_DISTRIBUTIONS | OF_CLASSES
AT_TWO: dict[str, Oracle] = {
    "distance_at_k": mean_over_examples(distance_at(2)),
    "precision_at_k": mean_over_examples(lambda a, b: hits(a, b, 2) / 2),
    "recall_at_k": mean_over_examples(lambda a, b: hits(a, b, 2) / (b > 0).sum()),
    "top_k_cost": mean_over_examples(nearest_at(2)),
}
LARGER_IS_BETTER = {
    "hierarchical_fbeta",
    "accuracy",
    "cosine",
    "intersection",
    "off_by_one_accuracy",
    "precision_at_k",
    "quadratic_weighted_kappa",
    "ranking_auc",
    "recall_at_k",
}
