"""Definitions of nouns and the subtrees they belong to."""

from pathlib import Path

import numpy as np

from experiments.corpora.definitions import read_definitions
from tests.data.places import needs

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


def test_the_largest_subtrees_that_are_small_enough(tmp_path: Path) -> None:
    (tmp_path / "data.noun").write_text("  licence\n" + DATA)
    found = read_definitions(tmp_path, least=2, most=4)
    # animal has 4 notions and is taken whole; thing has 5, so tool (3) is; toy (1) is too small.
    top = "entity#00000001"
    assert found.paths == ((top, "animal#00000002"), (top, "tool#00000007"))
    assert found.classes.tolist() == [0, 0, 0, 0, 1, 1, 1]
    assert found.texts[:3] == ("it lives", "a pet; barks", "a young dog")
    assert found.words[1] == "dog, domestic dog"


def test_notions_with_a_single_child_are_left_out_of_paths(tmp_path: Path) -> None:
    (tmp_path / "data.noun").write_text(DATA)
    found = read_definitions(tmp_path, least=1, most=1)
    # The only child of dog among the classes is puppy, so its path does not name dog.
    puppy = next(path for path in found.paths if path[-1].startswith("puppy"))
    assert puppy == ("entity#00000001", "animal#00000002", "puppy#00000004")


@needs("wordnet/data.noun.gz")
def test_wordnet_itself() -> None:
    found = read_definitions()
    sizes = np.bincount(found.classes)
    assert len(found.paths) == 339
    assert len(found.texts) == len(found.classes) == sizes.sum() == 55_897
    assert sizes.min() >= 60
    assert sizes.max() <= 400
