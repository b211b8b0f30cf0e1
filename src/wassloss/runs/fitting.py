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
from math import ceil
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from wassloss import scores
from wassloss.data.streaming import Batch
from wassloss.estimators import WassersteinClassifier
from wassloss.estimators.frames import names_of
from wassloss.estimators.model_file import fit_scaler, model_features, new_model
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
        wanted = wanted._replace(raw=start.table_, feature_names=names_of(start.table_))
        metric = start.metric_
    inputs = read_inputs(settings, metric, wanted)
    check_trainable(inputs.parts)
    if first:
        warn_of_unused(inputs.parts)
    watched = "validation" if "validation" in inputs.parts else None
    if settings.patience is not None and watched is None:
        raise ValueError(
            "patience needs a validation part: pass validation (--validation 0.2), or data with one"
        )
    classifier = _untrained(settings, inputs, start)
    model, loss_fn = classifier.model_, settings.loss_fn(inputs.metric)
    config = _config(settings, inputs, model, loss_fn)
    if old is not None:
        config = _continued(old, config, path)
        if files.LOG in old["files"] and (path / files.LOG).exists():
            files.read_checked(path, files.LOG, old)  # the run's lines follow those that are there
    score, higher = _score(settings.score, inputs.metric.to(device))
    with owned(path) if first else nullcontext():
        if first:  # again, now that no other process can write
            _check_free(path, resume)
            if old is not None and files.read_config(path) != old:
                raise ValueError(f"{path} was changed by another run while this one was starting")
        result = train(
            model.to(device),
            loss_fn,
            _scaled(inputs, inputs.train_part, classifier),
            settings.plan(),
            validation=None if watched is None else _scaled(inputs, watched, classifier),
            score=score,
            higher_is_better=higher,
            directory=path,
            resume=resume,
            progress=progress,
            begin=lambda: _begin(path, config, None if old is not None else classifier),
        )
        model.cpu().eval()
        return _finish(path, settings, classifier, inputs, result) if first else RunResult(result)


def is_first_process() -> bool:
    """Whether this is the process that writes, of those that `torchrun` started, if any."""
    return int(os.environ.get("RANK", 0)) == 0


def _check_free(path: Path, resume: bool) -> None:
    """Refuse to train over a run, or to continue from checkpoints of unknown origin.

    Without a checkpoint there is no run that could be lost.
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


def _untrained(
    settings: Settings, inputs: Inputs, start: WassersteinClassifier | None
) -> WassersteinClassifier:
    """Before its first step; a resumed run has the preprocessing that it began with."""
    features, _ = inputs.examples(inputs.train_part)
    made = settings.classifier(inputs.labels(), len(features))
    made.n_features_in_, made.n_iter_ = inputs.features, 0
    made.table_ = inputs.table(settings) if start is None else start.table_
    build = partial(settings.model, inputs.features, inputs.metric.size)
    made.model_ = new_model(build, settings.seed, linear=not settings.hidden_layer_sizes)
    made.scaler_ = None if start is None else start.scaler_
    wished = inputs.data.raw is not None if settings.standardize is None else settings.standardize
    if wished and start is None:
        made.scaler_ = fit_scaler(features.double().numpy())
    made.standardize = made.scaler_ is not None
    return made


def _begin(path: Path, config: dict[str, Any], new: WassersteinClassifier | None) -> None:
    """Write what a run depends on, before anything else; `new` is None if it is continued."""
    if new is None:
        files.write_run(path, {**config, "files": {files.START: config["files"][files.START]}}, {})
        return
    (path / files.CONFIG).unlink(missing_ok=True)  # of a run that failed at its beginning
    files.write_run(path, config, {files.START: new._packed()})


def _finish(
    path: Path,
    settings: Settings,
    model: WassersteinClassifier,
    inputs: Inputs,
    result: TrainingResult,
) -> RunResult:
    """Write the trained model, and its scores on what was held out."""
    config = files.read_config(path)
    rows = len(inputs.examples(inputs.train_part)[0])
    model.n_iter_ = ceil(result.steps * settings.batch_size / rows)
    run = TrainedRun(model, path, settings, config)
    parts = [name for name in ("validation", "test") if name in inputs.parts]
    found = {part: evaluate(run, inputs.batches(part)) for part in parts}
    summary = {
        "training": dataclasses.asdict(dataclasses.replace(result, log=[])) | {"log": files.LOG},
        "parts": {part: own.to_json() for part, own in found.items()},
    }
    written = {
        files.MODEL: model._packed(),
        files.SCORES: (json.dumps(summary, indent=1) + "\n").encode(),
        files.LOG: (path / files.LOG).read_bytes(),
    }
    files.write_run(path, config, written)
    return RunResult(result, parts[-1], found[parts[-1]]) if parts else RunResult(result)


def _scaled(inputs: Inputs, part: str | None, model: WassersteinClassifier) -> Batch:
    """The examples of a part as the model takes them."""
    features, target = inputs.examples(part)
    return model_features(features, model.scaler_, torch.float32), target


def _score(name: str, metric: GroundMetric) -> tuple[Callable[[Tensor, Any], Any] | None, bool]:
    """What early stopping watches, and whether more of it is better."""
    if name == "loss":
        return None, False
    if name in ("auc", "accuracy"):
        return (scores.ranking_auc if name == "auc" else scores.accuracy), True
    k = min(metric.size, 1 if name == "top1_cost" else 5)
    return lambda logits, target: scores.top_k_cost(logits, target, metric, k=k), False


def _config(
    settings: Settings, inputs: Inputs, model: nn.Module, loss_fn: nn.Module
) -> dict[str, Any]:
    source = settings.data
    if Path(source).exists():
        source = str(Path(source).resolve())  # so that the report finds it from anywhere
    return {
        "settings": {**settings.config(), "data": source},
        "features": {"count": inputs.features, "names": inputs.data.feature_names},
        "labels": inputs.metric.labels or list(range(inputs.metric.size)),
        "model": model.config(),  # type: ignore[operator]
        "loss": repr(loss_fn),
        "metric": repr(inputs.metric),
        "data": {
            "name": inputs.data.name or Path(source).name,
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
