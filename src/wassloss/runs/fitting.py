"""From settings to a trained run in a directory."""

from __future__ import annotations

import dataclasses
import json
import os
import platform
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from wassloss import scores
from wassloss._files import pack_npz
from wassloss.ground import GroundMetric
from wassloss.ground.storage import to_arrays
from wassloss.losses import WassersteinLoss
from wassloss.runs.directory import (
    CONFIG,
    FORMAT,
    LOG,
    METRIC,
    MODEL,
    SCORES,
    STANDARDIZATION,
    checksum,
    json_bytes,
    model_bytes,
    read_checked,
    read_config,
    write_checked,
    write_config,
)
from wassloss.runs.evaluation import ExampleScores, evaluate
from wassloss.runs.inputs import Inputs
from wassloss.runs.parts import check_trainable, warn_of_unused
from wassloss.runs.reading import read_inputs
from wassloss.runs.settings import Settings
from wassloss.runs.standardization import Standardization
from wassloss.runs.trained import TrainedRun, read_metric, read_standardization
from wassloss.training import TrainingResult
from wassloss.training.checkpoints import has_checkpoints
from wassloss.training.directory_lock import check_not_in_use, owned
from wassloss.training.loop import train_in

# What may change when a run goes on; the plan's own checks say the same of the rest.
FREE_ON_RESUME = {"iterations", "log_every", "evaluate_every", "patience", "checkpoint_every"}


@dataclass(frozen=True)
class Outcome:
    """What came of a run.

    Attributes:
        training: of `wassloss.train`.
        part: the part that was held out and scored, or None.
        scores: on it.
    """

    training: TrainingResult
    part: str | None
    scores: ExampleScores | None


def fit(
    settings: Settings,
    directory: str | os.PathLike[str],
    *,
    resume: bool = False,
    device: str = "cpu",
    progress: bool | None = None,
    inputs: Inputs | None = None,
) -> Outcome:
    """Train as the settings say, and leave all that came of it in a directory.

    Args:
        settings: what to do.
        directory: where the run goes; see :mod:`wassloss.runs`.
        resume: go on with the run that is there.
        device: such as ``"cuda"``.
        progress: show a bar; None for only on a terminal.
        inputs: the data and metric of the settings, where they have been read already.

    Raises:
        ValueError: settings, data and metric do not fit together, or not the run that is there.
        DirectoryInUseError: another process is training there.
        KeyboardInterrupt: on Ctrl-C, once the run is saved so far.

    >>> import tempfile, wassloss as wl
    >>> settings = Settings("clipart", iterations=20, kl_weight=0.1)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     outcome = fit(settings, f"{folder}/run")
    >>> outcome.part, outcome.training.iterations
    ('test', 20)
    """
    path = Path(directory)
    first = is_first_process()
    if first:
        _check_free(path, resume)
    old = read_config(path) if resume and (path / CONFIG).exists() else None
    if inputs is None:
        inputs = _inputs(settings, path, old)
    check_trainable(inputs.parts)
    if first:
        warn_of_unused(inputs.parts)
    watched = "validation" if "validation" in inputs.parts else None
    if settings.patience is not None and watched is None:
        raise ValueError(
            "patience needs a validation part: pass validation (--validation 0.2), or data with one"
        )
    standardization = _standardization(settings, inputs, path, old)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(settings.seed)
        model = settings.model(inputs.features, inputs.metric.size)
    loss_fn = settings.loss_fn(inputs.metric)
    config = _config(settings, inputs, model, loss_fn)
    if old is not None:
        config = _continued(old, config, path)
    if old is not None and LOG in old["files"] and (path / LOG).exists():
        read_checked(path, LOG, old)  # the run's own lines follow those that are there
    run = TrainedRun(path, settings, config, inputs.metric, model, standardization, finished=False)
    sums: dict[str, str] = {}
    with owned(path) if first else nullcontext():
        if first:
            _check_unchanged(path, resume, old)
        score, higher = _score(settings.score, inputs.metric.to(device))
        result = train_in(
            path,
            model.to(device),
            loss_fn,
            _training_data(inputs, standardization),
            settings.plan(),
            validation=None
            if watched is None
            else _standardized(inputs.in_memory(watched), standardization),
            score=score,
            higher_is_better=higher,
            resume=resume,
            progress=progress,
            begin=lambda: sums.update(_begin(run, old)),
        )
        model.cpu().eval()
        if not first:
            return Outcome(result, None, None)
        return _finish(run, sums, inputs, result)


def is_first_process() -> bool:
    """Whether this is the one of the processes that `torchrun` started, if any, that writes."""
    return int(os.environ.get("RANK", 0)) == 0


def _check_free(path: Path, resume: bool) -> None:
    """Refuse to train over a run, or to go on with checkpoints of who knows what.

    Without a checkpoint there is no run that could be lost.
    """
    if (has_checkpoints(path) or (path / MODEL).exists()) and not resume:
        check_not_in_use(path)  # which says more
        raise ValueError(
            f"{path} holds a run already: pass resume (--resume) to go on with it, or choose "
            "another directory"
        )
    if has_checkpoints(path) and not (path / CONFIG).exists():
        raise ValueError(
            f"{path} has checkpoints but no {CONFIG}, so nothing says what they are of: restore "
            "it, or choose another directory"
        )


def _check_unchanged(path: Path, resume: bool, old: dict[str, Any] | None) -> None:
    """Look again, now that no other process can write: one may have since this run began."""
    _check_free(path, resume)
    if old is not None and read_config(path) != old:
        raise ValueError(f"{path} was changed by another run while this one was starting")


