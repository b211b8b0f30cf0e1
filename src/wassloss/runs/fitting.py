"""From settings to a trained run in a directory."""

from __future__ import annotations

import dataclasses
import os
import platform
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from wassloss import scores
from wassloss.ground import GroundMetric, load
from wassloss.losses import WassersteinLoss
from wassloss.runs.directory import (
    CONFIG,
    FORMAT,
    METRIC,
    MODEL,
    SCORES,
    STANDARDIZATION,
    open_run,
    read_config,
    write_json,
    write_model,
)
from wassloss.runs.evaluation import ExampleScores, evaluate
from wassloss.runs.inputs import Inputs
from wassloss.runs.parts import check_trainable, warn_of_unused
from wassloss.runs.reading import read_inputs
from wassloss.runs.settings import Settings
from wassloss.runs.standardization import Standardization
from wassloss.training import TrainingResult, train
from wassloss.training.checkpoints import has_checkpoints

# What may change when a run goes on; the plan's own checks say the same of the rest.
FREE_ON_RESUME = {"iterations", "log_every", "evaluate_every", "patience", "checkpoint_every"}


@dataclass(frozen=True)
class Outcome:
    """What came of a run.

    Attributes:
        training: of :func:`wassloss.train`.
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
    # Without a checkpoint nothing is lost: what was there failed at its beginning.
    if (has_checkpoints(path) or (path / MODEL).exists()) and not resume and first:
        raise ValueError(
            f"{path} holds a run already: pass resume (--resume) to go on with it, or choose "
            "another directory"
        )
    if inputs is None:
        own = load(path / METRIC) if resume and (path / METRIC).exists() else None
        inputs = read_inputs(settings, own)
    check_trainable(inputs.parts)
    if first:
        warn_of_unused(inputs.parts)
    watched = "validation" if "validation" in inputs.parts else None
    if settings.patience is not None and watched is None:
        raise ValueError(
            "patience needs a validation part: pass validation (--validation 0.2), or data with one"
        )
    standardization = _standardization(inputs) if settings.standardize else None
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(settings.seed)
        model = settings.model(inputs.features, inputs.metric.size)
    loss_fn = settings.loss_fn(inputs.metric)
    config = _config(settings, inputs, model, loss_fn)
    if (path / CONFIG).exists() and resume:
        config = _continued(read_config(path), config, path)
    if first:
        path.mkdir(parents=True, exist_ok=True)
        (path / MODEL).unlink(missing_ok=True)  # not of this run until it ends
        inputs.metric.save(path / METRIC)
        if standardization is not None:
            standardization.save(path / STANDARDIZATION)
        write_json(path / CONFIG, config)

    score, higher = _score(settings.score, inputs.metric.to(device))
    result = train(
        model.to(device),
        loss_fn,
        _training_data(inputs, standardization),
        settings.plan(),
        validation=None
        if watched is None
        else _standardized(inputs.in_memory(watched), standardization),
        score=score,
        higher_is_better=higher,
        directory=path,
        resume=resume,
        progress=progress,
    )
    model.cpu().eval()
    if not first:
        return Outcome(result, None, None)
    write_model(path / MODEL, model)
    return _judged(path, inputs, result)


def is_first_process() -> bool:
    """Whether this is the one of the processes that `torchrun` started, if any, that writes."""
    return int(os.environ.get("RANK", 0)) == 0


def _judged(path: Path, inputs: Inputs, result: TrainingResult) -> Outcome:
    """Score what was held out, and write it down."""
    summary = {
        field.name: getattr(result, field.name)
        for field in dataclasses.fields(result)
        if field.name != "log"
    }
    parts = [name for name in ("validation", "test") if name in inputs.parts]
    if not parts:
        write_json(path / SCORES, {"training": summary, "parts": {}})
        return Outcome(result, None, None)
    run = open_run(path)
    found = {part: evaluate(run, inputs.batches(part)) for part in parts}
    by_part = {part: own.to_json() for part, own in found.items()}
    write_json(path / SCORES, {"training": summary, "parts": by_part})
    return Outcome(result, parts[-1], found[parts[-1]])


def _training_data(inputs: Inputs, standardization: Standardization | None) -> Any:
    rank, size = (int(os.environ.get(name, d)) for name, d in (("RANK", 0), ("WORLD_SIZE", 1)))
    given = inputs.training(rank, size)
    return _standardized(given, standardization) if isinstance(given, tuple) else given


def _standardization(inputs: Inputs) -> Standardization:
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
        resolved = loss_fn.recipe.objective.epsilon
    source = settings.data
    if Path(source).exists():
        source = str(Path(source).resolve())  # so that the report finds it from anywhere
    return {
        "format": FORMAT,
        "settings": {**settings.to_json(), "data": source},
        "model": model.config(),  # type: ignore[operator]
        "epsilon": resolved,
        "metric": repr(inputs.metric),
        "data": {
            "name": (inputs.data.name if inputs.data is not None else "") or Path(source).name,
            "parts": list(inputs.parts),
            "features": inputs.features,
            "labels": inputs.metric.size,
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
    for name in ("fingerprint", "features", "labels"):
        if old["data"].get(name) != new["data"][name]:
            raise ValueError(
                f"{path} cannot go on: its training data have changed since it began; restore "
                "them, or train anew in another directory"
            )
    return {**old, "settings": new["settings"], "versions": new["versions"]}
