"""WordNet's definitions of nouns, to be classified into its taxonomy.

*A small boat propelled by oars* belongs to *boat*. The classes are the largest subtrees of the
taxonomy with at most `most` notions, if they have at least `least`.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from experiments.corpora.hypernyms import Taxonomy, read_taxonomy, without_single_children


@dataclass(frozen=True)
class Definitions:
    """Texts with the class of each.

    Attributes:
        texts: definitions in lower case, without examples of use, in WordNet's order.
        words: the words that each defines, joined by commas.
        classes: of each text, an index into `paths`.
        paths: of each class, the notions from *entity* down to it; none has a single child.
    """

    texts: tuple[str, ...]
    words: tuple[str, ...]
    classes: NDArray[np.int64]
    paths: tuple[tuple[str, ...], ...]


def read_definitions(
    folder: str | os.PathLike[str] | None = None, *, least: int = 60, most: int = 400
) -> Definitions:
    """Definitions and their classes, from ``data.noun`` alone; `folder` as in `hypernym_paths`."""
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
    members = [synset for synset in taxonomy if roots[synset]]
    return Definitions(
        tuple(_definition(taxonomy[synset].gloss) for synset in members),
        tuple(", ".join(taxonomy[synset].words).replace("_", " ") for synset in members),
        np.array([place[roots[synset]] for synset in members], np.int64),
        tuple(without_single_children([taxonomy.path(root) for root in classes])),
    )


def words_of(text: str) -> list[str]:
    """The words of a definition.

    >>> words_of("a small boat (propelled by oars)")
    ['a', 'small', 'boat', 'propelled', 'by', 'oars']
    """
    return re.findall(r"[a-z]+", text.lower())


def _definition(gloss: str) -> str:
    """A gloss without the examples, which follow it in quotation marks."""
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
    """The class that a synset is in, or an empty string; remembered in `roots`."""
    if synset not in roots:
        above = taxonomy[synset].above
        roots[synset] = "" if above is None else _find_root(above, taxonomy, roots)
    return roots[synset]
