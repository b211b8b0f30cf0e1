"""Definitions of nouns, and their subtrees: the construction of the built-in file."""

import gzip
from pathlib import Path

import wassloss as wl
from experiments.corpora.definitions import make
from tests.places import needs

# entity > (animal > (dog > puppy, cat), thing > (tool > (hammer, saw), toy))
DATA = """00000001 03 n 01 entity 0 000 | all there is
00000002 03 n 01 animal 0 001 @ 00000001 n 0000 | it lives; "an animal ran"
00000003 03 n 02 dog 0 domestic_dog 0 001 @ 00000002 n 0000 | a pet; barks
00000004 03 n 01 puppy 0 001 @ 00000003 n 0000 | a young Dog
00000005 03 n 01 cat 0 001 @ 00000002 n 0000 | another pet
00000006 03 n 01 thing 0 001 @ 00000001 n 0000 | any object
00000007 03 n 01 tool 0 001 @ 00000006 n 0000 | made for work
00000008 03 n 01 hammer 0 001 @ 00000007 n 0000 | drives nails
00000009 03 n 01 saw 0 001 @ 00000007 n 0000 | cuts
00000010 03 n 01 toy 0 001 @ 00000006 n 0000 | made for play
"""


def made(folder: Path, *, least: int, most: int) -> tuple[list[list[str]], list[str]]:
    (folder / "data.noun").write_text("  licence\n" + DATA)
    make(folder, folder, least=least, most=most)
    text = gzip.decompress((folder / "definitions.tsv.gz").read_bytes()).decode()
    paths = (folder / "classes.txt").read_text().splitlines()
    return [line.split("\t") for line in text.splitlines()], paths


def test_the_largest_subtrees_that_are_small_enough(tmp_path: Path) -> None:
    lines, paths = made(tmp_path, least=2, most=4)
    # animal (4 notions) is a class; thing (5) is too large, so tool (3) is one; toy (1) is too
    # small.
    assert paths == ["entity > animal", "entity > tool"]
    assert [line[0] for line in lines] == list("0000111")
    assert [line[2] for line in lines[:3]] == ["it lives", "a pet; barks", "a young dog"]
    assert lines[1][1] == "dog, domestic dog"


def test_notions_with_a_single_child_are_left_out_of_paths(tmp_path: Path) -> None:
    _, paths = made(tmp_path, least=1, most=1)
    # The only child of dog among the classes is puppy, so its path does not name dog.
    assert "entity > animal > puppy" in paths


@needs("wordnet/data.noun.gz")
def test_the_built_in_file_is_made_so(tmp_path: Path) -> None:
    make(tmp_path)
    home = Path(wl.datasets.__file__).parent / "wordnet"
    for name in ("classes.txt", "definitions.tsv.gz"):
        ours, kept = (tmp_path / name).read_bytes(), (home / name).read_bytes()
        if name.endswith("gz"):  # bytes depend on the version of zlib
            ours, kept = gzip.decompress(ours), gzip.decompress(kept)
        assert ours == kept
