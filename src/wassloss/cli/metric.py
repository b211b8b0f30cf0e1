"""`wassloss metric build` and `wassloss metric show`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from wassloss.cli._metric_figures import inspect
from wassloss.cli._metric_files import table_from_file, tree_from_file
from wassloss.cli._options import label_list
from wassloss.cli._terminal import option, say
from wassloss.data import clipart, read_word_vectors
from wassloss.ground import Cost, GroundMetric, Matrix, Ordinal, load

app = typer.Typer(
    help="Say how far apart labels are, and look at what you said.",
    epilog="Example: wassloss metric build --tree taxonomy.csv --out taxonomy.npz",
    no_args_is_help=True,
)
BUILD_EXAMPLE = (
    "Example: wassloss metric build --vectors glove.6B.100d.txt --labels tags.txt --out tags.npz"
)
SHOW_EXAMPLE = "Example: wassloss metric show tags.npz --near boat --near cat"


def cost_scale(word: str | None) -> float | Literal["max", "median"] | None:
    """A number, or one of two words."""
    if word is None or word == "max" or word == "median":
        return word  # type: ignore[return-value]
    try:
        return float(word)
    except ValueError:
        raise typer.BadParameter(
            f"--scale must be a number, max or median, got {word!r}."
        ) from None


@app.command(epilog=BUILD_EXAMPLE)
def build(
    out: Annotated[Path, option("The file to write, .npz.", "--out", "-o")],
    vectors: Annotated[
        Path | None,
        option("Vectors of words: word2vec, GloVe, fastText text, or .npy."),
    ] = None,
    words: Annotated[
        Path | None,
        option("The word of each row of a .npy file, one a line; by default words.txt."),
    ] = None,
    tree: Annotated[
        Path | None, option("A taxonomy: CSV with columns name, parent, maybe length.")
    ] = None,
    matrix: Annotated[
        Path | None,
        option("Distances: .npy, .npz (distance, labels), or CSV with the labels on top."),
    ] = None,
    costs: Annotated[
        Path | None,
        option(
            "Costs of any kind, in the same forms: a line for each label predicted, a column "
            "for each true one."
        ),
    ] = None,
    ordinal: Annotated[int | None, option("So many labels on a line, one step apart.")] = None,
    labels: Annotated[
        str | None,
        option("Which labels, in which order: separated by commas, or a file with one a line."),
    ] = None,
    missing: Annotated[
        Literal["error", "drop"], option("What to do about labels without a vector.")
    ] = "error",
    normalize: Annotated[bool, option("Bring vectors to length 1, as is usual for words.")] = True,
    power: Annotated[float, option("Of the cost, (d / scale) ** power.")] = 1.0,
    scale: Annotated[str | None, option("Of the cost: a number, max or median.")] = None,
) -> None:
    """Build a ground metric from word vectors, a taxonomy, or a table of distances or costs."""
    sources = {
        "--vectors": vectors,
        "--tree": tree,
        "--matrix": matrix,
        "--costs": costs,
        "--ordinal": ordinal,
    }
    given = [name for name, value in sources.items() if value is not None]
    if len(given) != 1:
        raise typer.BadParameter(
            f"one of {', '.join(sources)} is needed, got {' and '.join(given) or 'none'}."
        )
    if out.suffix != ".npz":
        raise typer.BadParameter(f"--out must end in .npz, got {out}.")
    names, size = label_list(labels), cost_scale(scale)
    made: GroundMetric
    if vectors is not None:
        words_read = read_word_vectors(vectors, words=names, names=words)
        made = words_read.metric(
            names or words_read.words, missing=missing, normalize=normalize, power=power, scale=size
        )
    elif tree is not None:
        made = tree_from_file(tree, names, power=power, scale=size)
    elif matrix is not None:
        made = table_from_file(Matrix, matrix, names, power=power, scale=size)
    elif costs is not None:
        made = table_from_file(Cost, costs, names, power=power, scale=size)
    else:
        made = Ordinal(ordinal or 0, labels=names, power=power, scale=size)
    made.save(out)
    say(f"{made!r}: {out}. Look at it with: wassloss metric show {out}")


@app.command(epilog=SHOW_EXAMPLE)
def show(
    metric: Annotated[str, typer.Argument(help="A file of metric build, or clipart.")],
    near: Annotated[
        list[str] | None, option("A label whose neighbours to list; may be given again.")
    ] = None,
    neighbours: Annotated[int, option("How many neighbours.", "-k", min=1)] = 5,
    power: Annotated[float | None, option("Look at another power.")] = None,
) -> None:
    """Show neighbours, distances, how sparse exp(−M/ε) is, and what to begin training with."""
    made = clipart().metric if metric == "clipart" else load(metric)
    if made is None:
        raise ValueError(f"{metric} has no ground metric")
    if power is not None:
        made = made.with_cost(power=power)
    look = inspect(made)
    say(f"{made!r}\n")
    _neighbours(made, near, neighbours)
    bars = look.histogram()
    widest, total = max(n for _, _, n in bars), sum(n for _, _, n in bars)
    say("Distances between two different labels")
    for low, high, count in bars:
        where = f"{low:.3g}" if low == high else f"{low:.3g} to {high:.3g}"
        bar = "█" * round(40 * count / widest)
        say(f"  {where:>14}  {100 * count / total:5.1f} %  {bar}")
    say(f"\nThe distance is {made.check_axioms()}\n")
    say(f"Losses count a distance of {look.unit:.4g}, the median between two labels, as 1.")
    say(f"  --power 1: {look.power_advice}.")


def _neighbours(metric: GroundMetric, near: list[str] | None, k: int) -> None:
    asked = near
    if not asked:
        places = [i * metric.size // min(metric.size, 5) for i in range(min(metric.size, 5))]
        asked = [str(i) if metric.labels is None else metric.labels[i] for i in places]
    say("Nearest labels")
    for label in asked:
        try:
            which = int(label) if metric.labels is None else label
        except ValueError:
            raise typer.BadParameter(
                f"--near must be a number, for the labels have no names, got {label!r}."
            ) from None
        found = ", ".join(f"{other} {d:.3g}" for other, d in metric.nearest(which, k))
        say(f"  {label}: {found}")
    say("")
