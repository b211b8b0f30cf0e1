"""Many models in training: where they stand, and how that goes into a checkpoint and comes back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from wassloss.training.checkpoints import Checkpoint
from wassloss.training.meter import DivergedError
from wassloss.training.plan import TrainingPlan
from wassloss.training.processes import random_state, set_random_state
from wassloss.training.sampler import Sampler

ROWS_AT_ONCE = 2**23  # numbers of examples drawn ahead, over all orders: 64 MiB


class ManySteps(Protocol):
    """How many models take steps; see `LinearSteps` for what each of these is."""

    models: Sequence[nn.Module]
    losses: Tensor
    bad: Tensor

    def advance(self, rows: Tensor, order_of: Tensor, lr: Tensor) -> None: ...

    def tensors(self) -> dict[str, Tensor]: ...

    def load(self, tensors: dict[str, Tensor]) -> None: ...

    def write_back(self) -> None: ...


class ManyRun:
    """Everything about the training of many models that changes, and how it is saved."""

    def __init__(
        self,
        plan: TrainingPlan,
        steps: ManySteps,
        seeds: list[int],
        rates: Tensor,
        decays: Tensor,
        examples: int,
        fingerprint: str,
    ) -> None:
        self.plan = plan
        self.steps = steps
        self.seeds = seeds
        self.rates = rates
        self.decays = decays
        self.fingerprint = fingerprint
        unique = {seed: place for place, seed in enumerate(dict.fromkeys(seeds))}
        self.samplers = [Sampler(examples, plan.batch_size, seed) for seed in unique]
        self.order_of = torch.tensor([unique[seed] for seed in seeds])
        self.iteration = 0
        self.since_line = 0  # steps whose losses are not in the log yet
        self.seconds = 0.0
        self.logged: list[int] = []
        self.lines: list[Tensor] = []

    def advance(self, stop: int) -> int:
        """Take steps up to `stop`, or as many as are drawn at once; returns how many."""
        plan = self.plan
        most = max(1, ROWS_AT_ONCE // (len(self.samplers) * plan.batch_size))
        count = min(stop - self.iteration, most)
        rows = torch.stack([sampler.next_few(count) for sampler in self.samplers])
        ahead = range(self.iteration, self.iteration + count)
        factors = [plan.schedule_factor(step) for step in ahead]
        lr = torch.tensor(factors, dtype=torch.float64).unsqueeze(1) * self.rates
        self.steps.advance(rows, self.order_of, lr)
        self._check_finite()
        self.iteration += count
        self.since_line += count
        return count

    def write_line(self) -> float:
        """Write the losses down; returns their mean over the models."""
        line = self.steps.losses.cpu() / self.since_line
        self.logged.append(self.iteration)
        self.lines.append(line)
        self.steps.losses.zero_()
        self.since_line = 0
        return float(line.mean())

    def checkpoint(self) -> Checkpoint:
        tensors = {f"steps.{name}": tensor for name, tensor in self.steps.tensors().items()}
        random = random_state(self.steps.losses.device)
        tensors |= {f"random.{name}": tensor for name, tensor in random.items()}
        if self.lines:
            tensors["log.losses"] = torch.stack(self.lines)
        state = {
            "many": self._identity(),
            "plan": self.plan.config(),
            "data": [sampler.state_dict() for sampler in self.samplers],
            "logged": self.logged,
            "since_line": self.since_line,
            "seconds": self.seconds,
        }
        return Checkpoint(self.iteration, tensors, state)

    def restore(self, checkpoint: Checkpoint) -> None:
        """Stand where a checkpoint was taken, if it is of these models, data and losses."""
        state = checkpoint.state
        if "many" not in state:
            raise ValueError("directory must be of many models, got that of a single run")
        self.plan.check_continues(state["plan"])
        for name, value in self._identity().items():
            if state["many"].get(name) != value:
                raise ValueError(f"{name} must be the run's own to resume it, got others")
        self.steps.load(checkpoint.part("steps"))
        for sampler, drawn in zip(self.samplers, state["data"], strict=True):
            sampler.load_state_dict(drawn)
        set_random_state(checkpoint.part("random"), self.steps.losses.device)
        self.iteration, self.since_line = checkpoint.step, state["since_line"]
        self.seconds, self.logged = state["seconds"], list(state["logged"])
        self.lines = list(checkpoint.tensors["log.losses"]) if self.logged else []

    def _identity(self) -> dict[str, Any]:
        """What may not differ between a run and its continuation, by the arguments' names."""
        shapes = {name: list(tensor.shape) for name, tensor in self.steps.tensors().items()}
        return {
            "models": {name: shapes[name] for name in shapes if not name.startswith("optimizer.")},
            "seeds": self.seeds,
            "learning_rates": self.rates.tolist(),
            "weight_decays": self.decays.tolist(),
            "data and losses": self.fingerprint,
        }

    def _check_finite(self) -> None:
        bad = self.steps.bad.cpu()
        if not bool((bad >= 0).any()):
            return
        step = int(bad[bad >= 0].min())
        model = int((bad == step).nonzero()[0])
        plan = replace(self.plan, learning_rate=float(self.rates[model]))
        raise DivergedError.at(self.iteration + step + 1, f"the loss of model {model}", plan)
