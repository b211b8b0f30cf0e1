"""Make the built-in definitions from WordNet.

    python -m experiments.corpora.definitions src/wassloss/datasets/wordnet

The classes are the largest subtrees of the taxonomy that have at least 60 and at most 400 notions.
"""

from __future__ import annotations

import gzip
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from experiments.corpora.hypernyms import Taxonomy, read_taxonomy, without_single_children


def make(out: Path, folder: Path | None = None, *, least: int = 60, most: int = 400) -> None:
    """Write ``definitions.tsv.gz`` and ``classes.txt``; `folder` as in `hypernym_paths`."""
    taxonomy = read_taxonomy(folder)
    sizes = _subtree_sizes(taxonomy)
    roots = {
        synset: synset
        for synset, notion in taxonomy.items()
        if least <= sizes[synset] <= most and (notion.above is None or sizes[notion.above] > most)
    }
    for synset in taxonomy:
        _find_root(synset, taxonomy, roots)
    classes = sorted({root for root in roots.values() if root})
    place = {root: index for index, root in enumerate(classes)}
    lines = [
        "\t".join(
            (
                str(place[roots[synset]]),
                ", ".join(notion.words).replace("_", " "),
                definition(notion.gloss),
            )
        )
        for synset, notion in taxonomy.items()
        if roots[synset]
    ]
    paths = named(without_single_children([taxonomy.path(root) for root in classes]))
    (out / "definitions.tsv.gz").write_bytes(gzip.compress("\n".join(lines).encode(), 9, mtime=0))
    text = "".join(f"{' > '.join(path)}\n" for path in paths)
    (out / "classes.txt").write_text(text, encoding="utf-8")


def named(paths: Sequence[Sequence[str]]) -> list[tuple[str, ...]]:
    """Name the notions in paths such as ``true_cat#02121808`` by words.

    Classes with the same name get their parent's in parentheses; notions of the same name and
    parent are numbered.

    >>> named([("a#1", "cell#2"), ("b#3", "cell#4"), ("b#3", "pen#5", "x#6"), ("b#3", "pen#7")])
    [('a', 'cell (a)'), ('b', 'cell (b)'), ('b', 'pen', 'x'), ('b', 'pen 2')]
    """
    below: dict[tuple[str, ...], dict[str, str]] = {}  # names of the notions below each, by id
    found = []
    for path in paths:
        words: tuple[str, ...] = ()
        for notion in path:
            known = below.setdefault(words, {})
            if notion not in known:
                name = notion.partition("#")[0].replace("_", " ")
                same = sum(other.partition("#")[0] == notion.partition("#")[0] for other in known)
                known[notion] = f"{name} {same + 1}" if same else name
            words = (*words, known[notion])
        found.append(words)
    uses = Counter(path[-1] for path in found)
    return [
        path if uses[path[-1]] == 1 else (*path[:-1], f"{path[-1]} ({path[-2]})") for path in found
    ]


def definition(gloss: str) -> str:
    """Strip the examples in quotation marks that follow the definition in a gloss."""
    return gloss.split('; "')[0].strip().lower()


def _subtree_sizes(taxonomy: Taxonomy) -> Counter[str]:
    sizes: Counter[str] = Counter()
    for synset in taxonomy:
        above: str | None = synset
        while above is not None:
            sizes[above] += 1
            above = taxonomy[above].above
    return sizes


def _find_root(synset: str, taxonomy: Taxonomy, roots: dict[str, str]) -> str:
    """Return the class of a synset, or an empty string; cached in `roots`."""
    if synset not in roots:
        above = taxonomy[synset].above
        roots[synset] = "" if above is None else _find_root(above, taxonomy, roots)
    return roots[synset]


if __name__ == "__main__":
    make(Path(sys.argv[1]))
