"""Closed-form steps compiled for the CPU: each model's batch stays in the cache."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from experiments.lab.many.closed_form import LinearSteps
from experiments.lab.many.problem import LinearProblem
from wassloss.kernels import launch
from wassloss.kernels.launch import as_array
from wassloss.kernels.threads import spread
from wassloss.losses.fused import lowest_log_mass
from wassloss.training.plan import TrainingPlan

if TYPE_CHECKING:
    from experiments.lab.many._kernel import Scratch

MOST_INPUTS = 64  # beyond them a library's product of matrices is faster
WORTH_ADVANCING = 2**16  # multiplications that are worth a helper's 0.1 ms


class CompiledSteps(LinearSteps):
    """The same steps, model by model in Numba, the models spread over torch's threads."""

    @staticmethod
    def applies(problem: LinearProblem) -> bool:
        known = problem.features.dtype in (torch.float32, torch.float64)
        on_cpu = problem.features.device.type == "cpu"
        return launch.numba_available() and known and on_cpu and problem.inputs <= MOST_INPUTS

    def __init__(
        self,
        models: Sequence[nn.Module],
        problem: LinearProblem,
        plan: TrainingPlan,
        penalties: Tensor,
    ) -> None:
        super().__init__(models, problem, plan, penalties)
        from experiments.lab.many._kernel import Rule, Task

        self.theta = self.theta.contiguous()
        self.task = Task(
            *map(as_array, (problem.features, problem.ids, problem.cost)),
            *map(as_array, (problem.features_of, problem.ids_of, problem.cost_of)),
            *map(as_array, (problem.epsilon, problem.kl_weight)),
        )
        self.rule = Rule(
            as_array(self.decay.squeeze(2).contiguous()),
            float(self.sgd.momentum),
            bool(self.sgd.nesterov),
            lowest_log_mass(self.theta.dtype),
        )

    def advance(self, rows: Tensor, order_of: Tensor, lr: Tensor) -> None:
        from experiments.lab.many._kernel import advance_models, new_scratch

        problem, (_, steps, batch) = self.problem, rows.shape
        order, whose, rates = as_array(rows), as_array(order_of), as_array(lr)
        self.bad.fill_(-1)
        theta, velocity = as_array(self.theta), as_array(self.velocity)
        losses, bad = as_array(self.losses), as_array(self.bad)
        task, rule = self.task, self.rule

        def work(first: int, last: int, scratch: Scratch) -> None:
            advance_models(
                first, last, task, rule, order, whose, rates, scratch, theta, velocity, losses, bad
            )

        memory = partial(new_scratch, problem.inputs, problem.labels, batch, task.features.dtype)
        size = problem.models * steps * batch * problem.inputs * problem.labels
        spread(work, problem.models, memory, 1 + size // WORTH_ADVANCING)
