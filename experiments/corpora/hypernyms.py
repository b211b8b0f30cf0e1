"""WordNet's nouns as a taxonomy: from the most general notion down to each word."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from experiments.corpora.lookup import find, read_bytes

_POINTERS = ("@", "@i")  # to a more general notion; to what something is an instance of


def hypernym_paths(
    words: Iterable[str], folder: str | os.PathLike[str] | None = None
) -> list[tuple[str, ...]]:
    """The path to each word from *entity* down, for :meth:`~wassloss.ground.Tree.from_paths`.

    A word stands for its most frequent noun sense, and a notion with several more general ones for
    the first of them, so that there is one path to each word. The last step is from the notion to
    the word itself: words of one notion, such as *bike* and *motorcycle*, are two steps apart.

    Args:
        words: nouns, singular.
        folder: of ``data.noun`` and ``index.noun``, gzipped or not; by default ``wordnet/`` of
            ``$WASSLOSS_DATA`` or of the user's cache.

    Raises:
        FileNotFoundError: the files are not there; the message says where they go.
        ValueError: a word is no noun of WordNet.
    """
    asked = list(words)
    index, data = (_file(name, folder) for name in ("index.noun", "data.noun"))
    wanted = {word.lower().replace(" ", "_") for word in asked}
    sense = _first_senses(index, wanted)
    unknown = [word for word in asked if word.lower().replace(" ", "_") not in sense]
    if unknown:
        shown = ", ".join(map(repr, unknown[:3])) + (", ..." if len(unknown) > 3 else "")
        raise ValueError(f"words must be nouns of WordNet, got {len(unknown)} others: {shown}")
    notions = _notions(data)
    return [(*_path(sense[word.lower().replace(" ", "_")], notions, data), word) for word in asked]


def _file(name: str, folder: str | os.PathLike[str] | None) -> Path:
    if folder is None:
        return find("wordnet", f"{name}.gz", name)
    places = [Path(folder) / f"{name}.gz", Path(folder) / name]
    found = next((place for place in places if place.is_file()), None)
    if found is None:
        raise FileNotFoundError(f"folder must hold {name} or {name}.gz of WordNet, got {folder}")
    return found


def _first_senses(index: Path, words: set[str]) -> dict[str, str]:
    """Of each word the synset of its most frequent sense, which WordNet puts first."""
    found = {}
    for line in _lines(index):
        fields = line.split()  # lemma pos senses pointers [pointer...] senses tagged offsets
        if fields[0] in words:
            try:
                found[fields[0]] = fields[-int(fields[2])]
            except (IndexError, ValueError) as error:
                raise ValueError(f"{index} has no senses for {fields[0]!r}") from error
    return found


def _notions(data: Path) -> dict[str, tuple[str, str | None]]:
    """Of each synset a name, and the synset of its first hypernym, if any."""
    found = {}
    for line in _lines(data):
        # offset category n words(hex) [word id...] pointers [kind offset pos source...] | gloss
        fields = line.split(" | ", 1)[0].split()
        try:
            first = 4 + 2 * int(fields[3], 16) + 1
            pointers = [fields[i : i + 2] for i in range(first, len(fields) - 3, 4)]
            name = f"{fields[4]}#{fields[0]}"
        except (IndexError, ValueError) as error:
            raise ValueError(f"{data} has a line that is no synset: {line[:60]!r}") from error
        found[fields[0]] = name, next((to for kind, to in pointers if kind in _POINTERS), None)
    return found


def _path(synset: str, notions: dict[str, tuple[str, str | None]], data: Path) -> list[str]:
    """Names from the most general notion down to a synset."""
    path: list[str] = []
    above: str | None = synset
    while above is not None:
        if above not in notions or len(path) > len(notions):
            raise ValueError(f"{data} has no way up from synset {synset}")
        name, above = notions[above]
        path.append(name)
    return path[::-1]


def _lines(path: Path) -> list[str]:
    """Those that do not begin with a space, as the licence's do."""
    text = read_bytes(path).decode("utf-8", "replace")
    return [line for line in text.split("\n") if line and not line.startswith(" ")]
