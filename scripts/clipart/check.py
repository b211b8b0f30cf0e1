"""Check the built-in clip art against the drawings it was made from, which Debian distributes.

    apt-get download openclipart-svg            # 1:0.18+dfsg-19, 25 MB
    python -m scripts.clipart.check .

For each of the 3159 drawings, check that the file exists, that its metadata declares it to be in
the public domain, and that each of its tags comes from the metadata of the drawing or of a copy of
it elsewhere in the collection. ``scripts.clipart.build`` rebuilds the whole file, features
included.
"""

from __future__ import annotations

import argparse
import collections
import re
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from scripts.clipart import debian
from scripts.clipart.build import package, shipped, tags_of
from scripts.clipart.tags import SPELLINGS, metadata

# Irregular plurals, for which the check needs no WordNet.
SINGULARS = {"feet": "foot", "stickmen": "stickman", "women": "woman"}


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path, help="the folder with openclipart-svg_*.deb")
    folder = parser.parse_args(words).folder

    described = {
        name: metadata(content)
        for name, content in debian.files(package(folder, "svg"), "svg", links=True)
    }
    copies = collections.defaultdict(set)
    for name, one in described.items():
        copies[name.rpartition("/")[2]] |= one.subjects

    found: collections.Counter[str] = collections.Counter()
    wrong = []
    drawings = tags_of(shipped())
    for file, tags in drawings.items():
        name = file.removesuffix(".png")
        if name not in described:
            wrong.append(f"{file}: not in the package")
            continue
        own = described[name]
        if not own.is_free:
            wrong.append(f"{file}: its licence is {own.licence or 'not said'}")
        for tag in sorted(tags):
            if _names(tag, own.subjects):
                found["in the drawing's own metadata"] += 1
            elif _names(tag, copies[name.rpartition("/")[2]]):
                found["in the metadata of a copy under the same name"] += 1
            elif any(tag in word for word in own.subjects):
                found["within a word of the metadata, as travel in airtravel"] += 1
            else:
                found["not found"] += 1
                print(f"tag not found: {file}: {tag} in {sorted(own.subjects)}")
    print(f"{len(drawings)} drawings, {sum(found.values())} tags")
    for where, count in found.most_common():
        print(f"{count:6d} {where}")
    print("\n".join(wrong) or "every drawing is there and in the public domain")
    return 1 if wrong else 0


def _names(tag: str, subjects: Iterable[str]) -> bool:
    """Whether a tag is among the subjects, as a word of one, or in the plural."""
    spelt = {SPELLINGS.get(subject, subject) for subject in subjects}
    words = spelt | {word for subject in spelt for word in re.split(r"[^a-z]+", subject)}
    words |= {SINGULARS[word] for word in words if word in SINGULARS}
    return not words.isdisjoint((tag, f"{tag}s", f"{tag}es", f"{tag[:-1]}ies"))


if __name__ == "__main__":
    sys.exit(main())
