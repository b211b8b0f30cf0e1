"""`wassloss data show`, `data get` and `data tags`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import Progress

from wassloss import data
from wassloss._files import read_npz
from wassloss.cli._encoding import say
from wassloss.cli._options import checked_seed
from wassloss.data import lookup
from wassloss.data.downloads import DOWNLOADS

app = typer.Typer(
    help="Look at data sets, download them, and make one of tagged photographs.",
    epilog="Example: wassloss data show clipart",
    no_args_is_help=True,
)
SHOW_EXAMPLE = "Example: wassloss data show clipart, or wassloss data show my.parquet"
GET_EXAMPLE = "Example: wassloss data get mnist"
TAGS_EXAMPLE = (
    "Example: wassloss data tags yfcc100m_dataset.bz2 --vectors glove.6B.100d.txt --out tags/"
)
_SETS: dict[str, Callable[[], data.Dataset]] = {
    "clipart": data.clipart,
    "lattice": lambda: data.lattice(7, 0.3),
    "mnist": data.mnist,
    "flickr8k": data.flickr8k,
    "delicious": data.mulan,
}


@app.command(epilog=SHOW_EXAMPLE)
def show(
    name: Annotated[
        str,
        typer.Argument(
            help=f"{', '.join(_SETS)}, another set of Mulan's that you have, or a file of yours "
            "(.npz, .parquet, .csv, .svm, .mat, .arff)."
        ),
    ],
    examples: Annotated[int, typer.Option(help="How many labels to show.", min=1)] = 5,
    vectors: Annotated[
        Path | None,
        typer.Option(help="Word vectors that say how far apart labels are; others are left out."),
    ] = None,
    xml: Annotated[
        Path | None, typer.Option(help="The labels of an .arff file; by default beside it.")
    ] = None,
) -> None:
    """Show how many examples and labels there are, which are frequent, and what is near them."""
    found = _found(name, xml)
    if vectors is not None:
        table = data.read_word_vectors(vectors, words=found.label_names or (), duplicates="first")
        absent = len(table.missing(found.label_names or ()))
        found = data.embed_labels(found, table, missing="drop")
        say(f"{absent} labels have no vector and are left out")
    say(found.summary(examples))


def _found(name: str, xml: Path | None) -> data.Dataset:
    """A data set by its name, or in a file, by its suffix."""
    if name in _SETS:
        return _SETS[name]()
    if lookup.find_optional(name, f"{name}.xml") is not None:
        return data.mulan(name)
    path = Path(name)
    if not path.is_file():
        raise ValueError(f"NAME must be one of {', '.join(_SETS)}, or a file, got {name!r}")
    whole = path.name.lower().removesuffix(".gz")
    if whole.endswith(".mat"):
        return data.read_distributions(path)
    if whole.endswith(".arff"):
        stem = re.sub(r"(-train|-test)?\.arff(\.gz)?$", "", path.name, flags=re.IGNORECASE)
        return data.read_mulan(path, xml or path.with_name(f"{stem}.xml"), name=stem)
    return data.read(name)


@app.command(epilog=GET_EXAMPLE)
def get(
    name: Annotated[str, typer.Argument(help=f"One of: {', '.join(DOWNLOADS)}.")],
) -> None:
    """Download a data set to where it is looked for; go on where an earlier try was cut off."""
    with _progress("downloading") as advance:
        paths = data.get(name, progress=advance)
    for path in paths:
        say(str(path))
    say(DOWNLOADS[name].licence)


@app.command(epilog=TAGS_EXAMPLE)
def tags(
    metadata: Annotated[
        list[Path], typer.Argument(help="YFCC100M's metadata as published; bz2, gz or plain.")
    ],
    vectors: Annotated[
        Path, typer.Option(help="Word vectors: word2vec, GloVe, fastText text, or .npy.")
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="The folder to write to.")],
    count: Annotated[int, typer.Option("--tags", help="How many tags.", min=1)] = 1000,
    train: Annotated[int, typer.Option(help="How many photos to train on.", min=1)] = 10_000,
    test: Annotated[int, typer.Option(help="How many photos to test on.", min=0)] = 10_000,
    wordnet: Annotated[
        Path | None, typer.Option(help="The folder of WordNet's files, if not where it is sought.")
    ] = None,
    stop_words: Annotated[
        Path | None, typer.Option(help="Tags to leave out, one a line, instead of our list.")
    ] = None,
    keep: Annotated[
        list[str] | None,
        typer.Option(help="A tag to keep whatever its category; may be given again."),
    ] = None,
    merge_plurals: Annotated[bool, typer.Option(help="Count dogs as dog.")] = False,
    missing: Annotated[str, typer.Option(help="Words without a vector: drop, or error.")] = "drop",
    seed: Annotated[int, typer.Option(help="Of the draw of photos.", callback=checked_seed)] = 0,
    workers: Annotated[int, typer.Option(help="Processes that read.", min=1)] = 2,
    restart: Annotated[bool, typer.Option(help="Begin anew if the folder is another's.")] = False,
    features: Annotated[
        Path | None,
        typer.Option(help=".npz with photos (n,) and features (n, D): also writes the data set."),
    ] = None,
) -> None:
    """Choose tags and photos as the paper did; go on where an earlier run was stopped."""
    if missing not in ("drop", "error"):
        raise ValueError(f"--missing must be drop or error, got {missing!r}")
    stop = data.STOP_WORDS
    if stop_words is not None:
        stop = frozenset(stop_words.read_text(encoding="utf-8").split())
    with _progress() as advance:
        sample = data.yfcc_tags(
            metadata,
            vectors,
            out,
            tags=count,
            train=train,
            test=test,
            wordnet=wordnet,
            stop_words=stop,
            keep=tuple(keep or ()),
            merge_plurals=merge_plurals,
            missing="drop" if missing == "drop" else "error",
            seed=seed,
            workers=workers,
            restart=restart,
            progress=advance,
        )
    say(sample.report)
    say(f"{sample!r}: {out / 'tags.npz'}")
    if features is not None:
        made = sample.with_features(_features(features))
        data.write(made, out / "data.npz")
        data.write(made, out / "data.parquet")
        sample.metric.save(out / "metric.npz")
        say(f"{made!r}: {out / 'data.npz'}, {out / 'data.parquet'}, {out / 'metric.npz'}")


def _features(path: Path) -> dict[int, object]:
    arrays = read_npz(path)
    if not {"photos", "features"} <= arrays.keys():
        raise ValueError(f"{path} must hold photos and features, got {', '.join(arrays)}")
    rows = zip(arrays["photos"].tolist(), arrays["features"], strict=True)
    return {int(photo): row for photo, row in rows}


@contextmanager
def _progress(doing: str = "reading") -> Iterator[Callable[[int, int | None], None]]:
    screen = Console(stderr=True)
    with Progress(console=screen, transient=True, disable=not screen.is_terminal) as bar:
        task = bar.add_task(doing, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)
