"""Many small models of one shape, trained at once with the paper's Algorithm 2.

:func:`train_linear` is for linear models with one label per example, whose steps have a closed
form; :func:`train_many` is for any model, target and per-example loss.
"""

from experiments.lab.many.one_label import OneLabelLoss
from experiments.lab.many.train import train_linear, train_many

__all__ = ["OneLabelLoss", "train_linear", "train_many"]
