"""What a training run does, in numbers: everything that its outcome depends on but the data."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any

from wassloss._checks import check_count, check_seed, check_strength
from wassloss.training.optimizers import SGD, OptimizerPlan
from wassloss.training.schedules import Constant, Schedule

# What may differ between a run and its continuation: the rest would make it another run.
_FREE_ON_RESUME = {
    "iterations",
    "log_every",
    "evaluate_every",
    "patience",
    "checkpoint_every",
    "keep_checkpoints",
}


@dataclass(frozen=True)
class TrainingPlan:
    """A recipe for :func:`~wassloss.training.train`; the default is the paper's Algorithm 2.

    Attributes:
        iterations: steps to take.
        batch_size: examples in a step, of each process.
        optimizer: :class:`SGD`, :class:`Adam` or :class:`AdamW`.
        weight_penalty: `c` in `c Σ‖θ‖²`, which is added to the loss (twice that is what torch
            calls `weight_decay`); not on biases.
        schedule: of the learning rate: :class:`Constant`, :class:`Cosine`, :class:`Step`, or
            :class:`WarmUp` before any of them.
        seed: of the order of the examples, and of the model's own randomness, such as dropout.
        log_every: iterations between lines of the log.
        evaluate_every: iterations between scores on the validation data.
        patience: stop after so many scores in a row that are no better than the best, and keep the
            best weights; None to take all steps and keep the last weights.
        checkpoint_every: iterations between checkpoints; there is always one at the end.
        keep_checkpoints: how many of them to keep.

    >>> TrainingPlan(iterations=500, optimizer=SGD(lr=0.5))
    TrainingPlan(iterations=500, batch_size=100, optimizer=SGD(lr=0.5, momentum=0.7, ...), ...)
    """

    iterations: int = 100_000
    batch_size: int = 100
    optimizer: OptimizerPlan = field(default_factory=SGD)
    weight_penalty: float = 0.0005
    schedule: Schedule = field(default_factory=Constant)
    seed: int = 0
    log_every: int = 100
    evaluate_every: int = 1000
    patience: int | None = None
    checkpoint_every: int = 1000
    keep_checkpoints: int = 2

    def __post_init__(self) -> None:
        for name in ("iterations", "batch_size", "keep_checkpoints"):
            check_count(name, getattr(self, name))
        for name in ("log_every", "evaluate_every", "checkpoint_every"):
            check_count(name, getattr(self, name))
        if self.patience is not None:
            check_count("patience", self.patience)
        check_strength("weight_penalty", self.weight_penalty)
        object.__setattr__(self, "seed", check_seed("seed", self.seed))  # plain, as JSON wants it
        for name, method in (("optimizer", "build"), ("schedule", "factor")):
            value = getattr(self, name)
            if isinstance(value, type) or not hasattr(value, method):
                raise TypeError(
                    f"{name} must be one of wassloss.training's, such as "
                    f"{'SGD(lr=0.1)' if name == 'optimizer' else 'Cosine()'}, got {value!r}"
                )

    def learning_rate(self, iteration: int) -> float:
        """Of the step after `iteration` steps."""
        return self.optimizer.lr * self.schedule.factor(iteration, self.iterations)

    def config(self) -> dict[str, Any]:
        """The plan as a dictionary that JSON can hold."""
        return {f.name: _described(getattr(self, f.name)) for f in fields(self)}

    def check_continues(self, config: dict[str, Any]) -> None:
        """Refuse to continue a run that was made by a plan of another outcome."""
        for name, value in self.config().items():
            if name not in _FREE_ON_RESUME and config.get(name) != value:
                raise ValueError(
                    f"plan must have the run's own {name}, {config.get(name)!r}, to resume it, got "
                    f"{value!r}"
                )


def _described(value: Any) -> Any:
    if value is None or isinstance(value, str | int | float):
        return value
    if isinstance(value, tuple | list):
        return [_described(item) for item in value]  # as JSON reads it back
    if not is_dataclass(value) or isinstance(value, type):
        return repr(value)  # an optimiser or a schedule of the user's own
    inside = {f.name: _described(getattr(value, f.name)) for f in fields(value)}
    return {"kind": type(value).__name__, **inside}
