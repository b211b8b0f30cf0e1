"""Many small models of one shape, trained at once; see :func:`train_many`."""

from wassloss.training.many.train import ManyResult, train_many

__all__ = ["ManyResult", "train_many"]
