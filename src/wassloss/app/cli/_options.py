"""Options that are keywords in Python: of `read_examples`, of `WassersteinClassifier`.

Their defaults are written here because the help must not import the estimator; a test compares.
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
Words = list[str] | None  # of an option that may be repeated, with one or more values each time


def names(words: Words) -> tuple[str, ...]:
    """Names separated by commas."""
    each = [name.strip() for text in words or () for name in text.split(",")]
    return tuple(name for name in each if name)


def labels(words: Words) -> tuple[str, ...] | None:
    """Names separated by commas, or in files with one name per line."""
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
    "How far apart labels are: ordinal, labels on a line; discrete, all equally far; a CSV file of "
    "distances, of a taxonomy or of paths; or an .npz file that a ground metric was saved to."
)
OVERWRITE = option("Replace a model that is already there.", "--overwrite")


def check_model(path: Path, overwrite: bool) -> None:
    """Refuse to replace what wassloss did not write, and a model unless asked to."""
    with loading():
        from wassloss.app._files import check_replaceable, is_model

    check_replaceable(path, "a model", is_model)
    if not overwrite and path.is_file() and path.stat().st_size:
        raise ValueError(
            f"{path} holds a model already: choose another name with --out, or replace it with "
            "--overwrite"
        )


class Option(NamedTuple):
    """A keyword of Python as an option.

    Attributes:
        kind: its type on the command line.
        default: what the command line shows; `parse` makes Python's of it.
        text: its help.
        parse: from the value on the command line to the one in Python.
        metavar: what the help shows as its type, if not `kind`.
    """

    kind: Any
    default: Any
    text: str
    parse: Callable[[Any], Any] = lambda value: value
    metavar: str | None = None


TABLE = {
    "label_column": Option(str | None, None, "The column of the labels; by default label."),
    "order": Option(
        Words,
        None,
        "The labels in their order, such as poor,fair,good, or a file with one label per line. By "
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
        "A column whose equal rows stay on the same side of the split, such as a patient.",
    ),
    "missing": Option(
        Literal["impute", "error"],
        "impute",
        "What to do about missing values. impute: fill with the median and add a missing-value "
        "indicator. error: refuse them.",
        metavar="CHOICE",
    ),
}
CLASSIFIER = {
    "epsilon": Option(
        float,
        0.2,
        "Entropic strength, in units of the median cost between two labels; 0 is exact.",
    ),
    "kl_weight": Option(float, 0.5, "Weight of cross-entropy next to transport."),
    "transport_weight": Option(
        float, 1.0, "Weight of transport; 0 leaves cross-entropy, the baseline."
    ),
    "softening": Option(
        float, 0.0, "Width of the softened labels, in units of the median cost; 0 leaves them hard."
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
    "alpha": Option(float, 1.0, "Penalty on the weights; it is divided by the number of examples."),
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
        "Iterations of lbfgs, by default 1000; or epochs, by default enough for 1000 steps, and at "
        "least 5.",
    ),
    "tol": Option(float, 1e-5, "Tolerance on the gradient, for lbfgs."),
    "learning_rate": Option(
        float | None, None, "Learning rate; by default 0.01 for adam and 0.1 for sgd."
    ),
    "batch_size": Option(int, 100, "Examples per mini-batch."),
}


def with_options(**panels: dict[str, Option]) -> Callable[[_Command], _Command]:
    """Give a command options, by panel of its help, in place of its last parameter, `**options`."""

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
    """The values of some options, as Python takes them."""
    return {name: each.parse(given[name]) for name, each in options.items()}
