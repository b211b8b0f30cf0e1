"""Runs: directories that hold what `wassloss train` fitted, to what, and how well it does.

================================  ================================================================
``config.json``                   the task, the classifier's parameters, versions, and sums of the
                                  training data and the metric; and the SHA-256 sums of the files
                                  below, except checkpoints, which have their own
``log.jsonl``, ``checkpoint-…``   those of :func:`wassloss.training.train`, of small steps only
``model.safetensors``             the fitted classifier, as its `save` writes it
``scores.json``                   scores on examples that were held out
================================  ================================================================

:func:`load`, also as ``wassloss.load``, returns the classifier, ready to predict.
"""

from wassloss.runs.directory import load

__all__ = ["load"]
