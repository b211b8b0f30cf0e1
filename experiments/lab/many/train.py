"""Many small models of one shape, trained at once."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from experiments.lab.many.closed_form import LinearSteps
from experiments.lab.many.compiled import CompiledSteps
from experiments.lab.many.cuda_graph import GraphSteps
from experiments.lab.many.data import ManyColumn, ManyData, bytes_of
from experiments.lab.many.general import GeneralSteps
from experiments.lab.many.general_graph import GeneralGraphSteps
from experiments.lab.many.problem import linear_problem
from experiments.lab.many.run import ManyRun, ManySteps
from wassloss._checks import check_seed, check_strength
from wassloss.ground import GroundMetric
from wassloss.losses.modules import LARGEST_TABLE
from wassloss.training.checkpoints import (
    check_new,
    discard_after,
    newest_checkpoint,
    save_checkpoint,
)
from wassloss.training.directory_lock import owned
from wassloss.training.interrupt import waiting_for_interrupt
from wassloss.training.plan import TrainingPlan
from wassloss.training.processes import own_random_numbers
from wassloss.training.progress import progress_bar, show
from wassloss.training.steps import Loss
from wassloss.training.unconverged import counting_unconverged


@dataclass(frozen=True)
class ManyResult:
    """What came of training many models.

    Attributes:
        models: the models, trained.
        iterations: steps that each has taken.
        log_iterations: after which steps the losses were written down, `(lines,)`.
        losses: of each model, the mean since the line before, `(lines, models)`.
        seconds: spent training, over all resumptions.
    """

    models: Sequence[nn.Module]
    iterations: int
    log_iterations: Tensor
    losses: Tensor
    seconds: float

    @torch.no_grad()
    def outputs(self, features: ManyColumn) -> Tensor:
        """What every model makes of features, `(models, examples, …)`; of one set or of its own."""
        models = self.models
        each = features if isinstance(features, list | tuple) else [features] * len(models)
        if len(each) != len(models):
            raise ValueError(
                f"features must be one tensor, or one for each of the {len(models)} models, got "
                f"{len(each)}"
            )
        found = []
        for model, x in zip(models, each, strict=True):
            was_training = model.training
            model.eval()
            try:
                found.append(model(x))
            finally:
                model.train(was_training)
        return torch.stack(found)


def train_many(
    models: Sequence[nn.Module],
    losses: Loss | Sequence[Loss],
    data: Sequence[ManyColumn],
    plan: TrainingPlan | None = None,
    *,
    seeds: Sequence[int] | None = None,
    learning_rates: Sequence[float] | None = None,
    weight_decays: Sequence[float] | None = None,
    directory: str | os.PathLike[str] | None = None,
    resume: bool = False,
    observe: Callable[[int, Sequence[nn.Module]], None] | None = None,
    cuda_graph: bool = False,
    progress: bool | None = None,
) -> ManyResult:
    """Train models of one shape in place, each as :func:`~wassloss.training.train` would.

    :class:`~wassloss.models.LinearSoftmax` models on class ids with SGD, under
    `CrossEntropyLoss` or :class:`~wassloss.WassersteinLoss` (in any mixture; not debiased, without
    class weights), take steps in closed form: compiled on a CPU where Numba is there, as a CUDA
    graph on a GPU, as batched products elsewhere. Other models, targets, losses and optimisers take
    the same steps through autograd, side by side in `torch.func.vmap`; on a GPU, with `cuda_graph`,
    as one graph.

    Args:
        models: all of the same class and shape, on one device, without buffers.
        losses: one for all models, or one for each; means over the batch. Models that have the
            very same loss object are faster than with equal ones.
        data: `(features, target, …)`, each a tensor (or sparse target) for all models or a list of
            one for each, all with as many examples.
        plan: how, by default the paper's Algorithm 2; without `patience`.
        seeds: of the order of the examples, for each model; by default the plan's for all. Orders
            are drawn once for all models of a seed.
        learning_rates: for each model, in place of the optimiser's; the schedule multiplies them.
        weight_decays: for each model, in place of the plan's.
        directory: where checkpoints go; None for none.
        resume: go on from the newest checkpoint in `directory`, bit for bit on a CPU; from the
            beginning where there is none yet.
        observe: called with the iteration and the models as they then are, every
            `plan.evaluate_every` iterations and at the end: to score them on the way.
        cuda_graph: replay the steps of all models as one CUDA graph, whatever they are; see
            :func:`~wassloss.training.train` for what losses must be like.
        progress: show a bar; None for only on a terminal.

    Raises:
        DivergedError: the loss of a model is not finite; the message names it. No model is changed.
        CheckpointError: every checkpoint to resume from is damaged.
        DirectoryInUseError: another process is training in `directory`.
        KeyboardInterrupt: on Ctrl-C, once some steps are done and, with a directory, saved.

    >>> import wassloss as wl
    >>> x = torch.randn(200, 4)
    >>> y = (x @ torch.randn(4, 3)).argmax(1)
    >>> models = [wl.models.LinearSoftmax(features=4, labels=3) for _ in range(3)]
    >>> ordered = wl.ground.Ordinal(3)
    >>> losses = [wl.WassersteinLoss(ordered, kl_weight=weight) for weight in (0.0, 0.1, 1.0)]
    >>> result = train_many(models, losses, (x, y), TrainingPlan(steps=200))
    >>> result.outputs(x).shape
    torch.Size([3, 200, 3])
    """
    plan = TrainingPlan() if plan is None else plan
    folder = None if directory is None else Path(directory)
    if resume and folder is None:
        raise ValueError("directory must be given where resume=True, got None")
    if plan.patience is not None:
        raise ValueError(f"plan must have patience=None for many models, got {plan.patience}")
    models = list(models)
    _check_models(models)
    device = next(models[0].parameters()).device
    each_loss = _one_each("losses", losses, len(models))
    read = ManyData(data, len(models))
    decays = _strengths("weight_decays", weight_decays, plan.weight_decay, len(models))
    rates = _strengths("learning_rates", learning_rates, plan.base_learning_rate, len(models))
    if not bool(((rates > 0) & rates.isfinite()).all()):
        raise ValueError(f"learning_rates must be positive, got {float(rates.min())}")

    with own_random_numbers(device, plan.seed, 0), ExitStack() as stack:
        run = ManyRun(
            plan=plan,
            steps=choose_steps(models, each_loss, read, plan, decays.to(device), cuda_graph),
            seeds=_seeds(seeds, plan, len(models)),
            rates=rates,
            decays=decays,
            examples=read.size,
            fingerprint="" if folder is None else _fingerprint(read, each_loss),
        )
        if folder is not None:
            check_new(folder, resume)
            stack.enter_context(owned(folder))
            _open(folder, run, resume)
        with counting_unconverged(list({id(loss): loss for loss in each_loss}.values())):
            _follow(run, folder, observe, progress)
    run.steps.write_back()
    return ManyResult(
        models,
        run.iteration,
        torch.tensor(run.logged, dtype=torch.int64),
        torch.stack(run.lines) if run.lines else torch.empty(0, len(models), dtype=torch.float64),
        run.seconds,
    )


def choose_steps(
    models: Sequence[nn.Module],
    losses: Sequence[Loss],
    data: ManyData,
    plan: TrainingPlan,
    decays: Tensor,
    cuda_graph: bool = False,
) -> ManySteps:
    """The cheapest way to take the steps of these models."""
    device = next(models[0].parameters()).device
    if cuda_graph and device.type != "cuda":
        raise ValueError(f"cuda_graph needs models on a CUDA device, got {device}")
    problem = linear_problem(models, losses, data) if plan.optimizer == "sgd" else None
    if problem is None:
        general = GeneralGraphSteps if cuda_graph else GeneralSteps
        return general(models, losses, data, plan, decays)
    if CompiledSteps.applies(problem):
        return CompiledSteps(models, problem, plan, decays)
    kind = GraphSteps if problem.features.is_cuda else LinearSteps
    return kind(models, problem, plan, decays)


def _follow(
    run: ManyRun,
    folder: Path | None,
    observe: Callable[[int, Sequence[nn.Module]], None] | None,
    progress: bool | None,
) -> None:
    """Take the steps, stopping where a line of the log, a look or a checkpoint is due."""
    plan = run.plan
    intervals = [plan.log_every]
    intervals += [] if folder is None else [plan.checkpoint_every]
    intervals += [] if observe is None else [plan.evaluate_every]
    with (
        waiting_for_interrupt(folder is not None) as interrupt,
        progress_bar(plan.steps, run.iteration, progress) as bar,
    ):
        while run.iteration < plan.steps:
            began = time.perf_counter()
            ahead = [(run.iteration // every + 1) * every for every in intervals]
            stop = min(plan.steps, *ahead)
            while run.iteration < stop and not interrupt.asked:
                bar.update(run.advance(stop))
            finished = run.iteration == plan.steps
            if finished or (run.iteration % plan.log_every == 0 and run.since_line):
                show(bar, run.write_line(), None)
            run.seconds += time.perf_counter() - began
            if observe is not None and (finished or run.iteration % plan.evaluate_every == 0):
                run.steps.write_back()
                observe(run.iteration, run.steps.models)
            due = finished or run.iteration % plan.checkpoint_every == 0 or interrupt.asked
            if folder is not None and due:
                save_checkpoint(folder, run.checkpoint(), plan.keep_checkpoints)
            if interrupt.asked:
                raise KeyboardInterrupt


def _open(folder: Path, run: ManyRun, resume: bool) -> None:
    """Begin in a directory, or take up what is there."""
    check_new(folder, resume)  # again: another run may have ended there before this one owned it
    checkpoint = newest_checkpoint(folder) if resume else None
    if checkpoint is not None:
        run.restore(checkpoint)
    discard_after(folder, run.iteration)


def _check_models(models: list[nn.Module]) -> None:
    if not models or not all(isinstance(model, nn.Module) for model in models):
        raise TypeError("models must be a list of modules, at least one")
    if len({id(model) for model in models}) < len(models):
        raise ValueError("models must be objects of their own, got the same one several times")

    def shape(model: nn.Module) -> tuple[Any, ...]:
        found = [(n, tuple(p.shape), p.dtype, p.device) for n, p in model.named_parameters()]
        return type(model), *found

    first = shape(models[0])
    if len(first) == 1:
        raise ValueError("models must have parameters to train, got none")
    for r, model in enumerate(models):
        if shape(model) != first:
            raise ValueError(
                "models must all be of one class, shape, dtype and device, got model "
                f"{r} unlike model 0: {model} and {models[0]}"
            )
        model.train()


def _one_each(name: str, given: Any, count: int) -> list[Any]:
    if not isinstance(given, list | tuple):
        return [given] * count
    if len(given) != count:
        raise ValueError(
            f"{name} must be one, or one for each of the {count} models, got {len(given)}"
        )
    return list(given)


def _seeds(seeds: Sequence[int] | None, plan: TrainingPlan, count: int) -> list[int]:
    if seeds is None:
        return [plan.seed] * count
    each = _one_each("seeds", list(seeds), count)
    return [check_seed("seeds", seed) for seed in each]


def _strengths(name: str, given: Sequence[float] | None, plain: float, count: int) -> Tensor:
    """A number for each model, `(models,)`."""
    each = [plain] * count
    if given is not None:
        listed = given.tolist() if isinstance(given, Tensor) else list(given)
        each = [check_strength(name, value) for value in _one_each(name, listed, count)]
    return torch.tensor(each, dtype=torch.float64)


def _fingerprint(data: ManyData, losses: Sequence[Loss]) -> str:
    """Of the data and, as far as they say what they are, of the losses."""
    described = {id(loss): _describe(loss) for loss in losses}
    return data.fingerprint([described[id(loss)] for loss in losses])


def _describe(loss: Loss) -> str:
    if not isinstance(loss, nn.Module):
        return str(getattr(loss, "__qualname__", ""))
    metric, costs = getattr(loss, "metric", None), ""
    if isinstance(metric, GroundMetric) and metric.size <= LARGEST_TABLE:
        costs = hashlib.sha256(bytes_of(metric.cost())).hexdigest()
    return f"{loss!r} {costs}"
