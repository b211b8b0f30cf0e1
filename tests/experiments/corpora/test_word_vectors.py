"""Word vectors: all formats agree, also with gensim; errors about bad files are one line."""

import gzip
from pathlib import Path

import numpy as np
import pytest

from experiments.corpora.word_vectors import WordVectors, read_word_vectors

WORDS = ("the", "cat", "café", "new_york", "naïve")
VECTORS = np.random.default_rng(0).normal(size=(5, 7)).astype(np.float32)
# The shortest decimals that round-trip each float32.
LINES = [
    f"{word} {' '.join(np.format_float_scientific(x) for x in row)}"
    for word, row in zip(WORDS, VECTORS, strict=True)
]
RECORDS = [
    word.encode() + b" " + row.astype("<f4").tobytes()
    for word, row in zip(WORDS, VECTORS, strict=True)
]
BINARY = b"5 7\n" + b"".join(record + b"\n" for record in RECORDS)
FORMATS = {
    "glove.txt": "\n".join(LINES).encode() + b"\n",
    "word2vec.txt": ("5 7\n" + "\n".join(LINES)).encode(),
    "fasttext.vec": ("5 7\n" + " \n".join(LINES) + " \n").encode(),
    "windows.txt": "\r\n".join(LINES).encode() + b"\r\n",
    "glove.txt.gz": gzip.compress("\n".join(LINES).encode()),
}


@pytest.mark.parametrize("name", FORMATS)
def test_formats(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(FORMATS[name])
    table = read_word_vectors(path)
    assert table.words == WORDS
    assert table.vectors.dtype == np.float32
    np.testing.assert_array_equal(table.vectors, VECTORS)
    some = read_word_vectors(path, words={"naïve", "cat", "absent"})
    assert some.words == ("cat", "naïve")
    np.testing.assert_array_equal(some.vectors, VECTORS[[1, 4]])


def test_gensim_reads_the_same(tmp_path: Path) -> None:
    models = pytest.importorskip("gensim.models")
    path = tmp_path / "word2vec.txt"
    path.write_bytes(FORMATS[path.name])
    theirs = models.KeyedVectors.load_word2vec_format(str(path))
    ours = read_word_vectors(path)
    assert tuple(theirs.index_to_key) == ours.words
    np.testing.assert_array_equal(theirs.vectors, ours.vectors)
    # Files written by gensim are read, too.
    theirs.save_word2vec_format(str(tmp_path / "theirs.txt"))
    back = read_word_vectors(tmp_path / "theirs.txt")
    assert back.words == ours.words
    np.testing.assert_array_equal(back.vectors, ours.vectors)


def test_binary_files_by_way_of_gensim(tmp_path: Path) -> None:
    """The advice of the error for such a file works."""
    models = pytest.importorskip("gensim.models")
    (tmp_path / "word2vec.bin").write_bytes(BINARY)
    theirs = models.KeyedVectors.load_word2vec_format(str(tmp_path / "word2vec.bin"), binary=True)
    table = WordVectors(theirs.index_to_key, theirs.vectors)
    assert table.words == WORDS
    np.testing.assert_array_equal(table.vectors, VECTORS)


def test_large_numbers_are_finite() -> None:
    """Their sum, which is checked first, overflows."""
    table = WordVectors(("a", "b"), np.full((2, 2), 3e38, np.float32))
    assert table.vectors.max() == np.float32(3e38)
    with pytest.raises(ValueError, match=r"vectors must be finite.*'b'"):
        WordVectors(("a", "b"), np.array([[3e38, 3e38], [np.inf, 0]], np.float32))


def test_words_with_spaces(tmp_path: Path) -> None:
    (tmp_path / "g.txt").write_text("the 1 2\n. . . 3 4\nat name@domain.com 5 6\n")
    assert read_word_vectors(tmp_path / "g.txt").words == ("the", ". . .", "at name@domain.com")


BAD = {
    "unequal.txt": (b"cat 1 2 3\ndog 1 2\n", "line 2 must have 3 numbers after the word.*got 2"),
    "longer.txt": (b"cat 1 2\ndog 1 2 3\n", "line 2 must have 2 numbers after the word.*got 3"),
    "header.vec": (b"2 3\ncat 1 2\ndog 1 2\n", "line 2 must have 3 numbers.*got 2"),
    "letters.txt": (b"cat 1 2\ndog 1 two\n", "line 2 must hold numbers after the word.*two"),
    "nan.txt": (b"cat 1 2\ndog 1 nan\n", "vectors must be finite.*'dog'"),
    "counts.vec": (b"3 2\ncat 1 2\ndog 1 3\n", "line 1 says 3 words, but it has 2"),
    "empty.txt": (b"", "it has no vectors"),
    "word.txt": (b"cat\n", "line 1 must be a word and its numbers"),
    "word2vec.bin": (BINARY, "not text: WordVectors takes words and an array.*KeyedVectors"),
    "word2vec.bin.gz": (gzip.compress(BINARY), "not text: WordVectors takes words"),
    "cut.txt.gz": (gzip.compress(FORMATS["glove.txt"])[:-20], "ended before the end"),
    "wrong.txt.gz": (FORMATS["glove.txt"], "Not a gzipped file"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_files(tmp_path: Path, name: str) -> None:
    content, message = BAD[name]
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(ValueError, match=message) as caught:
        read_word_vectors(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_first_of_duplicates(tmp_path: Path) -> None:
    (tmp_path / "g.txt").write_text("cat 1 2\ncat 3 4\n")
    table = read_word_vectors(tmp_path / "g.txt")
    assert table.words == ("cat",)
    assert table.vectors.tolist() == [[1, 2]]


def test_bad_arguments(tmp_path: Path) -> None:
    (tmp_path / "g.txt").write_text("cat 1 2\n")
    with pytest.raises(TypeError, match="words must be a collection of words"):
        read_word_vectors(tmp_path / "g.txt", words="cat")
    with pytest.raises(ValueError, match="no vectors of the 1 words asked for"):
        read_word_vectors(tmp_path / "g.txt", words=["dog"])
    with pytest.raises(FileNotFoundError):
        read_word_vectors(tmp_path / "absent.txt")


def test_metric() -> None:
    table = WordVectors(("a", "b", "nil"), np.array([[3.0, 0.0], [0.0, 2.0], [0.0, 0.0]]))
    metric = table.metric(["b", "a"], power=2)
    assert metric.labels == ("b", "a")
    assert metric.distance_columns(0).tolist() == pytest.approx([0, 2**0.5])
    with pytest.raises(ValueError, match="2 of 4 have none: 'c', 'nil'; missing='drop'"):
        table.metric(["a", "c", "nil", "b"])
    assert table.metric(["a", "c", "nil", "b"], missing="drop").labels == ("a", "b")
    with pytest.raises(ValueError, match="none of the 1 has one"):
        table.metric(["c"], missing="drop")
    with pytest.raises(ValueError, match="missing must be"):
        table.metric(["a"], missing="skip")  # type: ignore[arg-type]


def test_bad_tables() -> None:
    with pytest.raises(ValueError, match="words must differ, one for each of 2 vectors"):
        WordVectors(("a",), np.eye(2, dtype=np.float32))
    with pytest.raises(ValueError, match="words must differ, one for each of 2 vectors"):
        WordVectors(("a", "a"), np.eye(2, dtype=np.float32))
    with pytest.raises(ValueError, match="vectors must be numbers of shape"):
        WordVectors(("a",), np.zeros(3, dtype=np.float32))
