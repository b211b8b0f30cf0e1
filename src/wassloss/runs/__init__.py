"""Runs: directories that hold what was trained, on what, how, and how well it does.

================================  ================================================================
``config.json``                   settings, columns, labels, model, loss, versions: everything that
                                  the outcome depends on; and the SHA-256 sums of all files except
                                  checkpoints, which have their own
``start.safetensors``             the model before its first step, with the ground metric and the
                                  standardisation of its features
``log.jsonl``, ``checkpoint-…``   those of :func:`wassloss.training.train`
``model.safetensors``             the trained model, with the metric and the standardisation
``scores.json``                   scores on examples that were held out
================================  ================================================================

:func:`wassloss.load` returns everything that predicting takes.

>>> from wassloss import runs
>>> runs.Settings("clipart", kl_weight=0.1, steps=300).batch_size
100
"""

from wassloss.runs.fitting import fit
from wassloss.runs.loading import load
from wassloss.runs.settings import Settings
from wassloss.runs.trained import TrainedRun

__all__ = ["Settings", "TrainedRun", "fit", "load"]
