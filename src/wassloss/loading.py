"""One loader for what was trained: a run of the command line, or an estimator."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from wassloss.training.checkpoints import has_checkpoints

if TYPE_CHECKING:
    from wassloss.estimators.base import TransportEstimator
    from wassloss.runs import TrainedRun


def load(path: str | os.PathLike[str], device: str = "cpu") -> TrainedRun | TransportEstimator:
    """Load what ``wassloss train`` or the ``save`` of an estimator wrote, ready to predict.

    What comes back is the whole way from features to labels, with the preprocessing that was
    trained with the model. Nothing is unpickled, and damaged files are refused.

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
    ...     _ = fit(Settings("clipart", iterations=20, standardize=True), f"{folder}/run")
    ...     run = wl.load(f"{folder}/run")
    >>> x = wl.data.clipart().features
    >>> run.predict(x).shape, run.predict_proba(x).shape, len(run.labels)
    ((3159,), torch.Size([3159, 206]), 206)
    """
    path = Path(path)
    if path.is_file():
        from wassloss.estimators.storage import load_any

        return load_any(path, device)
    from wassloss.runs import open_run
    from wassloss.runs.directory import CONFIG

    if has_checkpoints(path) and not (path / CONFIG).exists():
        raise ValueError(
            f"{path} holds checkpoints of wassloss.train alone: wassloss.training.load_model reads "
            "their model"
        )
    return open_run(path, device)
