"""Tags of drawings, from the metadata in their SVG files."""

from __future__ import annotations

import html
import re
from collections import Counter
from typing import NamedTuple

from experiments.corpora.wordnet import WordNet

PUBLIC_DOMAIN = ("cc/PublicDomain", "licenses/publicdomain")
# Subjects that describe where a drawing was filed or what wrote it, not what it shows.
BOILERPLATE = {
    *("action", "activities", "clip_art", "clipart", "filesystem", "hash", "lemon_theme_icon"),
    *("magick", "mime-types", "mimetypes", "miscellany", "openclipart", "organizations"),
    *("ornamental", "signs_and_symbols", "simple", "special", "stuff", "subnational", "theme"),
    *("united_nations_member", "unsorted"),
}
# English for the collection's own spellings; found by inspecting unmatched subjects.
SPELLINGS = {
    "appicon": "application icon",
    "bodypart": "body",
    "mapsym": "map symbol",
    "musicstuff": "music",
    "musicsym": "music symbol",
    "networksym": "network symbol",
    "stickmen": "stickman",
    "united_kingdom": "uk",
    "united_states": "usa",
    "unitedstates": "usa",
    "vegitable": "vegetable",
    "weathersym": "weather symbol",
    "webpage": "web",
}


class Metadata(NamedTuple):
    """The metadata in a drawing."""

    subjects: frozenset[str]
    licence: str
    author: str

    @property
    def is_free(self) -> bool:
        """Whether the drawing is declared to be in the public domain."""
        return any(words in self.licence for words in PUBLIC_DOMAIN)


def metadata(svg: bytes) -> Metadata:
    """Parse with regular expressions, because many of the files are not well-formed XML."""
    text = svg.decode("utf-8", "replace")
    subject = re.search(r"<dc:subject.*?</dc:subject>", text, re.DOTALL)
    items = re.findall(r"<rdf:li[^>]*>(.*?)</rdf:li>", subject[0], re.DOTALL) if subject else []
    licence = re.search(r'<cc:license[^>]*rdf:resource="([^"]*)"', text)
    author = re.search(r"<dc:creator.*?<dc:title[^>]*>(.*?)</dc:title>", text, re.DOTALL)
    subjects = frozenset(html.unescape(item).strip().lower() for item in items) - {""}
    return Metadata(subjects, licence[1] if licence else "", _name(author[1] if author else ""))


def _name(author: str) -> str:
    """Remove e-mail addresses."""
    words = re.sub(r"[(<]?\S+@\S+", "", html.unescape(author))
    return " ".join(words.split())


def words_of(drawing: Metadata, net: WordNet, known: Counter[str]) -> set[str]:
    """Return words in the singular, and both parts of compounds of two subjects, like roadsign.

    ``known`` counts the subjects of all drawings.
    """
    found = set()
    for subject in drawing.subjects - BOILERPLATE - {drawing.author.lower()}:
        if subject.startswith("hash("):  # Perl's text for a missing table
            continue
        if subject in SPELLINGS:
            found |= set(SPELLINGS[subject].split())
            continue
        for word in re.split(r"[^a-z]+", subject):
            found |= {_singular(part, net) for part in _parts(word, net, known) if len(part) > 1}
    return found


def _parts(word: str, net: WordNet, known: Counter[str]) -> tuple[str, ...]:
    if word in net:
        return (word,)
    cuts = ((word[:i], word[i:]) for i in range(3, len(word) - 2))
    both = [cut for cut in cuts if known[cut[0]] > 1 and known[cut[1]] > 1]
    return both[0] if both else (word,)


def _singular(word: str, net: WordNet) -> str:
    """Return the singular, also of plurals that WordNet lists as words, such as games."""
    if word in net.singulars:
        return net.singulars[word]
    if len(word) > 4 and word[-1] == "s" and word[-2] not in "aisu" and word[:-1] in net:
        return word[:-1]
    return net.singular(word) or word
