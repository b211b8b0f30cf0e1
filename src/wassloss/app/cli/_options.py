"""Command-line options for the parameters of `ReadOptions` and `WassersteinClassifier`.

Defaults are repeated here, because the help must not import the estimator; a test compares them.
"""

from __future__ import annotations

from collections.abc import Callable
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, TypeVar

import typer

from wassloss.app.cli._interrupt import loading
from wassloss.app.cli._terminal import option

_Command = TypeVar("_Command", bound=Callable[..., None])
Words = list[str] | None  # an option that may be repeated, each time with one or more values


def names(words: Words) -> tuple[str, ...]:
    """Split names at commas."""
    each = [name.strip() for text in words or () for name in text.split(",")]
    return tuple(name for name in each if name)


def labels(words: Words) -> tuple[str, ...] | None:
    """Split names at commas, or read them from files with one name per line."""
    return tuple(name for text in words for name in _labels(text)) if words else None


def _labels(text: str) -> tuple[str, ...]:
    path = Path(text)
    if not path.is_file():
        return names([text])
    from wassloss.app._messages import named_errors

    with named_errors(path, "names"):
        lines = path.read_text(encoding="utf-8-sig").splitlines()
        found = tuple(line.strip() for line in lines if line.strip())
        if not found:
            raise ValueError("it must hold names, one per line, got none")
        return found


def _widths(words: Words) -> tuple[int, ...]:
    try:
        return tuple(int(word) for word in names(words))
    except ValueError:
        raise typer.BadParameter(
            f"--hidden-layer-sizes must be numbers such as 256,128, got {','.join(words or ())!r}."
        ) from None


METRIC = option(
    "The distances between labels: ordinal (labels on a line), discrete (all equally far apart), a "
    "CSV file of distances or of a taxonomy, or an .npz file of a saved ground metric."
)
OVERWRITE = option("Replace an existing model.", "--overwrite")


def check_model(path: Path, overwrite: bool) -> None:
    """Refuse to replace a file that wassloss did not write, or a model without `overwrite`."""
    with loading():
        from wassloss.app._files import check_replaceable, is_model

    check_replaceable(path, "a model", is_model)
    if not overwrite and path.is_file() and path.stat().st_size:
        raise ValueError(
            f"{path} already holds a model: choose another name with --out, or replace it with "
            "--overwrite"
        )


class Option(NamedTuple):
    """A Python parameter as a command-line option.

    Attributes:
        kind: its type on the command line.
        default: its default on the command line.
        text: its help.
        parse: converts a value of the command line to the Python parameter.
        metavar: the type shown in the help, if not `kind`.
    """

    kind: Any
    default: Any
    text: str
    parse: Callable[[Any], Any] = lambda value: value
    metavar: str | None = None


TABLE = {
    "label_column": Option(
        str | None, None, "The column of the labels; by default label or labels."
    ),
    "order": Option(
        Words,
        None,
        "All labels in their order, such as poor,fair,good, or a file with one label per line; by "
        "default, the values that occur.",
        labels,
        "NAMES",
    ),
    "features": Option(
        Words,
        None,
        "The columns to learn from, separated by commas; by default, all others.",
        lambda words: names(words) or None,
        "NAMES",
    ),
    "drop": Option(Words, None, "Columns to leave out, separated by commas.", names, "NAMES"),
    "group": Option(
        str | None,
        None,
        "A column of groups, such as patients; rows of a group are held out together.",
    ),
    "missing": Option(
        Literal["impute", "error"],
        "impute",
        "How to treat missing values. impute: fill with the median and add a missing-value "
        "indicator. error: refuse them.",
        metavar="CHOICE",
    ),
}
CLASSIFIER = {
    "epsilon": Option(
        float,
        0.2,
        "Entropic regularisation, in units of the median cost between two labels; 0 is exact.",
    ),
    "kl_weight": Option(float, 0.5, "Weight of the cross-entropy term."),
    "transport_weight": Option(
        float, 1.0, "Weight of the transport term; 0 leaves only cross-entropy, the baseline."
    ),
    "softening": Option(
        float, 0.0, "Width of softened labels, in units of the median cost; 0 keeps them hard."
    ),
    "power": Option(
        float | None, None, "Exponent of the cost; by default, that of the ground metric."
    ),
    "hidden_layer_sizes": Option(
        Words,
        None,
        "Widths of the hidden layers, such as 256,128; by default none, a linear model.",
        _widths,
        "NUMBERS",
    ),
    "alpha": Option(float, 1.0, "L2 penalty on the weights, divided by the number of examples."),
    "standardize": Option(bool, True, "Scale each feature to mean 0 and variance 1."),
    "class_weight": Option(
        Literal["balanced"] | None,
        None,
        "balanced: weight examples inversely to the frequency of their label.",
        metavar="CHOICE",
    ),
    "solver": Option(
        Literal["auto", "lbfgs", "adam", "sgd"],
        "auto",
        "lbfgs: all examples at once. adam, sgd: mini-batches. auto: lbfgs for a linear model with "
        "up to two million examples times labels, else adam.",
        metavar="CHOICE",
    ),
    "max_iter": Option(
        int | None,
        None,
        "Maximum number of iterations of lbfgs, by default 1000; or number of epochs of adam and "
        "sgd, by default enough for 1000 steps and at least 5.",
    ),
    "tol": Option(float, 1e-5, "Gradient tolerance of lbfgs."),
    "learning_rate": Option(
        float | None, None, "Learning rate; by default 0.01 for adam and 0.1 for sgd."
    ),
    "batch_size": Option(int, 100, "Examples per mini-batch."),
}


def with_options(**panels: dict[str, Option]) -> Callable[[_Command], _Command]:
    """Replace a command's last parameter, `**options`, by options in panels of its help."""

    def extended(command: _Command) -> _Command:
        *own, _ = signature(command, eval_str=True).parameters.values()
        more = [
            Parameter(
                name,
                Parameter.KEYWORD_ONLY,
                default=each.default,
                annotation=Annotated[
                    each.kind,
                    option(
                        each.text,
                        metavar=each.metavar,
                        rich_help_panel=panel.replace("_", " "),
                    ),
                ],
            )
            for panel, options in panels.items()
            for name, each in options.items()
        ]
        command.__signature__ = Signature([*own, *more])  # type: ignore[attr-defined]
        return command

    return extended


def parsed(options: dict[str, Option], given: dict[str, Any]) -> dict[str, Any]:
    """The Python values of these options."""
    return {name: each.parse(given[name]) for name, each in options.items()}
