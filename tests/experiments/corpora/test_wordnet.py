"""WordNet's files: dominant categories and singulars of words."""

import gzip
from pathlib import Path

import pytest

from experiments.corpora.wordnet import read_wordnet
from tests.places import needs

LICENCE = "  1 This software and database is being provided to you\n"
# bank: the side of a river is its first sense, but the business is counted more often.
INDEX = """bank n 2 1 @ 2 1 00000001 00000002
dog n 1 1 @ 1 1 00000003
new_york n 1 1 @ 1 0 00000004
child n 1 1 @ 1 0 00000005
"""
DATA = """00000001 17 n 01 bank 0 000 | sloping land
00000002 14 n 01 bank 1 000 | a financial institution
00000003 05 n 01 dog 0 000 | an animal
00000004 15 n 01 New_York 0 000 | a city
00000005 18 n 01 child 0 000 | a young person
"""
COUNTS = """bank%1:14:00:: 2 9
bank%1:17:00:: 1 4
dog%1:05:00:: 1 42
march%1:28:00:: 1 2
march%2:38:00:: 1 7
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "index.noun").write_text(LICENCE + INDEX)
    (tmp_path / "data.noun.gz").write_bytes(gzip.compress((LICENCE + DATA).encode()))
    (tmp_path / "cntlist.rev").write_text(COUNTS)
    (tmp_path / "noun.exc").write_text("children child\nmice mouse\n")
    return tmp_path


def test_dominant_category(folder: Path) -> None:
    net = read_wordnet(folder)
    assert net.category("bank") == "noun.group"  # 9 uses against 4
    assert net.category("new_york") == "noun.location"  # never counted: the first sense
    assert net.category("march") == "verb.motion"  # verbs count too, also without their index
    assert net.category("cat") is None
    assert "dog" in net
    assert len(net) == 5


def test_first_sense_where_counts_are_missing(folder: Path) -> None:
    (folder / "cntlist.rev").unlink()
    assert read_wordnet(folder).category("bank") == "noun.object"


def test_index_sense_says_the_same(folder: Path) -> None:
    net = read_wordnet(folder)
    (folder / "index.sense").write_text(
        "bank%1:14:00:: 00000002 2 9\nbank%1:17:00:: 00000001 1 4\ndog%1:05:00:: 00000003 1 42\n"
        "march%1:28:00:: 0 1 2\nmarch%2:38:00:: 0 1 7\nnew_york%1:15:00:: 00000004 1 0\n"
        "child%1:18:00:: 00000005 1 0\n"
    )
    assert dict(read_wordnet(folder).categories) == dict(net.categories)


def test_singular(folder: Path) -> None:
    net = read_wordnet(folder)
    assert [net.singular(w) for w in ("dog", "dogs", "children", "mice", "xs")] == [
        *("dog", "dog", "child"),
        *(None, None),  # mouse is not in this WordNet
    ]
    assert net.singular("marchs") is None  # only nouns have plurals


def test_bad_files(folder: Path) -> None:
    (folder / "cntlist.rev").write_text("dog%1:99:00:: 1 42\n")
    with pytest.raises(ValueError, match=r"cntlist.rev, line 1, is not a sense"):
        read_wordnet(folder)
    (folder / "index.noun").write_text("dog n 1 1 @ 1 1 99999999\n")
    with pytest.raises(ValueError, match=r"index.noun, line 1, is not an entry"):
        read_wordnet(folder)
    (folder / "data.noun.gz").unlink()
    with pytest.raises(FileNotFoundError, match=r"must hold index\.sense, or index\.noun"):
        read_wordnet(folder)


@needs("wordnet/index.noun.gz")
def test_real_wordnet() -> None:
    net = read_wordnet()
    expected = {
        "dog": "noun.animal",
        "paris": "noun.location",
        "may": "noun.time",
        "new": "adj.all",
        "flower": "noun.plant",
        "summer": "noun.time",
    }
    assert {word: net.category(word) for word in expected} == expected
    assert [net.singular(w) for w in ("geese", "churches", "berries", "glass", "qqqs")] == [
        *("goose", "church", "berry", "glass", None)
    ]
    assert len(net) > 120_000
