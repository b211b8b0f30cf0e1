"""`wassloss train`."""

from __future__ import annotations

import dataclasses
import shlex
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal

import torch
import typer

from wassloss.cli._encoding import say
from wassloss.cli._errors import usage
from wassloss.cli._options import cost_scale, label_list, widths
from wassloss.cli._tables import console, score_table
from wassloss.data import DataWarning
from wassloss.runs.directory import CONFIG, read_config
from wassloss.runs.fitting import fit, is_first_process
from wassloss.runs.settings import Settings
from wassloss.training.checkpoints import newest_checkpoint

EXAMPLE = (
    "Example: wassloss train clipart --kl-weight 0.1 --validation 0.2 --patience 5 --out runs/w"
)
_D = Settings("clipart")  # whose defaults are the command's


def _panel(title: str) -> Callable[..., Any]:
    def option(text: str | None = None, *names: str) -> Any:
        return typer.Option(*names, help=text, rich_help_panel=title)

    return option


_data, _loss, _model, _training = map(_panel, ("Data and labels", "Loss", "Model", "Training"))


def train(
    context: typer.Context,
    data: Annotated[
        str | None,
        typer.Argument(
            help="A file (.npz, .parquet, .csv, .svm), a folder of Parquet files, which is "
            "streamed, or clipart, which is built in."
        ),
    ] = None,
    out: Annotated[
        Path, typer.Option("--out", "-o", help="Directory for the run.", show_default=True)
    ] = Path("run"),
    resume: Annotated[
        bool,
        typer.Option(
            "--resume", help="Continue the run in --out, with its own settings; bit for bit."
        ),
    ] = False,
    metric: Annotated[
        str | None,
        _data(
            "A file of `wassloss metric build`, ordinal or discrete; by default the one that comes "
            "with the data."
        ),
    ] = None,
    power: Annotated[float | None, _data("Of the cost, (d / scale) ** power.")] = None,
    scale: Annotated[str | None, _data("Of the cost: a number, max or median.")] = None,
    labels: Annotated[
        str | None,
        _data(
            "The labels in their order, separated by commas, or a file with one per line; by "
            "default the values that occur."
        ),
    ] = None,
    label_column: Annotated[
        str | None,
        _data(
            "Of a table; by default label. Of a CSV file without a header its position, from 0; by "
            "default the last."
        ),
    ] = None,
    stream: Annotated[bool, _data("Read a Parquet file in batches, too.", "--stream")] = False,
    standardize: Annotated[
        bool, _data("Bring each feature to mean 0 and variance 1.", "--standardize")
    ] = False,
    validation: Annotated[
        float,
        _data(
            "Share of the training examples to hold out, unless the data have a part validation."
        ),
    ] = _D.validation,
    loss: Annotated[
        Literal["wasserstein", "kl"],
        _loss("wasserstein: W + kl-weight KL. kl: cross-entropy alone, the baseline."),
    ] = "wasserstein",
    epsilon: Annotated[
        float | None,
        _loss(
            "Entropic strength, in units of the cost; 0 is exact. By default a fifth of the median "
            "cost."
        ),
    ] = None,
    kl_weight: Annotated[float, _loss("α in W + α KL, in units of the cost.")] = _D.kl_weight,
    regularizer: Annotated[Literal["plan", "product"], _loss("plan is the paper's.")] = "plan",
    hidden_layer_sizes: Annotated[
        str | None, _model("Widths of hidden layers, such as 256,128; none for a linear model.")
    ] = None,
    dropout: Annotated[float, _model("Of the hidden layers.")] = _D.dropout,
    optimizer: Annotated[Literal["adam", "adamw", "sgd"], _training()] = "adam",
    learning_rate: Annotated[float | None, _training("By default 0.01, or 0.1 for sgd.")] = None,
    momentum: Annotated[float, _training("Of sgd.")] = _D.momentum,
    weight_decay: Annotated[
        float, _training("As in torch: minimise the loss + ½ w Σ‖θ‖².")
    ] = _D.weight_decay,
    schedule: Annotated[
        Literal["constant", "cosine"], _training("Of the learning rate.")
    ] = "constant",
    warmup_steps: Annotated[
        int, _training("Over which the learning rate rises first.")
    ] = _D.warmup_steps,
    steps: Annotated[int, _training("Steps to take.")] = _D.steps,
    batch_size: Annotated[int, _training()] = _D.batch_size,
    seed: Annotated[int, _training()] = _D.seed,
    patience: Annotated[
        int | None,
        _training(
            "Stop after this many validation scores in a row without a better one, and keep the "
            "best weights."
        ),
    ] = None,
    score: Annotated[
        Literal["top1_cost", "top5_cost", "auc", "accuracy", "loss"],
        _training("What patience watches."),
    ] = "top1_cost",
    evaluate_every: Annotated[
        int, _training("Steps between validation scores.")
    ] = _D.evaluate_every,
    log_every: Annotated[int, _training("Steps between lines of the log.")] = _D.log_every,
    checkpoint_every: Annotated[int, _training("Steps between checkpoints.")] = _D.checkpoint_every,
    device: Annotated[
        str, typer.Option(help="cpu, cuda, cuda:1, mps; auto takes a GPU where there is one.")
    ] = "auto",
) -> None:
    """Train a model, and keep it with everything about its training in a directory."""
    given = dict(context.params)
    for name in ("out", "resume", "device"):
        given.pop(name)
    given["scale"] = cost_scale(scale)
    given["labels"] = label_list(labels)
    given["hidden_layer_sizes"] = widths(hidden_layer_sizes)
    place = _device(device)
    if resume and (out / CONFIG).exists():
        settings = _resumed(context, given, out)
    elif data is None:
        raise usage(
            f"DATA is missing{f', and {out} holds no run to resume' if resume else ''}: name a "
            "file, a folder or clipart."
        )
    else:
        settings = _settings(given)
    if not is_first_process():
        warnings.simplefilter("ignore", DataWarning)  # which the first one gives
    try:
        outcome = fit(settings, out, resume=resume, device=place)
    except KeyboardInterrupt:
        raise typer.Exit(_interrupted(out)) from None
    if not is_first_process():
        return
    screen, done = console(), outcome.training
    early = f", stopped early, best at {done.best_step}" if done.stopped_early else ""
    screen.print(f"{done.steps} steps in {done.seconds:.1f} s{early}; last loss {done.loss:.4g}.")
    if outcome.scores is not None:
        screen.print(score_table(outcome.scores, f"{outcome.part}: {len(outcome.scores)} examples"))
    else:
        screen.print("Nothing was held out to score it on: --validation 0.2 would.")
    screen.print(f"Run: {out}")


def _settings(given: dict[str, Any]) -> Settings:
    try:
        return Settings(**given)
    except (ValueError, TypeError) as error:
        raise usage(f"{error}.") from error


def _resumed(context: typer.Context, given: dict[str, Any], out: Path) -> Settings:
    """The run's own settings, and what the user said anew."""
    old = Settings.from_config(read_config(out)["settings"])
    said = {
        name: value
        for name, value in given.items()
        if (source := context.get_parameter_source(name)) is not None
        and source.name == "COMMANDLINE"
    }
    return dataclasses.replace(old, **said)


def _interrupted(out: Path) -> int:
    """Say how to go on; the exit code that a shell gives to Ctrl-C."""
    if not (out / CONFIG).exists():
        say("Interrupted before the run began.", err=True)
        return 130
    saved = newest_checkpoint(out)
    steps = 0 if saved is None else saved.step
    command = f"wassloss train --out {shlex.quote(str(out))} --resume"
    say(f"Interrupted, saved after {steps} steps; go on with: {command}", err=True)
    return 130


def _device(name: str) -> str:
    if name == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    try:
        torch.zeros(1, device=name)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise usage(f"--device {name} cannot be used here: {reason}.") from error
    return name
