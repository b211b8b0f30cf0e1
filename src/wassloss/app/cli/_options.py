"""Options that are parameters of something else: of a task, of `WassersteinClassifier`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import typer

from wassloss.app.cli._terminal import option
from wassloss.data._arrow import named_errors
from wassloss.estimators import WassersteinClassifier
from wassloss.runs.task import Task

_Command = TypeVar("_Command", bound=Callable[..., None])


Words = list[str] | None  # of an option that may be given again, each time with several


def label_list(words: Words) -> tuple[str, ...] | None:
    """Names in files, one a line, or separated by commas."""
    return tuple(name for text in words for name in _labels(text)) if words else None


def _labels(text: str) -> tuple[str, ...]:
    path = Path(text)
    if not path.is_file():
        return name_list([text])
    with named_errors(path, "names"):
        lines = path.read_text(encoding="utf-8-sig").splitlines()
        names = tuple(line.strip() for line in lines if line.strip())
        if not names:
            raise ValueError("it must hold names, one a line, got none")
        return names


def name_list(words: Words) -> tuple[str, ...]:
    """Names separated by commas."""
    each = [name.strip() for text in words or () for name in text.split(",")]
    return tuple(name for name in each if name)


def _widths(words: Words) -> tuple[int, ...]:
    """Numbers separated by commas."""
    try:
        return tuple(int(word) for word in name_list(words))
    except ValueError:
        got = ",".join(words or ())
        raise typer.BadParameter(
            f"--hidden-layer-sizes must be numbers such as 256,128, got {got!r}."
        ) from None


# Type and help of each option; `_PARSERS` reads those of `Words`.
TABLE: dict[str, tuple[Any, str]] = {
    "label_column": (str | None, "The column of the labels; by default label."),
    "metric": (
        str | None,
        "A file of `wassloss metric build`, ordinal or discrete; by default the one that comes "
        "with the data.",
    ),
    "order": (
        Words,
        "The labels in their order, such as poor,fair,good, or a file with one per line; by "
        "default the values that occur.",
    ),
    "features": (Words, "The columns to learn from, separated by commas; by default all."),
    "drop": (Words, "Columns that are no features, separated by commas."),
    "group": (str | None, "A column whose equal rows stay together when some are held out."),
    "missing": (
        Literal["impute", "error"],
        "impute: the median, and a feature that says so. error: refuse gaps.",
    ),
    "test": (
        float,
        "Share of the examples to hold out and score, unless the data have a part test.",
    ),
    "seed": (int, "Of the examples held out, and of the model."),
}
CLASSIFIER: dict[str, tuple[Any, str]] = {
    "epsilon": (
        float,
        "Entropic strength, in units of the median cost between two labels; 0 is exact.",
    ),
    "kl_weight": (float, "α in W + α KL, in the same units."),
    "transport_weight": (float, "Of W: 0 leaves cross-entropy, the baseline."),
    "softening": (float, "Soften labels by the metric: the width, in the same units."),
    "power": (float | None, "Of the cost; by default the metric's own."),
    "hidden_layer_sizes": (
        Words,
        "Widths of hidden layers, such as 256,128; none for a linear model.",
    ),
    "alpha": (float, "Penalty on the weights, divided by the number of examples."),
    "standardize": (bool, "Bring each feature to mean 0 and variance 1."),
    "class_weight": (Literal["balanced"] | None, "balanced: rare labels count more."),
    "solver": (
        Literal["auto", "lbfgs", "adam", "sgd"],
        "lbfgs: all examples at once. adam, sgd: small steps. auto: lbfgs for a linear model and "
        "up to two million examples times labels.",
    ),
    "max_iter": (
        int | None,
        "Iterations of lbfgs, by default 1000; or passes over the data, by default at least 5, and "
        "enough for 1000 small steps.",
    ),
    "tol": (float, "On the gradient, for lbfgs."),
    "learning_rate": (float | None, "Of small steps; by default 0.01 for adam, 0.1 for sgd."),
    "batch_size": (int, "Examples per small step."),
}
_PARSERS: dict[str, Callable[[Words], Any]] = {
    "order": label_list,
    "features": lambda words: name_list(words) or None,
    "drop": name_list,
    "hidden_layer_sizes": _widths,
}
_DEFAULTS = vars(WassersteinClassifier()) | {f.name: f.default for f in fields(Task)}


def with_options(**panels: dict[str, tuple[Any, str]]) -> Callable[[_Command], _Command]:
    """Give a command more options, by panel of its help, in place of its last parameter, `**`.

    Options that the command has itself are not added.
    """

    def extended(command: _Command) -> _Command:
        *own, _ = signature(command, eval_str=True).parameters.values()
        names = {parameter.name for parameter in own}
        more = [
            Parameter(
                name,
                Parameter.KEYWORD_ONLY,
                default=None if name in _PARSERS else _DEFAULTS[name],
                annotation=Annotated[kind, option(text, rich_help_panel=panel.replace("_", " "))],
            )
            for panel, options in panels.items()
            for name, (kind, text) in options.items()
            if name not in names
        ]
        command.__signature__ = Signature([*own, *more])  # type: ignore[attr-defined]
        return command

    return extended


def parsed(options: dict[str, Any]) -> dict[str, Any]:
    """Options as Python takes them."""
    return {
        name: _PARSERS[name](value) if name in _PARSERS else value
        for name, value in options.items()
    }
