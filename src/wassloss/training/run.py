"""A run in progress: where it is, and how that goes into a checkpoint and comes back."""

from __future__ import annotations

import math
import os
import platform
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from wassloss.models.config import build
from wassloss.training.batches import Batches
from wassloss.training.checkpoints import Checkpoint, CheckpointError, newest_checkpoint
from wassloss.training.meter import LossMeter
from wassloss.training.plan import TrainingPlan
from wassloss.training.processes import gather, random_state, set_random_state
from wassloss.training.validation import Best

if TYPE_CHECKING:
    from lightning_fabric import Fabric

RUN_CONFIG = "config.json"  # in the directories of wassloss.runs


@dataclass
class Run:
    """Everything about a run that changes from one step to the next."""

    plan: TrainingPlan
    fabric: Fabric
    model: nn.Module
    optimizer: torch.optim.Optimizer
    batches: Batches
    meter: LossMeter
    step: int = 0
    seconds: float = 0.0
    score: float | None = None
    best: Best = field(default_factory=Best)

    @property
    def stopped_early(self) -> bool:
        return self.plan.patience is not None and self.best.waited >= self.plan.patience

    @property
    def finished(self) -> bool:
        return self.step >= self.plan.steps or self.stopped_early

    def checkpoint(self) -> Checkpoint:
        """The run as it is; every process has to ask, though one is enough to write it."""
        processes = gather(
            self.fabric,
            {
                "data": self.batches.state_dict(),
                "random": random_state(self.fabric.device),
                "meter": {name: t.cpu() for name, t in self.meter.state_dict().items()},
            },
        )
        tensors = _named("model", _tensors_of(self.model)) | _named("best", self.best.weights)
        for index, values in self.optimizer.state_dict()["state"].items():
            found = {name: value for name, value in values.items() if isinstance(value, Tensor)}
            tensors |= _named(f"optimizer.{index}", found)
        for rank, process in enumerate(processes):
            for part in ("random", "meter"):
                tensors |= _named(f"{part}.{rank}", process[part])
        state = {
            "plan": self.plan.config(),
            "model": describe(self.model),
            "data": [process["data"] for process in processes],
            "precision": self.fabric.strategy.precision.state_dict(),
            "seconds": self.seconds,
            "score": self.score,
            "best": {
                "score": None if self.best.step is None else self.best.score,
                "step": self.best.step,
                "waited": self.best.waited,
            },
            "versions": versions(),
        }
        return Checkpoint(self.step, tensors, state)

    def restore(self, checkpoint: Checkpoint) -> None:
        """Continue from a checkpoint.

        Raises:
            ValueError: the plan, the model, the data or the processes are not the run's own.
        """
        state, rank = checkpoint.state, self.fabric.global_rank
        self.plan.check_continues(state["plan"])
        if len(state["data"]) != self.fabric.world_size:
            raise ValueError(
                f"a run of {len(state['data'])} processes must be resumed with as many, got "
                f"{self.fabric.world_size}"
            )
        load_weights(self.model, checkpoint.part("model"))
        self._restore_optimizer(checkpoint.part("optimizer"))
        self.fabric.strategy.precision.load_state_dict(state["precision"])
        self.batches.load_state_dict(state["data"][rank])
        self.meter.load_state_dict(checkpoint.part(f"meter.{rank}"))
        self.step, self.seconds, self.score = checkpoint.step, state["seconds"], state["score"]
        best = state["best"]
        self.best = Best(
            score=math.nan if best["score"] is None else best["score"],
            step=best["step"],
            weights=checkpoint.part("best"),
            waited=best["waited"],
        )
        set_random_state(checkpoint.part(f"random.{rank}"), self.fabric.device)

    def _restore_optimizer(self, tensors: dict[str, Tensor]) -> None:
        values: dict[int, dict[str, Tensor]] = {}
        for name, tensor in tensors.items():
            index, key = name.split(".", 1)
            values.setdefault(int(index), {})[key] = tensor
        groups = self.optimizer.state_dict()["param_groups"]
        self.optimizer.load_state_dict({"state": values, "param_groups": groups})


def load_weights(model: nn.Module, weights: dict[str, Tensor]) -> None:
    """Load weights into a model, or say in one line why they do not fit."""
    try:
        model.load_state_dict(weights)
    except RuntimeError as error:
        reason = " ".join(str(error).split())
        raise CheckpointError(f"the checkpoint is of another model: {reason}") from error


def build_model(config: dict[str, Any], weights: dict[str, Tensor]) -> nn.Module:
    """A model of :mod:`wassloss.models` with given weights, in evaluation mode."""
    model = build(config)
    model.to(next(iter(weights.values())).dtype)
    load_weights(model, weights)
    return model.eval()


def load_model(directory: str | os.PathLike[str]) -> nn.Module:
    """The model that :func:`~wassloss.training.train` left in `directory`, in evaluation mode.

    It has the weights of the newest checkpoint: the best ones if the plan has `patience`, otherwise
    the last ones. Only models of :mod:`wassloss.models` can be rebuilt; for others, build the model
    and load the weights from :func:`~wassloss.training.load_checkpoint`.

    Directories of ``wassloss train`` are refused, because their model is only usable together with
    the order and the standardisation of its features: see :func:`wassloss.load`.

    Raises:
        CheckpointError: there is no intact checkpoint, or the model is not of `wassloss.models`.
        ValueError: the directory was written by ``wassloss train``.
    """
    if (Path(directory) / RUN_CONFIG).exists():
        raise ValueError(
            f"{os.fspath(directory)} was written by `wassloss train`, whose model needs its "
            "features preprocessed: use wassloss.load, which does that; its attribute model is the "
            "model alone"
        )
    checkpoint = newest_checkpoint(Path(directory))
    if checkpoint is None:
        raise CheckpointError(f"{os.fspath(directory)} holds no checkpoint")
    return model_of(checkpoint, directory)


def model_of(checkpoint: Checkpoint, directory: str | os.PathLike[str]) -> nn.Module:
    """The model of a checkpoint in `directory`."""
    config = checkpoint.state["model"]
    if config is None:
        raise CheckpointError(f"{os.fspath(directory)} has a model that is not of wassloss.models")
    return build_model(config, checkpoint.part("best") or checkpoint.part("model"))


def describe(model: nn.Module) -> dict[str, Any] | None:
    """What `models.config.build` makes the model from, if it says so itself."""
    config = getattr(model, "config", None)
    described = config() if callable(config) else None
    return described if isinstance(described, dict) and "kind" in described else None


def versions() -> dict[str, str]:
    """What a run was made with."""
    from wassloss import __version__

    return {
        "wassloss": __version__,
        "torch": str(torch.__version__),
        "python": platform.python_version(),
        "platform": platform.platform(),
    }


def _tensors_of(model: nn.Module) -> dict[str, Tensor]:
    tensors = model.state_dict()
    others = [name for name, value in tensors.items() if not isinstance(value, Tensor)]
    if others:
        raise TypeError(f"model must hold its state in tensors to be saved, got {others}")
    return dict(tensors)


def _named(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {f"{prefix}.{name}": tensor for name, tensor in tensors.items()}
