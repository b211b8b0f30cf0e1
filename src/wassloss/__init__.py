"""Supervised learning with a Wasserstein loss: for when some mistakes are worse than others.

>>> import torch, wassloss as wl
>>> loss_fn = wl.WassersteinLoss(wl.ground.Ordinal(10))  # ratings from 0 to 9
>>> loss = loss_fn(torch.randn(32, 10), torch.randint(10, (32,)))
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from wassloss import functional, ground, transport
from wassloss.functional import solve, wasserstein
from wassloss.losses import NearestWassersteinLoss, RelaxedWassersteinLoss, WassersteinLoss
from wassloss.targets import SparseTarget
from wassloss.transport import ConvergenceWarning, Solution

if TYPE_CHECKING:
    from wassloss import bounds, data, estimators, models, rivals, runs, scores, training
    from wassloss.estimators import WassersteinClassifier, WassersteinMeasureRegressor
    from wassloss.loading import load
    from wassloss.training import TrainingPlan, train

__version__ = "0.1.0"

__all__ = [
    "ConvergenceWarning",
    "NearestWassersteinLoss",
    "RelaxedWassersteinLoss",
    "Solution",
    "SparseTarget",
    "TrainingPlan",
    "WassersteinClassifier",
    "WassersteinLoss",
    "WassersteinMeasureRegressor",
    "bounds",
    "data",
    "estimators",
    "functional",
    "ground",
    "load",
    "models",
    "rivals",
    "runs",
    "scores",
    "solve",
    "train",
    "training",
    "transport",
    "wasserstein",
]


# What a loss does not need is imported when it is first asked for: scikit-learn and the readers of
# data take as long as all the rest.
_ROOMS = frozenset(
    {"bounds", "data", "estimators", "models", "rivals", "runs", "scores", "training"}
)
_ROOM_OF = {
    "TrainingPlan": "training",
    "WassersteinClassifier": "estimators",
    "WassersteinMeasureRegressor": "estimators",
    "load": "loading",
    "train": "training",
}


def __getattr__(name: str) -> Any:
    if name in _ROOMS:
        return import_module(f"wassloss.{name}")
    if name in _ROOM_OF:
        return getattr(import_module(f"wassloss.{_ROOM_OF[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
