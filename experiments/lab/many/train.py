"""Train many models at once: the paper's Algorithm 2, SGD with momentum and a weight penalty."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from experiments.lab.checks import check_count, check_strength
from experiments.lab.many.captured import Captured, LaneSteps
from experiments.lab.many.compiled import CompiledSteps
from experiments.lab.many.general import GeneralSteps
from experiments.lab.many.linear import LinearSteps
from experiments.lab.many.one_label import OneLabelLoss
from experiments.lab.many.orders import Orders
from wassloss import ConvergenceWarning, SparseTarget
from wassloss.models import Linear

ROWS_AT_ONCE = 2**23  # indices of examples drawn in advance, over all orders: 64 MiB
Observe = Callable[[int, Sequence[nn.Module]], None]


class Steps(Protocol):
    """Steps of many models."""

    models: Sequence[Any]
    bad: Tensor

    def advance(self, rows: Tensor, order_of: Tensor) -> None: ...

    def write_back(self) -> None: ...


def train_linear(
    models: Sequence[Linear],
    losses: Sequence[OneLabelLoss],
    features: Sequence[Tensor],
    ids: Sequence[Tensor],
    *,
    iterations: int,
    rates: Sequence[float],
    penalties: Sequence[float],
    seeds: Sequence[int],
    batch_size: int = 100,
    momentum: float = 0.7,
) -> None:
    """Train linear models in place on class ids, with steps in closed form.

    On a CPU the steps are compiled if Numba is installed; on a GPU they are replayed from a CUDA
    graph.

    Args:
        models: of equal shapes, with a bias, on one device.
        losses: one per model.
        features: `(examples, features)`, one tensor per model, of equal shapes.
        ids: class ids `(examples,)`, one tensor per model.
        iterations: number of steps.
        rates: learning rate of each model.
        penalties: for each model, the factor of the squared weights that is added to its loss.
        seeds: for each model, the seed of the order of examples.
        batch_size: examples per step.
        momentum: of SGD.

    Raises:
        FloatingPointError: a loss is not finite; the message names the model.

    >>> x, y = torch.randn(200, 4), torch.arange(200) % 3
    >>> models = [Linear(features=4, labels=3) for _ in range(2)]
    >>> losses = [OneLabelLoss(1 - torch.eye(3), epsilon=0.2, kl_weight=a) for a in (0.0, 0.5)]
    >>> options = dict(rates=[0.1, 0.1], penalties=[0.0, 0.0], seeds=[0, 0])
    >>> train_linear(models, losses, [x, x], [y, y], iterations=10, **options)
    """
    given = models, losses, features, ids, *_numbers(rates, penalties), momentum
    steps = LinearSteps(*given)
    chosen: Steps = steps
    if steps.theta.is_cuda:
        chosen = Captured(steps)
    elif CompiledSteps.applies(steps):
        chosen = CompiledSteps(*given)
    _follow(chosen, Orders(len(ids[0]), batch_size, seeds), iterations)


def train_many(
    models: Sequence[nn.Module],
    losses: Sequence[nn.Module],
    features: Tensor,
    target: Tensor | SparseTarget,
    *,
    iterations: int,
    rates: Sequence[float],
    penalties: Sequence[float],
    seeds: Sequence[int],
    batch_size: int = 100,
    momentum: float = 0.7,
    observe: Observe | None = None,
    every: int | None = None,
    cuda_graph: bool = False,
) -> None:
    """Train models in place on the same data, each as a loop of its own would.

    Args:
        models: of equal shapes, without buffers, on one device.
        losses: for each model, a module that averages over independent examples. Sharing a loss
            object is faster than using equal ones.
        features: of all models, `(examples, …)`.
        target: of all models.
        iterations: number of steps.
        rates: learning rate of each model.
        penalties: for each model, the factor of the squared weights that is added to its loss.
        seeds: for each model, the seed of the order of examples.
        batch_size: examples per step.
        momentum: of SGD.
        observe: called with the iteration and the models, every `every` steps and at the end.
        every: steps between calls of `observe`.
        cuda_graph: replay the steps of all models from one CUDA graph.

    Raises:
        FloatingPointError: a loss is not finite; the message names the model.
    """
    kind = LaneSteps if cuda_graph else GeneralSteps
    steps = kind(models, losses, features, target, *_numbers(rates, penalties), momentum)
    before = _unsolved(steps.losses)
    orders = Orders(len(features), batch_size, seeds)
    _follow(Captured(steps) if cuda_graph else steps, orders, iterations, observe, every)
    # Inside a graph a loss cannot warn, so it counts.
    if cuda_graph and (count := _unsolved(steps.losses) - before):
        warnings.warn(f"{count} solves did not converge", ConvergenceWarning, stacklevel=2)


def _follow(
    steps: Steps,
    orders: Orders,
    iterations: int,
    observe: Observe | None = None,
    every: int | None = None,
) -> None:
    """Take the steps, pausing whenever `observe` is due."""
    iterations = check_count("iterations", iterations)
    most = max(1, ROWS_AT_ONCE // (len(orders) * orders.batch_size))
    every = iterations if every is None else check_count("every", every)
    done = 0
    while done < iterations:
        count = min(most, iterations - done, every - done % every)
        steps.advance(orders.next(count), orders.order_of)
        _check_finite(steps.bad.cpu(), done)
        done += count
        if observe is not None and (done == iterations or done % every == 0):
            steps.write_back()
            observe(done, steps.models)
    steps.write_back()


def _check_finite(bad: Tensor, done: int) -> None:
    if bool((bad >= 0).any()):
        step = int(bad[bad >= 0].min())
        model = int((bad == step).nonzero()[0])
        raise FloatingPointError(
            f"the loss of model {model} is not finite at step {done + step + 1}; try a lower rate"
        )


def _numbers(rates: Sequence[float], penalties: Sequence[float]) -> tuple[Tensor, Tensor]:
    """Convert to float64 tensors, `(models,)`."""
    checked = (
        [check_strength(name, value) for value in values]
        for name, values in (("rates", rates), ("penalties", penalties))
    )
    first, second = (torch.tensor(values, dtype=torch.float64) for values in checked)
    return first, second


def _unsolved(losses: Sequence[Any]) -> int:
    modules = (part for loss in losses for part in loss.modules())
    counters = (getattr(part, "unsolved", None) for part in modules)
    return sum(int(counter) for counter in counters if isinstance(counter, Tensor))
