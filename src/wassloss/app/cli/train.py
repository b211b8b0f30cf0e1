"""`wassloss train`."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import torch
import typer

from wassloss.app.cli._options import CLASSIFIER, TABLE, parsed, with_options
from wassloss.app.cli._terminal import option, say, score_table
from wassloss.estimators import WassersteinClassifier
from wassloss.runs.directory import CONFIG, LOG, read_config
from wassloss.runs.fitting import fit
from wassloss.runs.task import Task
from wassloss.training.checkpoints import checkpoint_paths, load_checkpoint

EXAMPLE = (
    "Example: wassloss train wine.csv --label-column grade --metric ordinal "
    "--order poor,fair,good --test 0.2 --out runs/wine"
)


@with_options(Data_and_labels=TABLE, Classifier=CLASSIFIER)
def train(
    context: typer.Context,
    data: Annotated[
        str | None,
        typer.Argument(
            help="A file (.csv, .parquet), a folder of Parquet files, or clipart, "
            "which is built in."
        ),
    ] = None,
    out: Annotated[Path, option("Directory for the run.", "--out", "-o")] = Path("run"),
    resume: Annotated[
        bool, option("Finish the run in --out, with its own settings; bit for bit.", "--resume")
    ] = False,
    checkpoint_every: Annotated[int, option("Small steps between checkpoints.", min=1)] = 1000,
    device: Annotated[
        str, option("cpu, cuda, cuda:1, mps; auto takes a GPU where there is one.")
    ] = "auto",
    **options: Any,
) -> None:
    """Fit a classifier, and keep it with its scores and its settings in a directory."""
    given = parsed(options)
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    if resume and (out / CONFIG).exists():
        task, params = _resumed(context, {"data": data, **given}, out)
    elif data is None:
        raise typer.BadParameter(
            f"DATA is missing{f', and {out} holds no run to resume' if resume else ''}: name a "
            "file, a folder or clipart."
        )
    else:
        params = {name: given[name] for name in CLASSIFIER}
        try:
            task = Task(data=data, **{name: given[name] for name in TABLE})
            WassersteinClassifier(device=device, random_state=task.seed, **params)._check()
        except (ValueError, TypeError) as error:
            raise typer.BadParameter(f"{error}.") from error
    try:
        run, seconds, found = fit(
            task, params, out, resume=resume, device=device, checkpoint_every=checkpoint_every
        )
    except KeyboardInterrupt:
        say(_interrupted(out), err=True)
        raise typer.Exit(130) from None
    count, small = run.model.n_iter_, (out / LOG).exists()
    passes = f"{'pass' if count == 1 else 'passes'} over the data"
    say(f"{count} {passes if small else 'iterations of L-BFGS'} in {seconds:.1f} s.")
    for part, scores in list(found.items())[-1:]:  # the test part, if there is one
        say(score_table(scores, f"{part}: {scores.count} examples"))
    if not found:
        say("Nothing was held out to score it on: --test 0.2 would.")
    say(f"Run: {out}")


def _resumed(
    context: typer.Context, given: dict[str, Any], out: Path
) -> tuple[Task, dict[str, Any]]:
    """The run's own settings, and what the user said anew, which `fit` refuses if it differs."""
    config = read_config(out)
    said = {
        name: value
        for name, value in given.items()
        if (source := context.get_parameter_source(name)) is not None
        and source.name == "COMMANDLINE"
    }
    task = {name: value for name, value in said.items() if name not in CLASSIFIER}
    params = {name: value for name, value in said.items() if name in CLASSIFIER}
    return replace(Task.from_config(config["task"]), **task), {**config["params"], **params}


def _interrupted(out: Path) -> str:
    """What was saved, and how to go on."""
    if not (out / CONFIG).exists():
        return "Interrupted before the run began."
    steps = f", saved after {load_checkpoint(out).step} steps" if checkpoint_paths(out) else ""
    command = f"wassloss train --out {shlex.quote(str(out))} --resume"
    return f"Interrupted{steps}; go on with: {command}"
