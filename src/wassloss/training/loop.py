"""The training loop, for every device, precision, number of processes and loss."""

from __future__ import annotations

import math
import os
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import torch
from torch import nn

from wassloss.training import checkpoints
from wassloss.training.batches import Data, Examples, batches_of
from wassloss.training.directory_lock import owned
from wassloss.training.log import LOG_NAME, Record, RunLog
from wassloss.training.plan import TrainingPlan
from wassloss.training.run import DivergedError, LossMeter, Run
from wassloss.training.session import counting_unconverged, default_fabric, waiting_for_interrupt
from wassloss.training.steps import EagerSteps, GraphSteps, Loss

if TYPE_CHECKING:
    from lightning_fabric import Fabric

Score: TypeAlias = Callable[..., Any]  # of (outputs, target, …), like a loss

ROWS_AT_ONCE = 4096  # of the validation data that go through the model together


@dataclass(frozen=True)
class TrainingResult:
    """The outcome of a run."""

    steps: int  # taken
    loss: float  # mean of the last interval of the log
    score: float | None  # the last on the validation data; None without them
    best_score: float | None  # the best of them
    best_step: int | None  # when it was; with `patience`, the model has the weights of then
    stopped_early: bool  # whether `patience` ran out
    seconds: float  # spent training, over all resumptions
    log: list[Record]  # including the records before a resumption


def train(
    model: nn.Module,
    loss_fn: Loss,
    data: Data,
    plan: TrainingPlan | None = None,
    *,
    validation: Data | None = None,
    score: Score | None = None,
    higher_is_better: bool = False,
    directory: str | os.PathLike[str] | None = None,
    resume: bool = False,
    fabric: Fabric | None = None,
    cuda_graph: bool = False,
    progress: bool | None = None,
    begin: Callable[[], None] | None = None,
) -> TrainingResult:
    """Train a model in place.

    Args:
        model: any module; it is trained on the device that it is on.
        loss_fn: called as `loss_fn(model(features), target, …)`, returns a mean over the batch.
        data: `(features, target)`, tensors in memory, the target in any form that losses take, and
            further arguments of the loss, such as sample weights; or a stream of such batches, see
            :mod:`wassloss.training.batches`.
        plan: how; by default the paper's Algorithm 2.
        validation: data in memory to compute the score on.
        score: `score(outputs, target, …)`, a number; by default the loss.
        higher_is_better: whether a good score is a high one.
        directory: where the log and the checkpoints go; None for neither.
        resume: continue from the newest checkpoint in `directory`, bit for bit on a CPU; from the
            beginning if there is none yet.
        fabric: a launched Lightning Fabric, to choose devices, precision and strategy.
        cuda_graph: replay each step as one CUDA graph, for small models that wait for launches.
        progress: show a bar; None for only on a terminal.
        begin: called in the process that writes to `directory`, once everything has been checked
            and the directory is this run's, and before anything is written.

    Raises:
        DivergedError: the loss or the score is not finite.
        CheckpointError: every checkpoint to resume from is damaged.
        DirectoryInUseError: another process is training in `directory`.
        KeyboardInterrupt: on Ctrl-C, after the step is finished and, with a directory, saved.

    >>> import wassloss as wl
    >>> x = torch.randn(200, 4)
    >>> y = (x @ torch.randn(4, 3)).argmax(1)
    >>> model = wl.models.LinearSoftmax(features=4, labels=3)
    >>> loss_fn = wl.WassersteinLoss(wl.ground.Ordinal(3), kl_weight=0.1)
    >>> result = train(model, loss_fn, (x, y), TrainingPlan(steps=200))
    >>> result.log[-1].loss < result.log[0].loss
    True
    """
    plan = TrainingPlan() if plan is None else plan
    folder = None if directory is None else Path(directory)
    if resume and folder is None:
        raise ValueError("directory must be given where resume=True, got None")
    fabric = default_fabric(model) if fabric is None else fabric
    device = fabric.device
    if isinstance(loss_fn, nn.Module) and any(p.requires_grad for p in loss_fn.parameters()):
        raise ValueError("loss_fn must have nothing to train: make its parameters the model's")
    # Gradients are averaged over processes: the mean of means is the mean of the whole batch.
    reduction = getattr(loss_fn, "reduction", "mean")
    if fabric.world_size > 1 and reduction != "mean":
        raise ValueError(f'loss_fn must have reduction="mean", got {reduction!r}')
    if isinstance(loss_fn, nn.Module):
        loss_fn.to(device)
    model.to(device).train()
    evaluate = None
    if validation is not None:
        examples = Examples(validation, "validation").to(device)
        evaluate = partial(
            _evaluate, examples=examples, score=score or loss_fn, higher=higher_is_better
        )

    generators = [device] if device.type == "cuda" else []
    with torch.random.fork_rng(devices=generators), ExitStack() as stack:
        torch.manual_seed(plan.seed + fabric.global_rank)
        batches = batches_of(data, plan, fabric)
        optimizer = plan.build_optimizer(model.parameters(), cuda_graph)
        run = Run(plan, fabric, model, optimizer, batches, LossMeter(device))
        steps = GraphSteps(run, loss_fn) if cuda_graph else EagerSteps(run, loss_fn)
        if folder is not None:
            batches.state_dict()  # refuses a stream that cannot be resumed now rather than later
            checkpoints.check_new(folder, resume)
            if fabric.is_global_zero:
                stack.enter_context(owned(folder))
            # Again: another run may have ended there meanwhile.
            checkpoints.check_new(folder, resume)
            checkpoint = checkpoints.newest_checkpoint(folder) if resume else None
            if checkpoint is not None:
                run.restore(checkpoint)
            fabric.barrier()
            if fabric.is_global_zero:
                if begin is not None:
                    begin()
                checkpoints.discard_after(folder, run.step)
        log = _follow(run, steps, evaluate, folder, progress)

    if plan.patience is not None and run.best_weights:
        model.load_state_dict(run.best_weights)
    loss, scores = log[-1].loss if log else math.nan, (run.score, run.best_score, run.best_step)
    return TrainingResult(run.step, loss, *scores, run.stopped_early, run.seconds, log)


