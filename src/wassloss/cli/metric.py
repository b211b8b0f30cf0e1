"""`wassloss metric build` and `wassloss metric show`."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
import torch
import typer
from numpy.typing import NDArray

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
_INSPECTED = 512  # labels that figures are taken from, if there are more
_CROWDED = 0.6  # nearest over median distance, above which neighbours hardly stand out
_BARS = 12  # of distances; fewer different ones each have their own


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
    power: Annotated[float, option("Of the cost, d ** power.")] = 1.0,
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
    names = label_list(labels)
    made: GroundMetric
    if vectors is not None:
        read = read_word_vectors(vectors, words=names, names=words)
        how = {"missing": missing, "normalize": normalize, "power": power}
        made = read.metric(names or read.words, **how)  # type: ignore[arg-type]
    elif tree is not None:
        made = tree_from_file(tree, names, power=power)
    elif matrix is not None:
        made = table_from_file(Matrix, matrix, names, power=power)
    elif costs is not None:
        made = table_from_file(Cost, costs, names, power=power)
    else:
        made = Ordinal(ordinal or 0, labels=names, power=power)
    made.save(out)
    say(f"{made!r}: {out}. Look at it with: wassloss metric show {out}")


@app.command(epilog=SHOW_EXAMPLE)
def show(
    metric: Annotated[str, typer.Argument(help="A file of metric build, or clipart.")],
    near: Annotated[
        list[str] | None, option("A label whose neighbours to list; may be given again.")
    ] = None,
    neighbours: Annotated[int, option("How many neighbours.", "-k", min=1)] = 5,
) -> None:
    """Show neighbours, distances, the axioms of a metric, and what to begin training with."""
    made = clipart().metric if metric == "clipart" else load(metric)
    if made is None or made.size < 2:
        raise ValueError(f"{metric} must be a ground metric of at least two labels, got {made!r}")
    distances, nearest = distances_of(made)
    say(f"{made!r}\n")
    _neighbours(made, near, neighbours)
    say("Distances between two different labels")
    bars = histogram(distances)
    widest = max(count for _, _, count in bars)
    for low, high, count in bars:
        where = f"{low:.3g}" if low == high else f"{low:.3g} to {high:.3g}"
        bar = "█" * round(40 * count / widest)
        say(f"  {where:>14}  {100 * count / len(distances):5.1f} %  {bar}")
    say(f"\nThe distance is {made.check_axioms()}\n")
    unit = made.in_medians().scale
    say(f"Losses count a distance of {unit:.4g}, the median between two labels, as 1.")
    say(f"  --power 1: {_why_power_one(nearest, distances)}.")


@torch.no_grad()
def distances_of(metric: GroundMetric) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Distances between different labels, of up to 512 columns, and the least of each column."""
    size, count = metric.size, min(metric.size, _INSPECTED)
    chosen = torch.arange(count) * size // count
    others = torch.arange(size) != chosen[:, None]  # (chosen, K)
    distance = metric.distance_columns(chosen).double().cpu()
    nearest = distance.masked_fill(~others, torch.inf).amin(1)
    return distance[others].numpy(), nearest.numpy()


def histogram(distances: NDArray[np.float64]) -> list[tuple[float, float, int]]:
    """From where to where, and how many distances are there; few are listed one by one."""
    lows, counts = np.unique(distances, return_counts=True)
    spans = [(value, value) for value in lows]
    if len(lows) > _BARS:
        counts, edges = np.histogram(distances, bins=_BARS)
        spans = list(pairwise(edges))
    return [(float(low), float(high), int(n)) for (low, high), n in zip(spans, counts, strict=True)]


def _why_power_one(nearest: NDArray[np.float64], apart: NDArray[np.float64]) -> str:
    """The reasons are in docs/defaults.md."""
    if apart.min() == apart.max():
        return "all labels are equally far apart, and no power changes that"
    median = float(np.median(apart))
    ratio = float(np.median(nearest)) / median if median else 0.0
    known = f"the nearest label is typically {100 * ratio:.0f} % as far as any other"
    if ratio < _CROWDED:
        return f"the safe choice: {known}, so neighbours already stand out"
    return (
        f"the safe choice. But {known}, so compare power 2 on a validation split: it makes "
        "neighbours stand out more; it did better on one data set and far worse on another"
    )


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
