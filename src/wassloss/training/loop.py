"""The training loop, for every device, precision, number of processes and loss."""

from __future__ import annotations

import math
import os
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from wassloss.training import checkpoints
from wassloss.training.batches import Data, Examples
from wassloss.training.directory_lock import owned
from wassloss.training.graph import GraphRun
from wassloss.training.log import LOG_NAME, Record, records_until
from wassloss.training.plan import TrainingPlan
from wassloss.training.run import DivergedError, Loss, Run
from wassloss.training.session import counting_unconverged, default_fabric, waiting_for_interrupt

if TYPE_CHECKING:
    from lightning_fabric import Fabric


def train(
    model: nn.Module,
    loss_fn: Loss,
    data: Data,
    plan: TrainingPlan | None = None,
    *,
    evaluate: Callable[[nn.Module], Any] | None = None,
    directory: str | os.PathLike[str] | None = None,
    resume: bool = False,
    fabric: Fabric | None = None,
    cuda_graph: bool = False,
    progress: bool | None = None,
    begin: Callable[[], None] | None = None,
) -> list[Record]:
    """Train a model in place.

    Args:
        model: any module; it is trained on the device that it is on.
        loss_fn: called as `loss_fn(model(features), target, …)`, returns a mean over the batch.
        data: `(features, target)`, tensors in memory, the target in any form that losses take, and
            further arguments of the loss, such as sample weights.
        plan: how; by default the paper's Algorithm 2.
        evaluate: called as `evaluate(model)` every `plan.evaluate_every` steps, with the model in
            evaluation mode and without gradients, returns a score for the log.
        directory: where the log and the checkpoints go; None for neither.
        resume: continue from the newest checkpoint in `directory`, bit for bit on a CPU; from the
            beginning if there is none yet.
        fabric: a launched Lightning Fabric, to choose devices, precision and strategy.
        cuda_graph: replay each step as one CUDA graph, for small models that wait for launches.
        progress: show a bar; None for only on a terminal.
        begin: called in the process that writes to `directory`, once everything has been checked
            and the directory is this run's, and before anything is written.

    Returns:
        The log, one record per `plan.log_every` steps, including those before a resumption.

    Raises:
        DivergedError: the loss or the score is not finite.
        CheckpointError: every checkpoint to resume from is damaged.
        DirectoryInUseError: another process is training in `directory`.
        KeyboardInterrupt: on Ctrl-C, after the step is finished and, with a directory, saved.

    >>> import wassloss as wl
    >>> x = torch.randn(200, 4)
    >>> y = (x @ torch.randn(4, 3)).argmax(1)
    >>> model = wl.models.Linear(features=4, labels=3)
    >>> loss_fn = wl.WassersteinLoss(wl.ground.Ordinal(3), kl_weight=0.1)
    >>> log = train(model, loss_fn, (x, y), TrainingPlan(steps=200))
    >>> log[-1].loss < log[0].loss
    True
    """
    plan = TrainingPlan() if plan is None else plan
    folder = None if directory is None else Path(directory)
    if resume and folder is None:
        raise ValueError("directory must be given where resume=True, got None")
    fabric = default_fabric(model) if fabric is None else fabric
    device = fabric.device
    # Gradients are averaged over processes: the mean of means is the mean of the whole batch.
    reduction = getattr(loss_fn, "reduction", "mean")
    if fabric.world_size > 1 and reduction != "mean":
        raise ValueError(f'loss_fn must have reduction="mean", got {reduction!r}')
    if isinstance(loss_fn, nn.Module):
        if any(parameter.requires_grad for parameter in loss_fn.parameters()):
            raise ValueError("loss_fn must have nothing to train: make its parameters the model's")
        loss_fn.to(device)
    model.to(device).train()

    generators = [device] if device.type == "cuda" else []
    with torch.random.fork_rng(devices=generators), ExitStack() as stack:
        torch.manual_seed(plan.seed + fabric.global_rank)
        run = (GraphRun if cuda_graph else Run)(plan, fabric, model, loss_fn, Examples(data))
        if folder is not None:
            if fabric.is_global_zero:
                stack.enter_context(owned(folder))
            if checkpoints.checkpoint_paths(folder):
                if not resume:
                    raise ValueError(
                        f"directory must be new, or resume=True, got {folder}, with checkpoints"
                    )
                run.restore(checkpoints.load_checkpoint(folder))
            fabric.barrier()
            if fabric.is_global_zero:
                if begin is not None:
                    begin()
                checkpoints.discard_after(folder, run.step)
        return _follow(run, evaluate, folder, progress)


def _follow(
    run: Run,
    evaluate: Callable[[nn.Module], Any] | None,
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
    records = [] if path is None else records_until(run.step, path)
    logged = 0  # of the solves that did not converge
    with (
        # Several processes would be interrupted at different steps, so they do not save.
        waiting_for_interrupt(folder is not None and fabric.world_size == 1) as interrupt,
        counting_unconverged(run.loss_fn) as unconverged,
        tqdm(
            total=plan.steps, initial=run.step, unit="step", dynamic_ncols=True, disable=not shown
        ) as bar,
    ):
        while run.step < plan.steps:
            began = time.perf_counter()
            stop = min(plan.steps, *((run.step // every + 1) * every for every in intervals))
            for taken in run.advance(stop):
                run.step += taken
                bar.update(taken)
                if interrupt.is_set():
                    break
            run.meter.check(plan)
            score = None
            if evaluate is not None and run.due(plan.evaluate_every):
                score = _score(run, evaluate)
            run.seconds += time.perf_counter() - began

            if score is not None or run.due(plan.log_every):
                mean: Any = fabric.all_reduce(run.meter.read(), reduce_op="mean")
                rate, unsolved = plan.learning_rate_at(run.step - 1), unconverged()
                record = Record(run.step, float(mean), score, rate, run.seconds, unsolved - logged)
                records.append(record)
                if path is not None:
                    with open(path, "a", encoding="utf-8") as file:
                        file.write(record.line())
                logged = unsolved
                figures = {"loss": record.loss} | ({} if score is None else {"score": score})
                bar.set_postfix({name: f"{figure:.4g}" for name, figure in figures.items()})
            if folder is not None and (interrupt.is_set() or run.due(plan.checkpoint_every)):
                checkpoint = run.checkpoint()
                if first:
                    checkpoints.save_checkpoint(folder, checkpoint)
                fabric.barrier()
            if interrupt.is_set():
                raise KeyboardInterrupt
    return records


@torch.no_grad()
def _score(run: Run, evaluate: Callable[[nn.Module], Any]) -> float:
    """The score of the model in evaluation mode: that of the first process."""
    run.called_model.eval()
    try:
        found = evaluate(run.called_model)
    finally:
        run.called_model.train()
    try:
        score = float(run.fabric.broadcast(float(found)))
    except (TypeError, ValueError, RuntimeError) as error:
        raise TypeError(f"evaluate must return a number, got {found!r}") from error
    if not math.isfinite(score):
        raise DivergedError.at(run.step, "the score", run.plan)
    return score