@torch.no_grad()
def _evaluate(run: Run, model: nn.Module, examples: Examples, score: Score, higher: bool) -> None:
    """Score a model in evaluation mode, and note whether it is the best so far."""
    starts = range(0, len(examples), ROWS_AT_ONCE)
    was_training = model.training
    model.eval()
    try:
        pieces = [model(examples.take(slice(i, i + ROWS_AT_ONCE))[0]) for i in starts]
    finally:
        model.train(was_training)
    # Of all at once, because a ranking within a label cannot be computed from pieces.
    found = float(score(torch.cat(pieces), *examples.columns[1:]))
    # The first process decides for all, or some might stop while others wait for them.
    run.score = found = run.fabric.broadcast(found)
    if not math.isfinite(found):
        raise DivergedError.at(run.step, "the score", run.plan)
    best = run.best_score
    if best is not None and not (found > best if higher else found < best):
        run.waited += 1
        return
    weights = {} if run.plan.patience is None else run.model.state_dict()
    run.best_weights = {name: tensor.detach().clone() for name, tensor in weights.items()}
    run.best_score, run.best_step, run.waited = found, run.step, 0


def _follow(
    run: Run,
    steps: GraphSteps | EagerSteps,
    evaluate: Callable[[Run, nn.Module], None] | None,
    folder: Path | None,
    progress: bool | None,
) -> list[Record]:
    """Take the steps, pausing when something is due: a line of the log, a score, a checkpoint."""
    from tqdm import tqdm

    plan, fabric, first = run.plan, run.fabric, run.fabric.is_global_zero
    intervals = [plan.log_every]
    intervals += [plan.evaluate_every] if evaluate is not None else []
    intervals += [plan.checkpoint_every] if folder is not None else []
    path = folder / LOG_NAME if folder is not None and first else None
    shown = first and (sys.stderr.isatty() if progress is None else progress)
    log, logged = RunLog(path, run.step), 0  # logged: of the solves that did not converge
    with (
        # Several processes would be interrupted at different steps, so they do not save.
        waiting_for_interrupt(folder is not None and fabric.world_size == 1) as interrupt,
        counting_unconverged(steps.loss_fn) as unconverged,
        tqdm(
            total=plan.steps, initial=run.step, unit="step", dynamic_ncols=True, disable=not shown
        ) as bar,
    ):
        while not run.finished:
            began = time.perf_counter()
            stop = min(plan.steps, *((run.step // every + 1) * every for every in intervals))
            for taken in steps.advance(run.step, stop):
                run.step += taken
                bar.update(taken)
                if interrupt.is_set():
                    break
            run.meter.check(plan)
            scored = evaluate is not None and run.due(plan.evaluate_every)
            if evaluate is not None and scored:
                evaluate(run, steps.model)
            run.seconds += time.perf_counter() - began

            if scored or run.due(plan.log_every):
                mean: Any = fabric.all_reduce(run.meter.read(), reduce_op="mean")
                loss, score = float(mean), run.score if scored else None
                rate, unsolved = plan.learning_rate_at(run.step - 1), unconverged()
                log.add(Record(run.step, loss, score, rate, run.seconds, unsolved - logged))
                logged = unsolved
                figures = {"loss": loss} | ({} if run.score is None else {"score": run.score})
                bar.set_postfix({name: f"{figure:.4g}" for name, figure in figures.items()})
            if folder is not None and (interrupt.is_set() or run.due(plan.checkpoint_every)):
                checkpoint = run.checkpoint()
                if first:
                    checkpoints.save_checkpoint(folder, checkpoint, plan.keep_checkpoints)
                fabric.barrier()
            if interrupt.is_set():
                raise KeyboardInterrupt
    return log.records
