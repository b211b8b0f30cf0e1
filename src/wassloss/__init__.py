"""Supervised learning with a Wasserstein loss: for when some mistakes are worse than others.

>>> import torch, wassloss as wl
>>> loss_fn = wl.WassersteinLoss(wl.ground.Ordinal(10))  # ratings from 0 to 9
>>> loss = loss_fn(torch.randn(32, 10), torch.randint(10, (32,)))
"""

from typing import TYPE_CHECKING, Any

from wassloss import data, functional, ground, models, runs, scores, training, transport
from wassloss.functional import solve, wasserstein
from wassloss.losses import RelaxedWassersteinLoss, WassersteinLoss
from wassloss.targets import SparseTarget
from wassloss.training import TrainingPlan, train
from wassloss.transport import ConvergenceWarning, Solution

if TYPE_CHECKING:
    from wassloss import estimators
    from wassloss.estimators import WassersteinClassifier, WassersteinMeasureRegressor

__version__ = "0.1.0"

__all__ = [
    "ConvergenceWarning",
    "RelaxedWassersteinLoss",
    "Solution",
    "SparseTarget",
    "TrainingPlan",
    "WassersteinClassifier",
    "WassersteinLoss",
    "WassersteinMeasureRegressor",
    "data",
    "estimators",
    "functional",
    "ground",
    "models",
    "runs",
    "scores",
    "solve",
    "train",
    "training",
    "transport",
    "wasserstein",
]


def __getattr__(name: str) -> Any:
    # scikit-learn takes a third of the time that all the rest takes to import.
    if name not in ("WassersteinClassifier", "WassersteinMeasureRegressor", "estimators"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    estimators = import_module("wassloss.estimators")
    return estimators if name == "estimators" else getattr(estimators, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
