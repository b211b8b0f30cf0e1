"""From a task to a fitted classifier in a directory."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import numpy as np

from wassloss._files import remove_leftovers
from wassloss.estimators import WassersteinClassifier
from wassloss.estimators.base import Kept
from wassloss.runs import directory as files
from wassloss.runs.evaluation import ExampleScores, evaluate
from wassloss.runs.task import Examples, Task
from wassloss.runs.trained import TrainedRun
from wassloss.training.checkpoints import has_checkpoints
from wassloss.training.directory_lock import check_not_in_use, owned
from wassloss.training.run import versions


@dataclass(frozen=True)
class RunResult:
    """What came of a run: the classifier, and its scores on what was held out, if anything was."""

    model: WassersteinClassifier
    seconds: float
    part: str | None = None
    scores: ExampleScores | None = None


def fit(
    task: Task,
    params: Mapping[str, Any],
    out: Path,
    *,
    resume: bool = False,
    device: str = "cpu",
    checkpoint_every: int = 1000,
    progress: bool | None = None,
) -> RunResult:
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
        progress: show a bar; None for only on a terminal.

    Raises:
        ValueError: task, parameters and data do not fit together, or not the run that is there.
        DirectoryInUseError: another process is training there.
        KeyboardInterrupt: on Ctrl-C, after small steps have been saved.
    """
    _check_free(out, resume)
    old = files.read_config(out) if resume and (out / files.CONFIG).exists() else None
    asked = _plain({"task": task.config(), "params": dict(params)})
    if old is not None:
        _check_settings(old, asked, out)
    examples = task.examples()
    new = asked | _made_of(examples)
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
        examples.metric,
        classes=examples.classes,
        random_state=task.seed,
        device=device,
        **params,
    )
    data, began = examples.to_train_on(), time.monotonic()
    with ExitStack() as stack:

        def lock() -> None:
            stack.enter_context(owned(out))
            _check_free(out, resume)  # again, now that no other process can write
            if old is not None and files.read_config(out) != old:
                raise ValueError(f"{out} was changed by another run while this one was starting")

        def begin() -> None:
            remove_leftovers(out)
            files.write_run(out, new if old is None else {**old, "files": {}}, {})

        kept = Kept(out, resume, checkpoint_every, progress, lock, begin)
        model._fit_kept(data.features.numpy(), data.y, kept)
        model.table_ = task.columns_of(data)
        model.device = "cpu"
        model.model_.cpu()
        return _finish(TrainedRun(model, out, files.read_config(out)), examples, began)


def _finish(run: TrainedRun, examples: Examples, began: float) -> RunResult:
    """Write the fitted classifier, and its scores on what was held out."""
    seconds = time.monotonic() - began
    every = [name for name in ("validation", "test") if name in examples.data.parts]
    # Read by the order of the metric, not by that of the file.
    judged = {part: run.in_order(examples.data.part(part)) for part in every}
    found = {part: evaluate(run, data) for part, data in judged.items()}
    summary = {
        "training": {"n_iter": run.model.n_iter_, "seconds": seconds},
        "parts": {part: own.to_json() for part, own in found.items()},
    }
    written = {
        files.MODEL: run.model._packed(),
        files.SCORES: (json.dumps(summary, indent=1) + "\n").encode(),
    }
    if (run.path / files.LOG).exists():
        written[files.LOG] = (run.path / files.LOG).read_bytes()
    files.write_run(run.path, run.config, written)
    if not every:
        return RunResult(run.model, seconds)
    return RunResult(run.model, seconds, every[-1], found[every[-1]])


def _check_free(path: Path, resume: bool) -> None:
    """Refuse to train over a run, or to continue from checkpoints of unknown origin.

    Without a checkpoint or a model there is no run that could be lost.
    """
    held = has_checkpoints(path) or (path / files.MODEL).exists()
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


def _made_of(examples: Examples) -> dict[str, Any]:
    """What else the outcome depends on."""
    return {
        "metric": repr(examples.metric),
        "fingerprints": examples.fingerprints(),
        "versions": versions() | {"numpy": np.__version__},
        "started": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "files": {},
    }


def _check_settings(old: dict[str, Any], asked: dict[str, Any], path: Path) -> None:
    """Refuse to continue a run with other settings."""
    for kind, values in asked.items():
        for name, value in values.items():
            if old[kind].get(name) != value:
                raise ValueError(
                    f"{path} was trained with {name} {old[kind].get(name)!r}, and cannot be "
                    f"continued with {value!r}"
                )


def _plain(values: dict[str, Any]) -> dict[str, Any]:
    """With lists for tuples, as JSON has them."""
    found: dict[str, Any] = json.loads(json.dumps(values))
    return found
