"""Check the built-in clip art against the drawings it was made from, which Debian distributes.

    apt-get download openclipart-svg            # 1:0.18+dfsg-19, 25 MB
    dpkg-deb -x openclipart-svg_*.deb openclipart
    python scripts/check_clipart.py openclipart/usr/share/openclipart/svg

For each of the 3159 drawings: the file is there, it says that it is in the public domain, and each
of its tags comes from the metadata of the drawing or of a copy of it elsewhere in the collection.
Features cannot be checked so: they come from the rendered images through a network and a PCA.
"""

from __future__ import annotations

import argparse
import collections
import re
import sys
from importlib import resources
from pathlib import Path

import numpy as np

# How the collection's own spellings read in English; found by looking at what was left over.
SPELLINGS = {
    "appicon": "application icon",
    "feet": "foot",
    "mapsym": "map symbol",
    "musicsym": "music symbol",
    "networksym": "network symbol",
    "stickmen": "stickman",
    "united_kingdom": "uk",
    "unitedstates": "usa",
    "vegitable": "vegetable",
    "weathersym": "weather symbol",
    "women": "woman",
}
PUBLIC_DOMAIN = ("cc/PublicDomain", "licenses/publicdomain")


def main() -> int:
    parser = argparse.ArgumentParser(description="Check the built-in clip art against its source.")
    parser.add_argument("folder", type=Path, help="the svg folder of Debian's openclipart-svg")
    folder = parser.parse_args().folder

    subjects = {path: _subjects(path) for path in folder.rglob("*.svg")}
    copies = collections.defaultdict(set)
    for path, words in subjects.items():
        copies[path.name] |= words
    if not subjects:
        parser.error(f"no .svg files under {folder}")

    path = resources.files("wassloss.data") / "clipart" / "clipart_pca256.npz"
    with resources.as_file(path) as file, np.load(file, allow_pickle=False) as archive:
        files, vocabulary = archive["files"].tolist(), archive["vocab"].tolist()
        lists = np.split(archive["tags_indices"], archive["tags_indptr"][1:-1])

    found: collections.Counter[str] = collections.Counter()
    wrong = []
    for name, tags in zip(files, lists, strict=True):
        path = (folder / name).with_suffix(".svg")
        if path not in subjects:
            wrong.append(f"{name}: not in the package")
            continue
        if not any(licence in _licence(path) for licence in PUBLIC_DOMAIN):
            wrong.append(f"{name}: its licence is {_licence(path) or 'not said'}")
        for tag in (vocabulary[i] for i in tags):
            if _names(tag, subjects[path]):
                found["in the drawing's own metadata"] += 1
            elif _names(tag, copies[path.name]):
                found["in the metadata of a copy under the same name"] += 1
            elif any(tag in word for word in subjects[path]):
                found["within a word of the metadata, as travel in airtravel"] += 1
            else:
                found["not found"] += 1
                print(f"tag not found: {name}: {tag} in {sorted(subjects[path])}")
    print(f"{len(files)} drawings, {sum(found.values())} tags")
    for where, count in found.most_common():
        print(f"{count:6d} {where}")
    print("\n".join(wrong) or "every drawing is there and in the public domain")
    return 1 if wrong else 0


def _subjects(path: Path) -> set[str]:
    text = path.read_text(encoding="utf-8", errors="replace")
    subject = re.search(r"<dc:subject.*?</dc:subject>", text, flags=re.DOTALL)
    items = re.findall(r"<rdf:li[^>]*>(.*?)</rdf:li>", subject[0], re.DOTALL) if subject else []
    return {item.strip().lower() for item in items} - {""}


def _licence(path: Path) -> str:
    text = path.read_text(encoding="utf-8", errors="replace")
    licence = re.search(r'<cc:license[^>]*rdf:resource="([^"]*)"', text)
    return licence[1] if licence else ""


def _names(tag: str, subjects: set[str]) -> bool:
    """Whether a tag is among the subjects, as a word of one, or in the plural."""
    spelt = {SPELLINGS.get(subject, subject) for subject in subjects}
    words = spelt | {word for subject in spelt for word in re.split(r"[^a-z]+", subject)}
    return not words.isdisjoint((tag, f"{tag}s", f"{tag}es", f"{tag[:-1]}ies"))


if __name__ == "__main__":
    sys.exit(main())
