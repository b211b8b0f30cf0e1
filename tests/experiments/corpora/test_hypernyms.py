"""WordNet's nouns as a tree."""

import gzip
from pathlib import Path

import pytest

from experiments.corpora.hypernyms import hypernym_paths
from tests.places import needs
from wassloss.ground import Tree

LICENCE = "  1 This software and database is being provided to you\n"
INDEX = """animal n 1 2 @ ~ 1 1 00000002
dog n 2 1 @ 2 1 00000003 00000001
domestic_dog n 1 1 @ 1 0 00000003
puppy n 1 1 @ 1 0 00000004
rex n 1 1 @i 1 0 00000005
"""
# dog has the hypernyms animal and entity, in this order; Rex is an instance of a dog.
DATA = """00000001 03 n 01 entity 0 001 ~ 00000002 n 0000 | all there is
00000002 03 n 02 animal 0 beast 0 002 @ 00000001 n 0000 ~ 00000003 n 0000 | it | lives
00000003 05 n 02 dog 0 domestic_dog 0 003 #m 00000009 n 0000 @ 00000002 n 0000 @ 00000001 n 0000 | x
00000004 05 n 0a puppy 0 b 0 c 0 d 0 e 0 f 0 g 0 h 0 i 0 j 0 001 @ 00000003 n 0000 | young
00000005 18 n 01 Rex 0 001 @i 00000003 n 0000 | a dog
"""
UP = ("entity#00000001", "animal#00000002")
DOG = (*UP, "dog#00000003")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "index.noun").write_text(LICENCE + INDEX)
    (tmp_path / "data.noun.gz").write_bytes(gzip.compress((LICENCE + DATA).encode()))
    return tmp_path


def test_paths_go_from_the_most_general_notion_to_the_word(folder: Path) -> None:
    words = ["animal", "dog", "domestic dog", "puppy", "Rex"]
    assert hypernym_paths(words, folder) == [
        (*UP, "animal"),
        (*DOG, "dog"),
        (*DOG, "domestic dog"),
        (*DOG, "puppy#00000004", "puppy"),
        (*DOG, "Rex#00000005", "Rex"),
    ]


def test_they_make_a_tree(folder: Path) -> None:
    tree = Tree.from_paths(hypernym_paths(["animal", "dog", "domestic dog", "puppy"], folder))
    assert tree.distance()[1].tolist() == [3, 0, 2, 3]


def test_other_words_and_folders_are_refused(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="words must be nouns of WordNet, got 1 others: 'blue'"):
        hypernym_paths(["dog", "blue"], folder)
    (folder / "data.noun.gz").unlink()
    with pytest.raises(FileNotFoundError, match=r"data.noun"):
        hypernym_paths(["dog"], folder)


def test_damaged_files_are_refused(folder: Path) -> None:
    data = folder / "data.noun.gz"
    data.write_bytes(gzip.compress(b"00000003 05 n zz dog 0 000 | x\n"))
    with pytest.raises(ValueError, match="no synset"):
        hypernym_paths(["dog"], folder)
    data.write_bytes(gzip.compress(b"00000003 05 n 01 dog 0 001 @ 00000003 n 0000 | x\n"))
    with pytest.raises(ValueError, match="no way up"):
        hypernym_paths(["dog"], folder)


@needs("wordnet/data.noun.gz")
def test_real_wordnet() -> None:
    tree = Tree.from_paths(hypernym_paths(["man", "boy", "dog", "bicycle"]))
    assert [name for name, _ in tree.nearest("man", 3)] == ["boy", "dog", "bicycle"]
