"""The built-in texts: WordNet's definitions of nouns, each in a class of its taxonomy."""

from __future__ import annotations

import gzip
from dataclasses import dataclass
from functools import cached_property
from importlib import resources

import torch
from torch import Tensor

from wassloss.ground import GroundMetric, lca_heights


@dataclass(frozen=True)
class Definitions:
    """Texts with the class of each.

    Attributes:
        texts: definitions in lower case.
        words: the words that each defines, joined by commas.
        classes: of each text, an index into `paths`.
        paths: of each class, the notions from *entity* down to it.
    """

    texts: tuple[str, ...]
    words: tuple[str, ...]
    classes: Tensor
    paths: tuple[tuple[str, ...], ...]

    def __len__(self) -> int:
        return len(self.texts)

    @cached_property
    def metric(self) -> GroundMetric:
        """Heights of lowest common ancestors in WordNet, the classes named by their notions."""
        return lca_heights(self.paths)


def definitions() -> Definitions:
    """Load 55 897 definitions of nouns in 339 classes.

    *A small boat propelled by oars* belongs to *craft*. The classes are the largest subtrees of
    WordNet's nouns with at most 400 notions, if they have at least 60. There are no variants of a
    text, so a split at random is fair.

    WordNet 3.0 is © 2006 by Princeton University; its licence lies next to the file.

    >>> import wassloss as wl
    >>> data = wl.data.definitions()
    >>> len(data), len(data.paths)
    (55897, 339)
    >>> i = data.words.index("rowboat")
    >>> data.texts[i], data.paths[data.classes[i]][-1]
    ('a small boat of shallow draft with cross thwarts for seats and rowlocks for oars', 'craft')
    """
    folder = resources.files("wassloss.data") / "wordnet"
    lines = gzip.decompress((folder / "definitions.tsv.gz").read_bytes()).decode().splitlines()
    numbers, words, texts = zip(*(line.split("\t") for line in lines), strict=True)
    paths = (folder / "classes.txt").read_text(encoding="utf-8").splitlines()
    return Definitions(
        texts,
        words,
        torch.tensor([int(number) for number in numbers]),
        tuple(tuple(path.split(" > ")) for path in paths),
    )
