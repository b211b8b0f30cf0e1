"""One loader for everything that was trained: a run of the command line, or an estimator."""

from __future__ import annotations

import os
from pathlib import Path

from wassloss.estimators import WassersteinClassifier, WassersteinMeasureRegressor
from wassloss.estimators.model_file import one_line_errors, unpack
from wassloss.runs.trained import TrainedRun, open_run

__all__ = ["load"]


def load(
    path: str | os.PathLike[str], device: str = "cpu"
) -> TrainedRun | WassersteinClassifier | WassersteinMeasureRegressor:
    """Load what ``wassloss train`` or the ``save`` of an estimator wrote, ready to predict.

    The result includes the preprocessing that was trained with the model. Nothing is unpickled,
    and damaged files are refused.

    Args:
        path: the directory of a run, which becomes a :class:`wassloss.runs.TrainedRun`; or the file
            of an estimator, which becomes that estimator.
        device: where to predict.

    Raises:
        FileNotFoundError: there is nothing of either kind.
        ValueError: a file is damaged, or something else; the message says which and what to do.

    >>> import tempfile, wassloss as wl
    >>> from wassloss.runs import Settings, fit
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = fit(Settings("clipart", steps=20, standardize=True), f"{folder}/run")
    ...     run = wl.load(f"{folder}/run")
    >>> x = wl.data.clipart().features
    >>> run.predict(x).shape, run.predict_proba(x).shape, len(run.labels)
    ((3159,), torch.Size([3159, 206]), 206)
    """
    path = Path(path)
    if not path.is_file():
        return open_run(path, device)
    with one_line_errors(path, "estimator"):
        fitted, state = unpack(path.read_bytes())
        for kind in (WassersteinClassifier, WassersteinMeasureRegressor):
            if state["kind"] == kind.__name__:
                return kind._restored(fitted, state, device)
        raise ValueError(f"it holds a {state['kind']}; give the directory of a run, not its file")
