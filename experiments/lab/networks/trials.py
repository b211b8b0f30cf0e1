"""Search the strengths of every loss equally, and train the chosen ones with many seeds."""

from __future__ import annotations

import multiprocessing
import os
import warnings
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.stats import qmc
from sklearn.linear_model import Ridge
from torch import Tensor

from experiments.lab.networks.fitting import fit
from experiments.lab.networks.losses import FAMILIES, Family
from experiments.lab.networks.scoring import LARGER_IS_BETTER, Scores, score
from experiments.lab.networks.tasks import Part, Task, load_task
from wassloss import ConvergenceWarning
from wassloss.scores import expected_calibration_error, paired_difference

RATES = (0.3, 3.0)  # lowest and highest multiple of the recipe's rate
DECAYS = (0.1, 10.0)
MOST_STRENGTHS = 3
PER_GPU = 6  # number of processes that share a GPU
# How far below cross-entropy's score a choice may be, so that distance has no such price.
SLACK = {"right": 0.005, "auc": 0.002, "nll": 0.02}


@dataclass(frozen=True)
class Trial:
    """A loss with its strengths, and settings of its training.

    Attributes:
        rate, decay: multiples of those of the task's recipe.
    """

    family: str
    strengths: tuple[tuple[str, float], ...] = ()
    rate: float = 1.0
    decay: float = 1.0

    def as_json(self) -> dict[str, Any]:
        return {**asdict(self), "strengths": dict(self.strengths)}

    @classmethod
    def from_json(cls, read: Mapping[str, Any]) -> Trial:
        return cls(**{**read, "strengths": tuple(read["strengths"].items())})


@dataclass(frozen=True)
class Job:
    """A trial on a task, with the seed of the split, the weights and the order of rows."""

    task: str
    trial: Trial
    seed: int
    part: str = "test"


@dataclass(frozen=True)
class Run:
    """Scores of each example, and the time per step.

    Attributes:
        ece: the expected calibration error, if examples have one label.
        means: mean scores, including those that are not stored for each example.
    """

    scores: Scores
    milliseconds: float = field(compare=False)
    ece: float | None = None
    means: Mapping[str, float] = field(default_factory=dict, compare=False)

    @property
    def names(self) -> list[str]:
        """The names of all scores."""
        return list(self.means or self.scores)

    def mean(self, name: str) -> float:
        return self.means[name] if name in self.means else float(self.scores[name].mean())


def draw_trials(name: str, family: Family, count: int) -> list[Trial]:
    """Draw trials: learning rates and penalties common to all families, and strengths."""
    points = qmc.Halton(2 + MOST_STRENGTHS, scramble=True, rng=0).random(count)
    return [
        Trial(
            name,
            tuple(
                (strength, _between(u, *limits))
                for u, (strength, limits) in zip(point[2:], family.ranges.items(), strict=False)
            ),
            _between(point[0], *RATES),
            _between(point[1], *DECAYS),
        )
        for point in points
    ]


def _between(u: float, low: float, high: float) -> float:
    return float(f"{low * (high / low) ** u:.4g}")


def run(job: Job) -> Run:
    """Train one network and score it."""
    torch.set_num_threads(1)  # as many processes as there are cores
    task, family = _task(job.task, job.seed), FAMILIES[job.trial.family]
    recipe = replace(
        task.recipe,
        rate=task.recipe.rate * job.trial.rate,
        decay=task.recipe.decay * job.trial.decay,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # caused by unsuitable strengths
        fitted = fit(task, family.build(task, dict(job.trial.strengths)), job.seed, recipe)
    outputs = fitted.validation if job.part == "validation" else fitted.test
    part, h = getattr(task, job.part), family.probabilities(outputs)
    one_label = isinstance(part.target, Tensor) and not part.target.is_floating_point()
    ece = float(expected_calibration_error(h, part.target)) if one_label else None
    return Run(score(task, part, h), fitted.milliseconds, ece)


def ridge(name: str, seed: int) -> Run:
    """Linear regression on ordered labels as numbers, rounded; its penalty is chosen likewise."""
    task = _task(name, seed)

    def distances(alpha: float, part: Part) -> Scores:
        fitted = Ridge(alpha).fit(task.train.features.numpy(), as_labels(task.train))
        guess = np.rint(fitted.predict(part.features.numpy())).clip(0, task.metric.size - 1)
        off = np.abs(guess - as_labels(part))
        return {
            "right": (off == 0).astype(float),
            "distance": off,
            "grave": (off >= task.grave).astype(float),
        }

    def as_labels(part: Part) -> NDArray[np.float64]:
        return torch.as_tensor(part.target).double().numpy()

    alphas = 10.0 ** np.arange(-2, 5)
    best = min(alphas, key=lambda a: float(distances(a, task.validation)["distance"].mean()))
    return Run(distances(best, task.test), 0.0)


@lru_cache(2)
def _task(name: str, seed: int) -> Task:
    return load_task(name, seed)


def run_all(jobs: Sequence[Job]) -> list[Run]:
    """Run all jobs, with as many processes as there are cores, or as keep a GPU busy."""
    workers = PER_GPU if torch.cuda.is_available() else os.cpu_count() or 1
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(min(len(jobs), workers), context) as pool:
        return list(pool.map(run, jobs))


def choose(trials: Sequence[Trial], runs: Sequence[Run], decision: str, least: Run) -> Trial:
    """The trial with the least distance among those about as good as `least` in other scores.

    If there is none, the trial that comes nearest to that.
    """
    pairs = zip(trials, runs, strict=True)

    def rank(pair: tuple[Trial, Run]) -> tuple[float, float]:
        return behind(pair[1], least), pair[1].mean(f"{decision}distance")

    return min(pairs, key=rank)[0]


def behind(found: Run, least: Run) -> float:
    """How far a run is below the allowance in accuracy, AUC or, without them, likelihood."""
    guards: list[str] = [name for name in ("right", "auc") if name in least.names] or ["nll"]
    return max(0.0, *(_loss_in(name, found, least) - SLACK[name] for name in guards))


def _loss_in(name: str, found: Run, reference: Run) -> float:
    own, other = found.mean(name), reference.mean(name)
    return other - own if name in LARGER_IS_BETTER else own / other - 1


def differences(
    runs: Mapping[str, Sequence[Run]], pairs: Iterable[tuple[str, str]], names: Sequence[str]
) -> dict[str, dict[str, dict[str, float]]]:
    """For each pair, the mean of own minus other with its 95 % interval over examples and seeds."""
    found: dict[str, dict[str, dict[str, float]]] = {}
    for own, other in pairs:
        found[f"{own} − {other}"] = {
            name: asdict(
                paired_difference(
                    np.stack(
                        [
                            a.scores[name] - b.scores[name]
                            for a, b in zip(runs[own], runs[other], strict=True)
                        ]
                    )
                )
            )
            for name in names
            if name in runs[own][0].scores and name in runs[other][0].scores
        }
    return found