def _inputs(settings: Settings, path: Path, old: dict[str, Any] | None) -> Inputs:
    if old is None:
        return read_inputs(settings)
    names = old["features"]["names"]
    wanted = None if names is None else tuple(names)
    return read_inputs(settings, read_metric(path, old), wanted)


def _begin(run: TrainedRun, old: dict[str, Any] | None) -> dict[str, str]:
    """Write what a run depends on, the first thing that it writes at all; the files' sums."""
    path = run.path
    if old is not None:
        sums = {name: old["files"][name] for name in _dependencies(run)}
    else:
        (path / CONFIG).unlink(missing_ok=True)  # of a run that failed at its beginning
        sums = write_checked(path, METRIC, pack_npz(to_arrays(run.metric)))
        if run.standardization is not None:
            sums |= write_checked(path, STANDARDIZATION, pack_npz(run.standardization.to_arrays()))
    write_config(path, run.config, sums)
    for name in (MODEL, SCORES):  # of a run that goes on after its end
        (path / name).unlink(missing_ok=True)
    return sums


def _finish(
    run: TrainedRun, sums: dict[str, str], inputs: Inputs, result: TrainingResult
) -> Outcome:
    """Write what came of a run, with its scores on what was held out."""
    path = run.path
    sums |= write_checked(path, MODEL, model_bytes(run.model))
    parts = [name for name in ("validation", "test") if name in inputs.parts]
    found = {part: evaluate(run, inputs.batches(part)) for part in parts}
    summary = {
        field.name: getattr(result, field.name)
        for field in dataclasses.fields(result)
        if field.name != "log"
    }
    by_part = {part: own.to_json() for part, own in found.items()}
    sums |= write_checked(path, SCORES, json_bytes({"training": summary, "parts": by_part}))
    sums |= {LOG: checksum((path / LOG).read_bytes())}
    write_config(path, run.config, sums)
    return Outcome(result, parts[-1], found[parts[-1]]) if parts else Outcome(result, None, None)


def _dependencies(run: TrainedRun) -> list[str]:
    return [METRIC, *([] if run.standardization is None else [STANDARDIZATION])]


def _training_data(inputs: Inputs, standardization: Standardization | None) -> Any:
    rank, size = (int(os.environ.get(name, d)) for name, d in (("RANK", 0), ("WORLD_SIZE", 1)))
    given = inputs.training(rank, size)
    return _standardized(given, standardization) if isinstance(given, tuple) else given


def _standardization(
    settings: Settings, inputs: Inputs, path: Path, old: dict[str, Any] | None
) -> Standardization | None:
    """Means and scales of the training examples, or those that the run began with."""
    if not settings.standardize:
        return None
    if old is not None:
        return read_standardization(path, old)
    given = inputs.training()
    if not isinstance(given, tuple):
        raise ValueError("standardize needs data in memory: leave it out for a stream")
    return Standardization.of(given[0])


def _standardized(
    given: tuple[Tensor, Any], standardization: Standardization | None
) -> tuple[Tensor, Any]:
    features, target = given
    return (features if standardization is None else standardization(features)), target


def _score(name: str, metric: GroundMetric) -> tuple[Callable[[Tensor, Any], Any] | None, bool]:
    """What early stopping watches, and whether more of it is better."""
    if name == "loss":
        return None, False
    if name == "auc":
        return scores.ranking_auc, True
    if name == "accuracy":
        return scores.accuracy, True
    k = min(metric.size, 1 if name == "top1_cost" else 5)
    return lambda logits, target: scores.top_k_cost(logits, target, metric, k=k), False


def _config(
    settings: Settings, inputs: Inputs, model: nn.Module, loss_fn: nn.Module
) -> dict[str, Any]:
    from wassloss import __version__

    resolved = None
    if isinstance(loss_fn, WassersteinLoss):
        resolved = loss_fn.spec.objective.epsilon
    source = settings.data
    if Path(source).exists():
        source = str(Path(source).resolve())  # so that the report finds it from anywhere
    return {
        "format": FORMAT,
        "settings": {**settings.to_json(), "data": source},
        "features": {"count": inputs.features, "names": inputs.feature_names},
        "labels": inputs.metric.labels or list(range(inputs.metric.size)),
        "preprocessing": {"standardize": STANDARDIZATION} if settings.standardize else {},
        "model": model.config(),  # type: ignore[operator]
        "epsilon": resolved,
        "metric": repr(inputs.metric),
        "data": {
            "name": (inputs.data.name if inputs.data is not None else "") or Path(source).name,
            "parts": list(inputs.parts),
            "fingerprint": inputs.fingerprint(),
        },
        "versions": {
            "wassloss": __version__,
            "torch": str(torch.__version__),
            "numpy": np.__version__,
            "python": platform.python_version(),
            "platform": platform.platform(),
        },
        "started": datetime.now(timezone.utc).isoformat(timespec="seconds"),
    }


def _continued(old: dict[str, Any], new: dict[str, Any], path: Path) -> dict[str, Any]:
    """The configuration of a run that goes on, or an error that says what has changed."""
    for name, value in new["settings"].items():
        was = old["settings"].get(name)
        was = tuple(was) if isinstance(was, list) else was
        if name not in FREE_ON_RESUME | {"data"} and was != value:
            raise ValueError(
                f"{path} was trained with {name} {was!r}, and cannot go on with {value!r}"
            )
    same = old["data"]["fingerprint"] == new["data"]["fingerprint"]
    if not same or any(_plain(new[name]) != old[name] for name in ("features", "labels")):
        raise ValueError(
            f"{path} cannot go on: its training data have changed since it began; restore them, "
            "or train anew in another directory"
        )
    return {**old, "settings": new["settings"], "versions": new["versions"]}


def _plain(value: Any) -> Any:
    """A value as JSON gives it back."""
    return json.loads(json.dumps(value))
