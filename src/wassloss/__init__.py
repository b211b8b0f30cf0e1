"""Supervised learning with a Wasserstein loss: for when some mistakes are worse than others.

>>> import torch, wassloss as wl
>>> loss_fn = wl.WassersteinLoss(wl.ground.Ordinal(10))  # ratings from 0 to 9
>>> loss = loss_fn(torch.randn(32, 10), torch.randint(10, (32,)))
"""

from wassloss import data, functional, ground, models, runs, scores, training, transport
from wassloss.functional import solve, wasserstein
from wassloss.losses import RelaxedWassersteinLoss, WassersteinLoss
from wassloss.targets import SparseTarget
from wassloss.training import TrainingPlan, train
from wassloss.transport import ConvergenceWarning, Solution

__version__ = "0.1.0"

__all__ = [
    "ConvergenceWarning",
    "RelaxedWassersteinLoss",
    "Solution",
    "SparseTarget",
    "TrainingPlan",
    "WassersteinLoss",
    "data",
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
