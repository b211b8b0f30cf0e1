"""WordNet's nouns as a taxonomy, from the most general notion down to each word."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from experiments.corpora.lookup import find, read_bytes

_POINTERS = ("@", "@i")  # hypernym; instance hypernym


def hypernym_paths(
    words: Iterable[str], folder: str | os.PathLike[str] | None = None
) -> list[tuple[str, ...]]:
    """The path from *entity* down to each word, for :meth:`~wassloss.ground.Tree.from_paths`.

    A word stands for its most frequent noun sense, and only the first hypernym of a notion is used,
    so each word has one path. The last step is from the notion to the word itself: words of one
    notion, such as *bike* and *motorcycle*, are two steps apart.

    Args:
        words: nouns, singular.
        folder: folder with ``data.noun`` and ``index.noun``, gzipped or not; default: ``wordnet/``
            in ``$WASSLOSS_DATA`` or the user's cache.

    Raises:
        FileNotFoundError: the files are missing; the message says where to put them.
        ValueError: a word is not a noun of WordNet.
    """
    asked = list(words)
    index = _file("index.noun", folder)
    wanted = {word.lower().replace(" ", "_") for word in asked}
    sense = _first_senses(index, wanted)
    unknown = [word for word in asked if word.lower().replace(" ", "_") not in sense]
    if unknown:
        shown = ", ".join(map(repr, unknown[:3])) + (", ..." if len(unknown) > 3 else "")
        raise ValueError(f"words must be nouns of WordNet, got {len(unknown)} others: {shown}")
    taxonomy = read_taxonomy(folder)
    return [(*taxonomy.path(sense[word.lower().replace(" ", "_")]), word) for word in asked]


def without_single_children(paths: Sequence[Sequence[str]]) -> list[tuple[str, ...]]:
    """Remove all notions but the last with fewer than two children among the paths.

    >>> without_single_children([("a", "b", "x"), ("a", "b", "y")])
    [('b', 'x'), ('b', 'y')]
    """
    children: dict[str, set[str]] = {}
    for path in paths:
        for upper, lower in itertools.pairwise(path):
            children.setdefault(upper, set()).add(lower)
    return [
        (*(notion for notion in path[:-1] if len(children[notion]) > 1), path[-1]) for path in paths
    ]


def _file(name: str, folder: str | os.PathLike[str] | None) -> Path:
    if folder is None:
        return find("wordnet", f"{name}.gz", name)
    places = [Path(folder) / f"{name}.gz", Path(folder) / name]
    found = next((place for place in places if place.is_file()), None)
    if found is None:
        raise FileNotFoundError(f"folder must hold {name} or {name}.gz of WordNet, got {folder}")
    return found


def _first_senses(index: Path, words: set[str]) -> dict[str, str]:
    """The synset of each word's most frequent sense, which WordNet lists first."""
    found = {}
    for line in _lines(index):
        fields = line.split()  # lemma pos senses pointers [pointer...] senses tagged offsets
        if fields[0] in words:
            try:
                found[fields[0]] = fields[-int(fields[2])]
            except (IndexError, ValueError) as error:
                raise ValueError(f"{index} has no senses for {fields[0]!r}") from error
    return found


@dataclass(frozen=True)
class Notion:
    """A synset of WordNet: the common meaning of several words.

    Attributes:
        words: its words, most frequent first.
        above: the synset of its first hypernym, if any.
        gloss: its definition and examples.
    """

    words: tuple[str, ...]
    above: str | None
    gloss: str


class Taxonomy(dict[str, Notion]):
    """WordNet's noun synsets by number; each has a single path to the root."""

    def path(self, synset: str) -> list[str]:
        """Names from the most general notion down to a synset."""
        path: list[str] = []
        above: str | None = synset
        while above is not None:
            if above not in self or len(path) > len(self):
                raise ValueError(f"WordNet's data.noun has no way up from synset {synset}")
            path.append(f"{self[above].words[0]}#{above}")
            above = self[above].above
        return path[::-1]


def read_taxonomy(folder: str | os.PathLike[str] | None = None) -> Taxonomy:
    """All synsets of ``data.noun``; `folder` as in `hypernym_paths`."""
    data, found = _file("data.noun", folder), Taxonomy()
    for line in _lines(data):
        # offset category n words(hex) [word id...] pointers [kind offset pos source...] | gloss
        entry, _, gloss = line.partition(" | ")
        fields = entry.split()
        try:
            count = int(fields[3], 16)
            first = 4 + 2 * count + 1
            pointers = [fields[i : i + 2] for i in range(first, len(fields) - 3, 4)]
            words = tuple(fields[4 : 4 + 2 * count : 2])
            words[0]
        except (IndexError, ValueError) as error:
            raise ValueError(f"{data} has a line that is no synset: {line[:60]!r}") from error
        above = next((to for kind, to in pointers if kind in _POINTERS), None)
        found[fields[0]] = Notion(words, above, gloss)
    return found


def _lines(path: Path) -> list[str]:
    """The lines that do not start with a space, as the licence does."""
    text = read_bytes(path).decode("utf-8", "replace")
    return [line for line in text.split("\n") if line and not line.startswith(" ")]
