"""Mini-batch training with torch's optimisers, on examples in memory."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from wassloss._checks import check_choice, check_count, check_number, check_strength
from wassloss.estimators.objective import Examples, MeanLoss, check_finite, is_penalized

LEARNING_RATES = {"adam": 0.01, "sgd": 0.1}  # default of each optimiser
SCHEDULES = ("cosine", "constant")


@dataclass(frozen=True, kw_only=True)
class SmallSteps:
    """Settings of mini-batch training, checked on construction.

    Attributes:
        optimizer: ``"adam"`` or ``"sgd"``.
        learning_rate: initial learning rate; None for the optimiser's default.
        momentum: momentum of SGD.
        weight_decay: strength of the penalty `½ weight_decay Σ‖θ‖²`, not on biases, which is added
            to the mean loss.
        schedule: ``"cosine"``, which falls to 0 at the last step, or ``"constant"``.
        batch_size: examples per step.
        seed: seeds the order of the examples.
    """

    optimizer: str
    learning_rate: float | None
    momentum: float
    weight_decay: float
    schedule: str
    batch_size: int
    seed: int

    def __post_init__(self) -> None:
        check_choice("schedule", self.schedule, SCHEDULES)
        check_count("batch_size", self.batch_size)
        rate = self.learning_rate
        if rate is not None and not check_strength("learning_rate", rate) > 0:
            raise ValueError(f"learning_rate must be positive, got {rate}")
        if not 0 <= check_number("momentum", self.momentum) < 1:
            raise ValueError(f"momentum must be at least 0 and less than 1, got {self.momentum}")

    def learning_rate_at(self, share: float) -> float:
        """The learning rate after a share of the steps."""
        rate = self.learning_rate
        rate = LEARNING_RATES[self.optimizer] if rate is None else rate
        return rate if self.schedule == "constant" else rate * (1 + math.cos(math.pi * share)) / 2

    def build_optimizer(self, model: nn.Module) -> torch.optim.Optimizer:
        """Build the optimiser, which penalises only matrices."""
        parameters, decay = list(model.parameters()), self.weight_decay
        groups: list[dict[str, Any]] = [
            {"params": [p for p in parameters if is_penalized(p)], "weight_decay": decay},
            {"params": [p for p in parameters if not is_penalized(p)], "weight_decay": 0.0},
        ]
        groups, rate = [group for group in groups if group["params"]], self.learning_rate_at(0)
        if self.optimizer == "sgd":
            return torch.optim.SGD(groups, lr=rate, momentum=self.momentum)
        return torch.optim.Adam(groups, lr=rate)


class EarlyStopping:
    """Monitor the loss on held-out examples, and keep the model's best weights.

    Attributes:
        losses: loss on the held-out examples after each pass.
        best_pass: the pass with the lowest loss, counted from 1.
    """

    def __init__(self, held_out: Examples, patience: int, tol: float) -> None:
        self.held_out, self.patience, self.tol = (
            held_out,
            check_count("n_iter_no_change", patience),
            tol,
        )
        self.losses: list[float] = []
        self.best_pass, self.best_weights = 0, dict[str, Tensor]()
        self._reference, self._without = math.inf, 0

    @torch.no_grad()
    def stops(self, model: nn.Module, loss: MeanLoss) -> bool:
        """Whether `patience` passes in a row have not lowered the loss by more than `tol`."""
        found = loss(model(self.held_out.features), self.held_out).item()
        if not self.losses or found < min(self.losses):
            self.best_pass = len(self.losses) + 1
            self.best_weights = {name: t.clone() for name, t in model.state_dict().items()}
        self.losses.append(found)
        self._without += 1
        if found < self._reference - self.tol:
            self._reference, self._without = found, 0
        return self._without >= self.patience


def fit_by_small_steps(
    model: nn.Module,
    loss: MeanLoss,
    examples: Examples,
    how: SmallSteps,
    *,
    steps: int,
    early_stopping: EarlyStopping | None = None,
    verbose: bool = False,
) -> int:
    """Train a model in place; return the number of passes, of which the last may be incomplete.

    Args:
        model: a model without dropout or other randomness, on the device of the examples.
        loss: the mean loss.
        examples: training examples; a batch may span the end of a shuffled pass and the next one.
        how: optimiser, learning rate, penalty and batches.
        steps: number of steps.
        early_stopping: ends the fit early, and restores the best weights.
        verbose: show a bar if tqdm is installed, otherwise a line per pass.

    Raises:
        DivergedError: if the loss is not finite.
    """
    size, optimizer = len(examples), how.build_optimizer(model)
    batch_size = min(how.batch_size, size)
    passes = math.ceil(steps * batch_size / size)
    total, taken, number = torch.zeros(()), 0, 0
    with _progress(passes, verbose) as show:
        for step, rows in enumerate(_batches(size, batch_size, steps, how.seed)):
            rate = how.learning_rate_at(step / steps)
            for group in optimizer.param_groups:
                group["lr"] = rate
            batch = examples[rows]
            optimizer.zero_grad()
            value = loss(model(batch.features), batch)
            value.backward()
            optimizer.step()
            total, taken = total + value.detach(), taken + 1
            if (step + 1) * batch_size // size == number and step + 1 < steps:
                continue
            # Once per pass, because this synchronises with a GPU.
            number += 1
            show(check_finite(total.item() / taken, f"in pass {number} over the data"))
            total, taken = torch.zeros(()), 0
            if early_stopping is not None and early_stopping.stops(model, loss):
                break
    if early_stopping is not None:
        model.load_state_dict(early_stopping.best_weights)
    return number


def _batches(size: int, batch_size: int, steps: int, seed: int) -> Iterator[Tensor]:
    """Yield the rows of each batch, all of the same size, from consecutive shuffled passes."""
    generator = torch.Generator().manual_seed(seed)
    rows = torch.empty(0, dtype=torch.int64)
    for _ in range(steps):
        if len(rows) < batch_size:
            rows = torch.cat([rows, torch.randperm(size, generator=generator)])
        yield rows[:batch_size]
        rows = rows[batch_size:]


@contextmanager
def _progress(passes: int, verbose: bool) -> Iterator[Callable[[float], None]]:
    """Yield a function that shows the mean loss of a pass."""
    if not verbose:
        yield lambda _: None
        return
    try:
        from tqdm import tqdm
    except ImportError:
        done = iter(range(1, passes + 1))

        def write(loss: float) -> None:
            sys.stderr.write(f"pass {next(done)}/{passes}: loss {loss:.4g}\n")

        yield write
        return
    with tqdm(total=passes, unit="pass", dynamic_ncols=True) as bar:

        def show(loss: float) -> None:
            bar.set_postfix(loss=f"{loss:.4g}", refresh=False)
            bar.update()

        yield show
