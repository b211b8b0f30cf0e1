from pathlib import Path

import numpy as np
import pytest

from experiments.corpora.glosses import glosses
from tests.places import needs

DATA = """00000001 17 n 01 bank 0 000 | a slope beside the water; "the bank of the river"
00000002 05 n 01 dog 0 000 | a dog, the dog of a dog
00000003 05 n 01 cat 0 000 | a dog, the dog of a dog
00000004 05 n 01 x 0 000 | 1812
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("WASSLOSS_DATA", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    for name in ("wordnet", "glove"):
        (tmp_path / name).mkdir()
    (tmp_path / "wordnet" / "data.noun").write_text(DATA)
    (tmp_path / "glove" / "words.txt").write_text("the\nof\ndog\nwater\n")
    np.save(tmp_path / "glove" / "glove_100d.npy", np.eye(4, dtype=np.float16))
    return tmp_path


def test_frequent_words_with_a_vector_are_predicted(folder: Path) -> None:
    found = glosses(vocabulary=3, length=6)
    # "dog" and "a" occur three times, "the" twice; "a" has no vector.
    assert found.metric.labels == ("dog", "the")
    a, rare, start = 2, 3, 4
    assert found.tokens == 5
    # Equal definitions count once; empty ones and examples are left out.
    assert sorted(found.ids.tolist()) == [
        [start, a, 0, 1, 0, rare, a],
        [start, a, rare, rare, 1, rare, rare],
    ]


def test_missing_vectors_are_named(folder: Path) -> None:
    (folder / "glove" / "words.txt").unlink()
    with pytest.raises(FileNotFoundError, match=r"glove.words\.txt"):
        glosses(3, 6)


@needs("wordnet/data.noun.gz")
@needs("glove/glove_100d.npy")
def test_real_glosses() -> None:
    found = glosses(2000, 16)
    assert len(found.ids) > 80_000
    assert 1900 < found.metric.size < 2000
    share = (found.ids[:, 1:] < found.metric.size).sum() / (found.ids[:, 1:] < 2000).sum()
    assert share > 0.85
