"""Runs: directories that hold what was trained, on what, how, and how well it does.

================================  ================================================================
``config.json``                   settings, columns, labels, model, loss, versions: everything that
                                  the outcome depends on; and the SHA-256 sums of all files except
                                  checkpoints, which have their own
``start.safetensors``             the classifier before its first step, as its `save` writes it
``log.jsonl``, ``checkpoint-…``   those of :func:`wassloss.training.train`
``model.safetensors``             the trained classifier, likewise
``scores.json``                   scores on examples that were held out
================================  ================================================================

:func:`load`, also as ``wassloss.load``, returns the classifier, ready to predict.

>>> from wassloss import runs
>>> runs.Settings("clipart", kl_weight=0.1, steps=300).batch_size
100
"""

from wassloss.runs.fitting import fit
from wassloss.runs.settings import Settings
from wassloss.runs.trained import TrainedRun, load

__all__ = ["Settings", "TrainedRun", "fit", "load"]
