"""Many small models of one shape, trained at once; see :func:`train_many`."""

from experiments.lab.many.train import ManyResult, train_many

__all__ = ["ManyResult", "train_many"]
