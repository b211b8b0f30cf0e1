"""From settings to a trained run in a directory."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from datetime import datetime, timezone
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from wassloss import scores
from wassloss._precision import narrowed
from wassloss.data.streaming import Batch
from wassloss.estimators.model_file import FittedModel, fit_scaler, model_features, new_model, pack
from wassloss.ground import GroundMetric
from wassloss.runs import directory as files
from wassloss.runs.evaluation import ExampleScores, evaluate
from wassloss.runs.inputs import Inputs, check_trainable, warn_of_unused
from wassloss.runs.reading import read_inputs, wanted_by
from wassloss.runs.settings import Settings
from wassloss.runs.trained import TrainedRun, read_model
from wassloss.training import train
from wassloss.training.checkpoints import has_checkpoints
from wassloss.training.directory_lock import check_not_in_use, owned
from wassloss.training.loop import TrainingResult
from wassloss.training.plan import FREE_ON_RESUME
from wassloss.training.run import versions


@dataclass(frozen=True)
class RunResult:
    """What came of a run: its training, and its scores on the part that was held out, if any."""

    training: TrainingResult
    part: str | None = None
    scores: ExampleScores | None = None


def fit(
    settings: Settings,
    directory: str | os.PathLike[str],
    *,
    resume: bool = False,
    device: str = "cpu",
    progress: bool | None = None,
) -> RunResult:
    """Train as the settings say, and keep everything in a directory.

    Args:
        settings: what to do.
        directory: where the run goes; see :mod:`wassloss.runs`.
        resume: continue the run that is there.
        device: such as ``"cuda"``.
        progress: show a bar; None for only on a terminal.

    Raises:
        ValueError: settings, data and metric do not fit together, or not the run that is there.
        DirectoryInUseError: another process is training there.
        KeyboardInterrupt: on Ctrl-C, after the run has been saved.

    >>> import tempfile, wassloss as wl
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     result = fit(Settings("clipart", steps=20, kl_weight=0.1), f"{folder}/run")
    >>> result.part, result.training.steps
    ('test', 20)
    """
    path, first = Path(directory), is_first_process()
    if first:
        _check_free(path, resume)
    old = files.read_config(path) if resume and (path / files.CONFIG).exists() else None
    start = None if old is None else read_model(path, files.START, old)
    wanted, metric = wanted_by(settings), None
    if old is not None and start is not None:
        _check_settings(old, settings, path)
        wanted = wanted._replace(raw=start.columns, feature_names=start.feature_names)
        metric = start.metric
    inputs = read_inputs(settings, metric, wanted)
    check_trainable(inputs.parts)
    if first:
        warn_of_unused(inputs.parts)
    watched = "validation" if "validation" in inputs.parts else None
    if settings.patience is not None and watched is None:
        raise ValueError(
            "patience needs a validation part: pass validation (--validation 0.2), or data with one"
        )
    fitted = _untrained(settings, inputs, start)
    loss_fn = settings.loss_fn(inputs.metric)
    config = _config(settings, inputs, fitted, loss_fn)
    if old is not None:
        config = _continued(old, config, path)
        if files.LOG in old["files"] and (path / files.LOG).exists():
            files.read_checked(path, files.LOG, old)  # the run's lines follow those that are there
    score, higher = _score(settings.score, inputs.metric.to(device))
    rank, size = (int(os.environ.get(name, d)) for name, d in (("RANK", 0), ("WORLD_SIZE", 1)))
    with owned(path) if first else nullcontext():
        if first:  # again, now that no other process can write
            _check_free(path, resume)
            if old is not None and files.read_config(path) != old:
                raise ValueError(f"{path} was changed by another run while this one was starting")
        result = train(
            fitted.model.to(device),
            loss_fn,
            _training(inputs, fitted, rank, size),
            settings.plan(),
            validation=None if watched is None else _scaled(inputs, watched, fitted),
            score=score,
            higher_is_better=higher,
            directory=path,
            resume=resume,
            progress=progress,
            begin=lambda: _begin(path, config, None if old is not None else fitted),
        )
        fitted.model.cpu().eval()
        return _finish(path, settings, fitted, inputs, result) if first else RunResult(result)


def is_first_process() -> bool:
    """Whether this is the process that writes, of those that `torchrun` started, if any."""
    return int(os.environ.get("RANK", 0)) == 0


def _check_free(path: Path, resume: bool) -> None:
    """Refuse to train over a run, or to continue from checkpoints of unknown origin.

    Without a checkpoint there is no run that could be lost.
    """
    files.check_no_comparison(path)
    if (has_checkpoints(path) or (path / files.MODEL).exists()) and not resume:
        check_not_in_use(path)  # its error says more
        raise ValueError(
            f"{path} holds a run already: pass resume (--resume) to continue it, or choose "
            "another directory"
        )
    if has_checkpoints(path) and not (path / files.CONFIG).exists():
        raise ValueError(
            f"{path} has checkpoints but no {files.CONFIG}, so nothing says what they are of: "
            "restore it, or choose another directory"
        )


def _untrained(settings: Settings, inputs: Inputs, start: FittedModel | None) -> FittedModel:
    """The model before its first step; a resumed run has the preprocessing that it began with."""
    build = partial(settings.model, inputs.features, inputs.metric.size)
    model = new_model(build, settings.seed, linear=not settings.hidden_layer_sizes)
    scaler = None if start is None else start.scaler
    wished = inputs.raw is not None if settings.standardize is None else settings.standardize
    if wished and start is None:
        for features, _ in inputs.batches(inputs.train_part):
            narrowed("features", features, torch.float32, shuffled=inputs.data is None)
            scaler = fit_scaler(features.double().numpy(), before=scaler)
    return FittedModel(inputs.metric, model, scaler, inputs.feature_names, inputs.raw)


def _begin(path: Path, config: dict[str, Any], new: FittedModel | None) -> None:
    """Write what a run depends on, before anything else; `new` is None if it is continued."""
    if new is None:
        files.write_run(path, {**config, "files": {files.START: config["files"][files.START]}}, {})
        return
    (path / files.CONFIG).unlink(missing_ok=True)  # of a run that failed at its beginning
    files.write_run(path, config, {files.START: pack(new, "run", {})})


def _finish(
    path: Path, settings: Settings, fitted: FittedModel, inputs: Inputs, result: TrainingResult
) -> RunResult:
    """Write the trained model, and its scores on what was held out."""
    config = files.read_config(path)
    run = TrainedRun(**vars(fitted), path=path, settings=settings, config=config, finished=True)
    parts = [name for name in ("validation", "test") if name in inputs.parts]
    found = {part: evaluate(run, inputs.batches(part)) for part in parts}
    summary = {
        "training": dataclasses.asdict(dataclasses.replace(result, log=[])) | {"log": files.LOG},
        "parts": {part: own.to_json() for part, own in found.items()},
    }
    written = {
        files.MODEL: pack(fitted, "run", {}),
        files.SCORES: (json.dumps(summary, indent=1) + "\n").encode(),
        files.LOG: (path / files.LOG).read_bytes(),
    }
    files.write_run(path, config, written)
    return RunResult(result, parts[-1], found[parts[-1]]) if parts else RunResult(result)


def _training(inputs: Inputs, fitted: FittedModel, rank: int, size: int) -> Any:
    """The examples to train on, as `wassloss.train` takes them."""
    if inputs.data is not None:
        return _scaled(inputs, inputs.train_part, fitted)
    scale = partial(model_features, scaler=fitted.scaler, dtype=torch.float32)
    part = inputs.train_part
    return inputs.stream(part=part, rank=rank, world_size=size, transform=scale)


def _scaled(inputs: Inputs, part: str | None, fitted: FittedModel) -> Batch:
    """The examples of a part as the model takes them, in memory."""
    features, target = inputs.in_memory(part)
    return model_features(features, fitted.scaler, torch.float32), target


def _score(name: str, metric: GroundMetric) -> tuple[Callable[[Tensor, Any], Any] | None, bool]:
    """What early stopping watches, and whether more of it is better."""
    if name == "loss":
        return None, False
    if name in ("auc", "accuracy"):
        return (scores.ranking_auc if name == "auc" else scores.accuracy), True
    k = min(metric.size, 1 if name == "top1_cost" else 5)
    return lambda logits, target: scores.top_k_cost(logits, target, metric, k=k), False


def _config(
    settings: Settings, inputs: Inputs, fitted: FittedModel, loss_fn: nn.Module
) -> dict[str, Any]:
    source = settings.data
    if Path(source).exists():
        source = str(Path(source).resolve())  # so that the report finds it from anywhere
    return {
        "settings": {**settings.config(), "data": source},
        "features": {"count": inputs.features, "names": inputs.feature_names},
        "labels": inputs.metric.labels or list(range(inputs.metric.size)),
        "model": fitted.model.config(),  # type: ignore[operator]
        "loss": repr(loss_fn),
        "metric": repr(inputs.metric),
        "data": {
            "name": (inputs.data.name if inputs.data is not None else "") or Path(source).name,
            "parts": list(inputs.parts),
            "fingerprint": inputs.fingerprint(),
        },
        "versions": versions() | {"numpy": np.__version__},
        "started": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "files": {},
    }


def _check_settings(old: dict[str, Any], settings: Settings, path: Path) -> None:
    """Refuse to continue a run with other settings."""
    for name, value in json.loads(json.dumps(settings.config())).items():
        was = old["settings"].get(name)
        if name not in FREE_ON_RESUME | {"data"} and was != value:
            raise ValueError(
                f"{path} was trained with {name} {was!r}, and cannot be continued with {value!r}"
            )


def _continued(old: dict[str, Any], new: dict[str, Any], path: Path) -> dict[str, Any]:
    """The configuration of a resumed run, or an error that says what has changed."""
    new = json.loads(json.dumps(new))  # lists for tuples, as in the old one
    same = old["data"]["fingerprint"] == new["data"]["fingerprint"]
    if not same or any(new[name] != old[name] for name in ("features", "labels")):
        raise ValueError(
            f"{path} cannot be continued: its training data have changed since it began; restore "
            "them, or train in another directory"
        )
    return {**old, "settings": new["settings"], "versions": new["versions"]}
