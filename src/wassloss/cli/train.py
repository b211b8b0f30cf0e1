"""`wassloss train`."""

from __future__ import annotations

import dataclasses
import shlex
import warnings
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import Annotated, Any, Literal, get_type_hints

import torch
import typer

from wassloss.cli._tables import HELP, PARSERS
from wassloss.cli._terminal import option, say, score_table
from wassloss.cli.metric import cost_scale
from wassloss.data import DataWarning
from wassloss.losses.modules import EPSILON, KL_WEIGHT
from wassloss.runs.directory import CONFIG, read_config
from wassloss.runs.fitting import fit, is_first_process
from wassloss.runs.settings import CHOICES, Settings
from wassloss.training.checkpoints import newest_checkpoint

EXAMPLE = (
    "Example: wassloss train clipart --kl-weight 0.1 --validation 0.2 --patience 5 --out runs/w"
)

# The help of each setting, by panel. Names, types and defaults are those of Settings.
_HELP: dict[str, dict[str, str | None]] = {
    "Data and labels": {
        "metric": "A file of `wassloss metric build`, ordinal or discrete; by default the one that "
        "comes with the data.",
        "power": "Of the cost, (d / scale) ** power.",
        "scale": "Of the cost: a number, max or median.",
        **HELP,
        "standardize": "Bring each feature to mean 0 and variance 1; by default those of a table.",
        "test": "Share of the examples to hold out and score at the end, unless the data have a "
        "part test.",
        "validation": "Share of the other examples to hold out and watch, unless the data have a "
        "part validation.",
    },
    "Loss": {
        "loss": "wasserstein: W + kl-weight KL. kl: cross-entropy alone, the baseline.",
        "epsilon": "Entropic strength, in units of the median cost between two labels; 0 is exact. "
        f"By default {EPSILON:g}.",
        "kl_weight": f"α in W + α KL, in the same units. By default {KL_WEIGHT:g}.",
        "regularizer": "plan is the paper's.",
    },
    "Model": {
        "hidden_layer_sizes": "Widths of hidden layers, such as 256,128; none for a linear model.",
        "dropout": "Of the hidden layers.",
    },
    "Training": {
        "optimizer": None,
        "learning_rate": "By default 0.01, or 0.1 for sgd.",
        "momentum": "Of sgd.",
        "weight_decay": "As in torch: minimise the loss + ½ w Σ‖θ‖².",
        "schedule": "Of the learning rate.",
        "warmup_steps": "Over which the learning rate rises first.",
        "steps": "Steps to take.",
        "batch_size": None,
        "seed": None,
        "patience": "Stop after this many validation scores in a row without a better one, and "
        "keep the best weights.",
        "score": "What patience watches.",
        "evaluate_every": "Steps between validation scores.",
        "log_every": "Steps between lines of the log.",
        "checkpoint_every": "Steps between checkpoints.",
    },
}


def train(
    context: typer.Context,
    data: Annotated[
        str | None,
        typer.Argument(
            help="A file (.npz, .parquet, .csv), a folder of Parquet files, or clipart, "
            "which is built in."
        ),
    ] = None,
    out: Annotated[Path, option("Directory for the run.", "--out", "-o")] = Path("run"),
    resume: Annotated[
        bool, option("Continue the run in --out, with its own settings; bit for bit.", "--resume")
    ] = False,
    device: Annotated[
        str, option("cpu, cuda, cuda:1, mps; auto takes a GPU where there is one.")
    ] = "auto",
    **settings: Any,
) -> None:
    """Train a model, and keep it with everything about its training in a directory."""
    for name, parse in _PARSERS.items():
        settings[name] = parse(settings[name])
    place = _device(device)
    if resume and (out / CONFIG).exists():
        chosen = _resumed(context, {"data": data, **settings}, out)
    elif data is None:
        raise typer.BadParameter(
            f"DATA is missing{f', and {out} holds no run to resume' if resume else ''}: name a "
            "file, a folder or clipart."
        )
    else:
        try:
            chosen = Settings(data, **settings)
        except (ValueError, TypeError) as error:
            raise typer.BadParameter(f"{error}.") from error
    first = is_first_process()
    if not first:
        warnings.simplefilter("ignore", DataWarning)  # which the first one gives
    try:
        result = fit(chosen, out, resume=resume, device=place)
    except KeyboardInterrupt:
        say(_interrupted(out), err=True)
        raise typer.Exit(130) from None
    if not first:
        return
    done = result.training
    early = f", stopped early, best at {done.best_step}" if done.stopped_early else ""
    say(f"{done.steps} steps in {done.seconds:.1f} s{early}; last loss {done.loss:.4g}.")
    if result.scores is not None:
        say(score_table(result.scores, f"{result.part}: {len(result.scores)} examples"))
    else:
        say("Nothing was held out to score it on: --test 0.2 would.")
    say(f"Run: {out}")


def _widths(text: str | None) -> tuple[int, ...]:
    """Numbers separated by commas."""
    try:
        return tuple(int(word) for word in text.split(",")) if text else ()
    except ValueError:
        raise typer.BadParameter(
            f"--hidden-layer-sizes must be numbers such as 256,128, got {text!r}."
        ) from None


# Settings that are words on the command line, and what they are made into.
_PARSERS = {"scale": cost_scale, "hidden_layer_sizes": _widths, **PARSERS}


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


def _interrupted(out: Path) -> str:
    """What was saved, and how to go on."""
    if not (out / CONFIG).exists():
        return "Interrupted before the run began."
    saved = newest_checkpoint(out)
    steps = 0 if saved is None else saved.step
    command = f"wassloss train --out {shlex.quote(str(out))} --resume"
    return f"Interrupted, saved after {steps} steps; go on with: {command}"


def _device(name: str) -> str:
    if name == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    try:
        torch.zeros(1, device=name)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise typer.BadParameter(f"--device {name} cannot be used here: {reason}.") from error
    return name


def _parameters() -> list[Parameter]:
    """The settings as parameters of the command."""
    types, defaults = get_type_hints(Settings), Settings("clipart")
    found = []
    for panel, texts in _HELP.items():
        for name, text in texts.items():
            kind: Any = Literal[CHOICES[name]] if name in CHOICES else types[name]
            default = getattr(defaults, name)
            if name in _PARSERS:
                kind, default = str | None, None
            names = [f"--{name}"] if kind is bool else []  # without --no-…
            about = option(text, *names, rich_help_panel=panel)
            found.append(
                Parameter(
                    name, Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[kind, about]
                )
            )
    return found


_own = [p for p in signature(train, eval_str=True).parameters.values() if p.name != "settings"]
train.__signature__ = Signature([*_own, *_parameters()])  # type: ignore[attr-defined]
