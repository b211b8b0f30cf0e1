"""From a task to a fitted classifier in a directory."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import numpy as np

from wassloss._files import begins, check_replaceable, remove_leftovers
from wassloss.data import Dataset
from wassloss.data.fingerprints import Fingerprints
from wassloss.estimators import WassersteinClassifier
from wassloss.estimators.model_file import pack
from wassloss.ground import GroundMetric
from wassloss.runs import directory as files
from wassloss.runs.evaluation import ExampleScores, evaluate
from wassloss.runs.task import Task, fingerprint
from wassloss.training.checkpoints import checkpoint_paths
from wassloss.training.directory_lock import check_not_in_use, owned
from wassloss.training.run import versions

Fitted = tuple[files.TrainedRun, float, dict[str, ExampleScores]]


def fit(
    task: Task,
    params: Mapping[str, Any],
    out: Path,
    *,
    resume: bool = False,
    device: str = "cpu",
    checkpoint_every: int = 1000,
) -> Fitted:
    """Fit `WassersteinClassifier(**params)` to the data of a task, and keep it in a directory.

    Nothing is written before the data, the parameters and the directory have been checked.

    Args:
        task: what to learn.
        params: of the classifier, but for metric, classes, device and random_state.
        out: where the run goes; see :mod:`wassloss.runs`.
        resume: continue the run that is there, which must be of this task: small steps from their
            newest checkpoint, L-BFGS from its beginning. The outcome is the same.
        device: such as ``"cuda"``.
        checkpoint_every: steps between checkpoints.

    Returns:
        The run, the seconds that it took, and its scores on the parts that were held out, if any.

    Raises:
        ValueError: task, parameters and data do not fit together, or not the run that is there.
        DirectoryInUseError: another process is training there.
        KeyboardInterrupt: on Ctrl-C, after small steps have been saved.
    """
    _check_free(out, resume)
    old = files.read_config(out) if resume and (out / files.CONFIG).exists() else None
    # With lists for tuples, as JSON has them.
    asked = json.loads(json.dumps({"task": task.config(), "params": dict(params)}))
    if old is not None:
        _check_settings(old, asked, out)
    data, metric, classes = task.examples()
    new: dict[str, Any] = {
        **asked,
        "metric": repr(metric),
        "fingerprints": {"training data": fingerprint(data)},
        "versions": versions() | {"numpy": np.__version__},
        "started": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "files": {},
    }
    if isinstance(metric, GroundMetric):
        new["fingerprints"]["ground metric"] = fingerprint(metric)
    if old is not None:
        for what, found in new["fingerprints"].items():
            if old["fingerprints"].get(what) != found:
                raise ValueError(
                    f"{out} cannot be continued: its {what} changed after it began; restore it, "
                    "or train in another directory"
                )
        if files.LOG in old["files"] and (out / files.LOG).exists():
            files.read_checked(out, files.LOG, old)  # the run's lines follow those that are there
    model = WassersteinClassifier(
        metric, classes=classes, random_state=task.seed, device=device, **params
    )
    own, began = data.part("train") if data.parts else data, time.monotonic()
    prepared = model._prepared(*model._examples(own.features.numpy(), own.y, None))

    def begin() -> None:
        remove_leftovers(out)
        files.write_run(out, new if old is None else {**old, "files": {}}, {})

    with owned(out):
        _check_free(out, resume)  # again, now that no other process can write
        if old is not None and files.read_config(out) != old:
            raise ValueError(f"{out} was changed by another run while this one was starting")
        model._train(
            *prepared,
            begin=begin,
            checkpoint_every=checkpoint_every,
            progress=None,
            directory=out,
            resume=resume,
        )
        model.table_, model.trained_on_ = task.columns_of(data), Fingerprints.of(own.features)
        model.device = "cpu"
        model.model_.cpu()
        return _finish(files.TrainedRun(model, out, files.read_config(out)), data, began)


def _finish(run: files.TrainedRun, data: Dataset, began: float) -> Fitted:
    """Write the fitted classifier, and its scores on what was held out."""
    seconds = time.monotonic() - began
    found = {  # with labels in the order of the metric, not that of the file
        part: evaluate(run, data.part(part).with_labels(run.labels))
        for part in ("validation", "test")
        if part in data.parts
    }
    summary = {
        "training": {"n_iter": run.model.n_iter_, "seconds": seconds},
        "parts": {part: own.to_json() for part, own in found.items()},
    }
    written = {
        files.MODEL: pack(run.model),
        files.SCORES: (json.dumps(summary, indent=1) + "\n").encode(),
    }
    if (run.path / files.LOG).exists():
        written[files.LOG] = (run.path / files.LOG).read_bytes()
    files.write_run(run.path, run.config, written)
    return run, seconds, found


def _check_free(path: Path, resume: bool) -> None:
    """Refuse to train over a run, or to continue from checkpoints of unknown origin.

    Without a checkpoint or a model there is no run that could be lost.
    """
    held = checkpoint_paths(path) or (path / files.MODEL).exists()
    if held and not resume:
        check_not_in_use(path)  # its error says more
        raise ValueError(
            f"{path} holds a trained model already: pass resume (--resume) to continue a run, or "
            "choose another directory"
        )
    if held and not (path / files.CONFIG).exists():
        raise ValueError(
            f"{path} holds a model or checkpoints, but no {files.CONFIG} that says what of: choose "
            "another directory, or restore it"
        )
    if not held and not (resume and (path / files.CONFIG).exists()):
        _check_ours(path)


def _check_ours(path: Path) -> None:
    """Refuse files that a new run would replace or remove, unless they are those of a run.

    What it writes last says which files are its own, apart from the log.
    """
    try:
        own = files.read_config(path)["files"]
    except (OSError, ValueError):
        own = {}
        check_replaceable(path / files.CONFIG, "the configuration of a run", lambda _: False)
    check_replaceable(path / files.SCORES, "the scores of a run", lambda _: files.SCORES in own)
    check_replaceable(path / files.LOG, "the log of a run", begins(rb'\{"step": '))


def _check_settings(old: dict[str, Any], asked: dict[str, Any], path: Path) -> None:
    """Refuse to continue a run with other settings."""
    for kind, values in asked.items():
        for name, value in values.items():
            if old[kind].get(name) != value:
                raise ValueError(
                    f"{path} was trained with {name} {old[kind].get(name)!r}, and cannot be "
                    f"continued with {value!r}"
                )
