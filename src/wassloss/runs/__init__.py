"""Runs: a directory that holds what was trained, on what, how, and how well it does.

================================  ================================================================
``config.json``                   settings, columns, labels, model, loss, versions: all that the
                                  outcome depends on; and the SHA-256 sums of all files but the
                                  checkpoints, which have their own
``metric.npz``                    the ground metric, with the labels' names
``standardization.npz``           means and scales of the features, where they were asked for
``log.jsonl``, ``checkpoint-…``   those of :func:`wassloss.training.train`
``model.safetensors``             the weights that came of it
``scores.json``                   scores on examples that were held out
================================  ================================================================

:func:`wassloss.load` gives back all that is needed to predict.

>>> from wassloss import runs
>>> settings = runs.Settings(data="clipart", kl_weight=0.1, iterations=300)
>>> settings.plan().batch_size
100
"""

from wassloss.runs.evaluation import ExampleScores, evaluate
from wassloss.runs.fitting import Outcome, fit
from wassloss.runs.inputs import Inputs
from wassloss.runs.reading import inputs_for, read_inputs
from wassloss.runs.settings import Settings
from wassloss.runs.trained import TrainedRun, open_run

__all__ = [
    "ExampleScores",
    "Inputs",
    "Outcome",
    "Settings",
    "TrainedRun",
    "evaluate",
    "fit",
    "inputs_for",
    "open_run",
    "read_inputs",
]
