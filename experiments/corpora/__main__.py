"""Show corpora, download them, and build the paper's data set of tagged photographs.

``python -m experiments.corpora show NAME``, ``get NAME``, ``tags METADATA ... --vectors FILE``
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from experiments.corpora.downloads import BY_HAND, DOWNLOADS, get
from experiments.corpora.flickr8k import flickr8k
from experiments.corpora.lookup import find_optional
from experiments.corpora.mnist import mnist
from experiments.corpora.mulan import mulan, read_mulan
from experiments.corpora.synthetic import lattice
from experiments.corpora.tagging import STOP_WORDS, yfcc_tags
from experiments.lab.dataset import Dataset

SETS: dict[str, Callable[[], Dataset]] = {
    "lattice": lambda: lattice(7, 0.3),
    "mnist": mnist,
    "flickr8k": flickr8k,
    "delicious": mulan,
}


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one command."""
    given = _parser().parse_args(arguments)
    given.run(given)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m experiments.corpora", description="The data sets of the experiments."
    )
    commands = parser.add_subparsers(required=True)
    one = commands.add_parser("show", help="count examples, features and labels")
    one.add_argument("name", help=f"{', '.join(SETS)}, another set of Mulan's, or an .arff file")
    one.add_argument("--xml", type=Path, help="labels of an .arff file (default: next to it)")
    one.set_defaults(run=_show)
    one = commands.add_parser("get", help="download a corpus, or explain how to get it")
    one.add_argument("name", choices=[*DOWNLOADS, *BY_HAND])
    one.set_defaults(run=_get)
    one = commands.add_parser("tags", help="choose tags and photos of YFCC100M as the paper did")
    one.add_argument("metadata", type=Path, nargs="+", help="as published; bz2, gz or plain")
    one.add_argument("--vectors", type=Path, required=True, help="word vectors, in any format")
    one.add_argument("-o", "--out", type=Path, required=True, help="folder to write to")
    one.add_argument("--tags", type=int, default=1000, help="number of tags")
    one.add_argument("--train", type=int, default=10_000, help="number of photos to train on")
    one.add_argument("--test", type=int, default=10_000, help="number of photos to test on")
    one.add_argument("--wordnet", type=Path, help="folder of WordNet's files")
    one.add_argument("--stop-words", type=Path, help="tags to leave out, one per line")
    one.add_argument("--keep", action="append", help="a tag to keep whatever its category")
    one.add_argument("--merge-plurals", action="store_true", help="count dogs as dog")
    one.add_argument("--missing", choices=["drop", "error"], default="drop")
    one.add_argument("--seed", type=int, default=0, help="seed for drawing photos")
    one.add_argument("--workers", type=int, default=2, help="number of reading processes")
    one.add_argument("--restart", action="store_true", help="overwrite another run's state")
    one.add_argument("--features", type=Path, help=".npz with photos (n,) and features (n, D)")
    one.set_defaults(run=_tags)
    return parser


def _show(given: argparse.Namespace) -> None:
    data = _find(given.name, given.xml)
    print(data, f"ground metric: {data.metric or 'none suggested'}", data.provenance, sep="\n")


def _find(name: str, xml: Path | None) -> Dataset:
    """A corpus by its name, or an ARFF file."""
    if name in SETS:
        return SETS[name]()
    if find_optional(name, f"{name}.xml") is not None:
        return mulan(name)
    path = Path(name)
    if not path.is_file():
        raise ValueError(f"name must be one of {', '.join(SETS)}, or an .arff file, got {name!r}")
    stem = re.sub(r"(-train|-test)?\.arff(\.gz)?$", "", path.name, flags=re.IGNORECASE)
    return read_mulan(path, xml or path.with_name(f"{stem}.xml"), name=stem)


def _get(given: argparse.Namespace) -> None:
    for path in get(given.name):
        print(path)
    print(DOWNLOADS[given.name].licence)


def _tags(given: argparse.Namespace) -> None:
    stop = STOP_WORDS
    if given.stop_words is not None:
        stop = frozenset(given.stop_words.read_text(encoding="utf-8").split())
    with tqdm(unit="B", unit_scale=True, disable=not sys.stderr.isatty()) as bar:

        def advance(done: int, total: int | None) -> None:
            bar.total = total
            bar.update(done - bar.n)

        sample = yfcc_tags(
            given.metadata,
            given.vectors,
            given.out,
            tags=given.tags,
            train=given.train,
            test=given.test,
            wordnet=given.wordnet,
            stop_words=stop,
            keep=tuple(given.keep or ()),
            merge_plurals=given.merge_plurals,
            missing=given.missing,
            seed=given.seed,
            workers=given.workers,
            restart=given.restart,
            progress=advance,
        )
    print(sample.report)
    print(f"{sample!r}: {given.out / 'tags.npz'}")
    if given.features is not None:
        made = sample.with_features(_features(given.features))
        write_data(made, given.out / "data.parquet")
        sample.metric.save(given.out / "metric.npz")
        print(f"{made!r}: data.parquet and metric.npz in {given.out}")


def write_data(data: Dataset, path: Path) -> None:
    """Tags in a table that `wassloss train` reads."""
    import pyarrow as pa
    import pyarrow.parquet

    tags, names, parts = data.y, np.array(data.label_names), np.full(len(data), "", dtype=object)
    for name, rows in data.parts.items():
        parts[rows.numpy()] = name
    columns = {f"x{i}": column for i, column in enumerate(data.features.numpy().T)}
    lists = {
        "labels": np.split(names[tags.indices], tags.indptr[1:-1]),
        "weights": np.split(tags.data, tags.indptr[1:-1]),
    }
    tables = {name: [values.tolist() for values in each] for name, each in lists.items()}
    pyarrow.parquet.write_table(pa.table({**columns, **tables, "part": parts}), path)


def _features(path: Path) -> dict[int, Any]:
    with np.load(path) as arrays:
        if not {"photos", "features"} <= arrays.keys():
            raise ValueError(f"{path} must hold photos and features, got {', '.join(arrays)}")
        rows = zip(arrays["photos"].tolist(), arrays["features"], strict=True)
        return {int(photo): row for photo, row in rows}


if __name__ == "__main__":
    main()
