"""Closed-form steps compiled for the CPU: each model's batch stays in the cache."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor

from experiments.lab.many.linear import LinearSteps

MOST_INPUTS = 64  # with more, a library's matrix product is faster


class CompiledSteps(LinearSteps):
    """The same steps in Numba, one model after another, with models spread over torch's threads."""

    @staticmethod
    def applies(steps: LinearSteps) -> bool:
        """Whether these steps can be compiled, and would be faster."""
        theta = steps.theta
        small = theta.shape[1] <= MOST_INPUTS and theta.dtype == torch.float32
        return small and theta.device.type == "cpu" and find_spec("numba") is not None

    def advance(self, rows: Tensor, order_of: Tensor) -> None:
        from experiments.lab.many._kernel import Task, advance_models, new_scratch

        arrays = (
            self.features, self.ids, self.cost, self.features_of, self.ids_of, self.cost_of,
            self.epsilon, self.kl_weight, self.rates, self.decay.squeeze(2),
        )  # fmt: skip
        task = Task(self.momentum, *map(_array, arrays))
        order, whose = _array(rows), _array(order_of)
        self.bad.fill_(-1)
        changed = _array(self.theta), _array(self.velocity), _array(self.bad)
        _, inputs, labels = self.theta.shape

        def work(part: tuple[int, int]) -> None:
            scratch = new_scratch(inputs, labels, rows.shape[2])
            advance_models(*part, task, order, whose, scratch, *changed)

        threads = torch.get_num_threads()
        ends = np.linspace(0, len(self.theta), 4 * threads + 1).astype(int).tolist()
        parts = [(first, last) for first, last in pairwise(ends) if last > first]
        if threads == 1:
            list(map(work, parts))
            return
        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(work, parts))


def _array(tensor: Tensor) -> Any:
    """The tensor's own memory, which the kernel writes to."""
    return tensor.detach().numpy() if tensor.is_contiguous() else tensor.contiguous().numpy()
