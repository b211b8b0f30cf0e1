"""Supervised learning with a Wasserstein loss, for tasks where some mistakes are worse than others.

>>> import torch, wassloss as wl
>>> loss_fn = wl.WassersteinLoss(wl.ground.Ordinal(10))  # ratings from 0 to 9
>>> loss = loss_fn(torch.randn(32, 10), torch.randint(10, (32,)))
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from wassloss import (
        boosting,
        datasets,
        decisions,
        estimators,
        files,
        ground,
        language,
        losses,
        models,
        scores,
        transport,
    )
    from wassloss._config import show_config
    from wassloss.app.comparison import compare
    from wassloss.app.model import load
    from wassloss.estimators import (
        LeastCostClassifier,
        WassersteinClassifier,
        WassersteinClassifierCV,
        WassersteinMeasureRegressor,
    )
    from wassloss.language import LinearWassersteinLoss, NumberTokenLoss
    from wassloss.losses import (
        NearestWassersteinLoss,
        RelaxedWassersteinLoss,
        WassersteinLoss,
        solve,
        wasserstein,
    )
    from wassloss.sets import SetTarget
    from wassloss.targets import SparseTarget
    from wassloss.transport import ConvergenceWarning, Solution

__version__ = "0.2.0"

__all__ = [
    "ConvergenceWarning",
    "LeastCostClassifier",
    "LinearWassersteinLoss",
    "NearestWassersteinLoss",
    "NumberTokenLoss",
    "RelaxedWassersteinLoss",
    "SetTarget",
    "Solution",
    "SparseTarget",
    "WassersteinClassifier",
    "WassersteinClassifierCV",
    "WassersteinLoss",
    "WassersteinMeasureRegressor",
    "boosting",
    "compare",
    "datasets",
    "decisions",
    "estimators",
    "files",
    "ground",
    "language",
    "load",
    "losses",
    "models",
    "scores",
    "show_config",
    "solve",
    "transport",
    "wasserstein",
]


# Everything is imported on first use: torch takes seconds to import, scikit-learn and data readers
# almost as long, and the command line must handle Ctrl-C before these imports.
_MODULE_OF = {
    "ConvergenceWarning": "transport",
    "LeastCostClassifier": "estimators",
    "LinearWassersteinLoss": "language",
    "NearestWassersteinLoss": "losses",
    "NumberTokenLoss": "language",
    "RelaxedWassersteinLoss": "losses",
    "SetTarget": "sets",
    "Solution": "transport",
    "SparseTarget": "targets",
    "WassersteinClassifier": "estimators",
    "WassersteinClassifierCV": "estimators",
    "WassersteinLoss": "losses",
    "WassersteinMeasureRegressor": "estimators",
    "compare": "app.comparison",
    "show_config": "_config",
    "solve": "losses",
    "load": "app.model",
    "wasserstein": "losses",
}


def __getattr__(name: str) -> Any:
    if name in _MODULE_OF:
        found = getattr(import_module(f"wassloss.{_MODULE_OF[name]}"), name)
        globals()[name] = found  # later lookups skip this function
        return found
    if name in __all__ or name == "targets":
        return import_module(f"wassloss.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
