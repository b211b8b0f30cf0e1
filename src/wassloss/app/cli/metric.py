"""`wassloss metric build` and `wassloss metric show`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
import typer

from wassloss._files import check_replaceable
from wassloss.app.cli._options import Words, label_list
from wassloss.app.cli._terminal import option, say
from wassloss.data import clipart, csv, read_word_vectors
from wassloss.data._arrow import named_errors
from wassloss.data.labels import shown
from wassloss.ground import Cost, GroundMetric, Matrix, Tree
from wassloss.ground.storage import is_metric

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
_QUANTILES = {"least": 0, "5 % below": 0.05, "median": 0.5, "95 % below": 0.95, "largest": 1}
_Labels = Sequence[str] | None


@app.command(epilog=BUILD_EXAMPLE)
def build(
    out: Annotated[Path, option("The file to write, .npz.", "--out", "-o")],
    vectors: Annotated[
        Path | None, option("Vectors of words: text of word2vec, GloVe or fastText.")
    ] = None,
    tree: Annotated[
        Path | None, option("A taxonomy: CSV with columns name, parent, maybe length.")
    ] = None,
    matrix: Annotated[Path | None, option("Distances: CSV with the labels on top.")] = None,
    costs: Annotated[
        Path | None,
        option(
            "Costs of any kind, in the same form: a line for each label predicted, a column for "
            "each true one."
        ),
    ] = None,
    labels: Annotated[
        Words,
        option("Which labels, in which order: separated by commas, or a file with one a line."),
    ] = None,
    missing: Annotated[
        Literal["error", "drop"], option("What to do about labels without a vector.")
    ] = "error",
    power: Annotated[float, option("Of the cost, d ** power.")] = 1.0,
) -> None:
    """Build a ground metric from word vectors, a taxonomy, or a table of distances or costs."""
    sources = {"--vectors": vectors, "--tree": tree, "--matrix": matrix, "--costs": costs}
    given = [name for name, value in sources.items() if value is not None]
    if len(given) != 1:
        raise typer.BadParameter(
            f"one of {', '.join(sources)} is needed, got {' and '.join(given) or 'none'}."
        )
    if out.suffix != ".npz":
        raise typer.BadParameter(f"--out must end in .npz, got {out}.")
    check_replaceable(out, "a ground metric", is_metric)
    names = label_list(labels)
    made: GroundMetric
    if vectors is not None:
        read = read_word_vectors(vectors, words=names)
        made = read.metric(names or read.words, missing=missing, power=power)
    elif tree is not None:
        made = _tree(tree, names, power)
    elif matrix is not None:
        made = _table(Matrix, matrix, names, power)
    elif costs is not None:
        made = _table(Cost, costs, names, power)
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
    """Show neighbours, distances, and the axioms of a metric."""
    made = clipart().metric if metric == "clipart" else GroundMetric.load(metric)
    if made is None or made.size < 2:
        raise ValueError(f"{metric} must be a ground metric of at least two labels, got {made!r}")
    say(f"{made!r}\n\nNearest labels")
    some = min(made.size, 5)
    names = made.labels or [str(i) for i in range(made.size)]
    for label in near or [names[i * made.size // some] for i in range(some)]:
        which = int(label) if made.labels is None and label.isdigit() else label
        found = ", ".join(f"{other} {d:.3g}" for other, d in made.nearest(which, neighbours))
        say(f"  {label}: {found}")
    chosen = np.unique(np.linspace(0, made.size - 1, _INSPECTED).astype(np.int64))
    different = np.arange(made.size) != chosen[:, None]  # (chosen, labels)
    distances = made.distance_columns(chosen).detach().double().numpy()[different]
    say("\nDistances between two different labels")
    for name, share in _QUANTILES.items():
        say(f"  {name}: {np.quantile(distances, share):.4g}")
    say(f"\nThe distance is {made.check_axioms()}\n")
    unit = made.in_medians().scale
    say(f"Losses count a distance of {unit:.4g}, the median between two labels, as 1.")


def _tree(path: Path, labels: _Labels, power: float) -> Tree:
    """A taxonomy from a CSV file with columns ``name``, ``parent`` and perhaps ``length``.

    A node whose parent is empty is a root; if there are several, they share one above them. Parents
    need no line of their own. ``labels`` says which nodes are labels, in which order; by default
    the leaves, in the file's order.
    """
    with named_errors(path, "a taxonomy"):
        header, rows = _csv(path)
        if "name" not in header or "parent" not in header:
            raise ValueError(f"it must have columns 'name' and 'parent', got {', '.join(header)}")
        parent_of: dict[str, str] = {}
        length_of: dict[str, float] = {}
        for line, row in rows:
            entry = dict(zip(header, row, strict=True))
            node = entry["name"]
            if not node or node in parent_of:
                raise ValueError(f"line {line}: expected a new name, got {node!r}")
            parent_of[node] = entry["parent"]
            if entry.get("length"):
                length_of[node] = _float(entry["length"], line)
        for parent in filter(None, list(parent_of.values())):
            parent_of.setdefault(parent, "")
        nodes = list(parent_of)
        number_of = {node: i for i, node in enumerate(nodes, 1)}  # 0 is above the roots
        parents = [-1, *(number_of.get(parent, 0) for parent in parent_of.values())]
        lengths = [0.0, *(length_of.get(node, 1.0) for node in nodes)]
        inner = set(parent_of.values())
        chosen = [node for node in nodes if node not in inner] if labels is None else list(labels)
        places = [i + 1 for i in _places(nodes, chosen)]
        return Tree(parents, lengths, places, labels=chosen, power=power)


def _table(kind: type[Matrix | Cost], path: Path, labels: _Labels, power: float) -> Matrix | Cost:
    """Distances or costs from a CSV file.

    The labels are in the first line; then comes a line of numbers for each, which may begin with
    the label's name. Of costs, a line is for what was predicted, a column for the truth. ``labels``
    says which labels, in which order.
    """
    with named_errors(path, "a table"):
        names, rows = _csv(path)
        if names[0] == "":  # lines begin with a name
            names = names[1:]
            if [row[0] for _, row in rows] != names[: len(rows)]:
                raise ValueError("lines must follow the order of the columns")
            rows = [(line, row[1:]) for line, row in rows]
        table = np.array([[_float(word, line) for word in row] for line, row in rows])
        if labels is None:
            return kind(table, labels=names, power=power)
        if len(table) != len(names):
            raise ValueError(
                f"it must have a line for each of {len(names)} labels, got {len(table)}"
            )
        places = _places(names, labels)
        return kind(table[np.ix_(places, places)], labels=labels, power=power)


def _csv(path: Path) -> tuple[list[str], list[tuple[int, list[str]]]]:
    """The header, and the rows below it with their line numbers."""
    read = [(line, [word.strip() for word in row]) for line, row in csv.rows_of(path)]
    if len(read) < 2:
        raise ValueError(f"it must have a header and lines, got {len(read)} lines")
    (_, header), *rows = read
    return header, rows


def _float(word: str, line: int) -> float:
    try:
        return float(word)
    except ValueError:
        raise ValueError(f"line {line}: expected a number, got {word!r}") from None


def _places(names: Sequence[str], labels: Sequence[str]) -> list[int]:
    place = {name: i for i, name in enumerate(names)}
    missing = [label for label in labels if label not in place]
    if missing:
        raise ValueError(f"it must have every label, but lacks {len(missing)}: {shown(missing, 5)}")
    return [place[label] for label in labels]
