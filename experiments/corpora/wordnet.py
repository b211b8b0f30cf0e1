"""Read WordNet's database: its words, and the lexical category of each."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from experiments.corpora.lookup import find, read_bytes

# WordNet's lexicographer files, by number: lexnames(5WN).
CATEGORIES = (
    *("adj.all", "adj.pert", "adv.all", "noun.Tops", "noun.act", "noun.animal", "noun.artifact"),
    *("noun.attribute", "noun.body", "noun.cognition", "noun.communication", "noun.event"),
    *("noun.feeling", "noun.food", "noun.group", "noun.location", "noun.motive", "noun.object"),
    *("noun.person", "noun.phenomenon", "noun.plant", "noun.possession", "noun.process"),
    *("noun.quantity", "noun.relation", "noun.shape", "noun.state", "noun.substance"),
    *("noun.time", "verb.body", "verb.change", "verb.cognition", "verb.communication"),
    *("verb.competition", "verb.consumption", "verb.contact", "verb.creation", "verb.emotion"),
    *("verb.motion", "verb.perception", "verb.possession", "verb.social", "verb.stative"),
    *("verb.weather", "adj.ppl"),
)
_ANY = ("index.noun.gz", "index.noun", "index.sense.gz", "index.sense")
_PARTS_OF_SPEECH = ("noun", "verb", "adj", "adv")
# The rules of morphy(7WN) from plural to singular, tried in this order.
_PLURALS = (
    *(("s", ""), ("ses", "s"), ("xes", "x"), ("zes", "z"), ("ches", "ch"), ("shes", "sh")),
    *(("men", "man"), ("ies", "y")),
)


@dataclass(frozen=True, repr=False)
class WordNet:
    """Words, in lower case with ``_`` for spaces, and their dominant lexical category.

    The dominant category is that of the senses counted most often in WordNet's tagged texts, over
    all parts of speech. Without counts, and in case of a tie, it is that of the first sense, with
    nouns before verbs, adjectives and adverbs.

    Attributes:
        categories: lexical categories by word, such as ``noun.animal``.
        singulars: singulars of nouns with irregular plurals.
    """

    categories: Mapping[str, str]
    singulars: Mapping[str, str]

    def __contains__(self, word: object) -> bool:
        return word in self.categories

    def __len__(self) -> int:
        return len(self.categories)

    def __repr__(self) -> str:
        return f"WordNet({len(self)} words)"

    def category(self, word: str) -> str | None:
        """Return the dominant lexical category, or None for a word that is not in WordNet."""
        return self.categories.get(word)

    def singular(self, word: str) -> str | None:
        """Return the word if it is in WordNet, else a singular that is, else None."""
        if word in self.categories:
            return word
        if word in self.singulars:
            return self.singulars[word]
        for ending, replacement in _PLURALS:
            if word.endswith(ending):
                candidate = word[: -len(ending)] + replacement
                if self.categories.get(candidate, "").startswith("noun"):
                    return candidate
        return None


def read_wordnet(folder: str | os.PathLike[str] | None = None) -> WordNet:
    """Read WordNet's database files, gzipped or not.

    If ``index.sense`` is there, only that file is read. Otherwise words come from ``index.noun``
    and ``data.noun``, and from those of verbs, adjectives and adverbs if present; counts, and
    further words, come from ``cntlist.rev``. ``noun.exc``, if present, has the irregular plurals.

    Args:
        folder: folder with the files; default: ``wordnet/`` of ``$WASSLOSS_DATA`` or of the user's
            cache.
    """
    place = find("wordnet", *_ANY).parent if folder is None else Path(folder)
    counts: dict[str, dict[int, int]] = {}
    sense = _optional(place, "index.sense")
    if sense is not None:
        _add_sense_counts(counts, sense, key=0, number=2, count=3)
    else:
        for part in _PARTS_OF_SPEECH:
            index, data = _optional(place, f"index.{part}"), _optional(place, f"data.{part}")
            if index is not None and data is not None:
                _add_senses(counts, index, data)
        if not counts:
            raise FileNotFoundError(
                f"{place} must hold index.sense, or index.noun and data.noun, of WordNet"
            )
        counted = _optional(place, "cntlist.rev")
        if counted is not None:
            _add_sense_counts(counts, counted, key=0, number=1, count=2)
    # max returns the first of equals, and senses are in WordNet's order.
    dominant = {word: CATEGORIES[max(c, key=c.__getitem__)] for word, c in counts.items()}
    exceptions = _optional(place, "noun.exc")
    singulars = dict[str, str]()
    for _, fields in _lines(exceptions) if exceptions is not None else ():
        known = next((word for word in fields[1:] if word in dominant), None)
        if known is not None:
            singulars[fields[0]] = known
    return WordNet(dominant, singulars)


def _add_senses(counts: dict[str, dict[int, int]], index: Path, data: Path) -> None:
    category = {fields[0]: fields[1] for _, fields in _lines(data, maxsplit=2)}
    for number, fields in _lines(index):
        senses = counts.setdefault(fields[0].lower(), {})
        for which in _entry(index, number, fields, category):
            senses.setdefault(which, 0)


def _entry(path: Path, line: int, fields: list[str], category: dict[str, str]) -> list[int]:
    """Categories of the senses in: lemma pos senses pointers [pointer...] senses tagged offsets."""
    try:
        return [_category(category[offset]) for offset in fields[-int(fields[2]) :]]
    except (IndexError, ValueError, KeyError) as error:
        raise ValueError(f"{path}, line {line}, is not an entry with known synsets") from error


def _add_sense_counts(
    counts: dict[str, dict[int, int]], path: Path, key: int, number: int, count: int
) -> None:
    found = (_sense(path, line, fields, key, number, count) for line, fields in _lines(path))
    for lemma, _, which, times in sorted(found):
        senses = counts.setdefault(lemma, {})
        senses[which] = senses.get(which, 0) + times


def _sense(
    path: Path, line: int, fields: list[str], key: int, number: int, count: int
) -> tuple[str, tuple[int, int], int, int]:
    """Lemma, part of speech and sense number, category, count; keys are lemma%type:category:..."""
    try:
        lemma, _, rest = fields[key].rpartition("%")
        kind, category, *_ = rest.split(":")
        place = int(kind), int(fields[number])
        return lemma.lower(), place, _category(category), int(fields[count])
    except (IndexError, ValueError) as error:
        raise ValueError(f"{path}, line {line}, is not a sense of WordNet") from error


def _category(number: str) -> int:
    if not 0 <= int(number) < len(CATEGORIES):
        raise ValueError(f"there is no lexical category {number}")
    return int(number)


def _lines(path: Path, maxsplit: int = -1) -> Iterator[tuple[int, list[str]]]:
    """Yield line numbers and fields, without the licence, whose lines start with a space."""
    text = read_bytes(path).decode("utf-8", "replace")
    for number, line in enumerate(text.split("\n"), 1):
        if line and not line.startswith(" "):
            yield number, line.split(None, maxsplit)


def _optional(folder: Path, name: str) -> Path | None:
    return next((p for p in (folder / f"{name}.gz", folder / name) if p.is_file()), None)
