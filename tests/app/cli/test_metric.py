"""`wassloss metric build` and `show`, and the readers below them."""

from pathlib import Path

import numpy as np
import pytest

import wassloss as wl
from tests.app.cli.commands import failed, ok
from wassloss.ground import GroundMetric

WORDS = ("cat", "kitten", "car", "truck")
VECTORS = np.array([[3.0, 0.1], [4.0, 1.0], [0.0, 2.0], [0.3, 3.0]], dtype=np.float32)


def vector_files(folder: Path) -> dict[str, list[object]]:
    """The same vectors in each form."""
    lines = [f"{w} {' '.join(map(str, v))}" for w, v in zip(WORDS, VECTORS, strict=True)]
    (folder / "glove.txt").write_text("\n".join(lines) + "\n")
    (folder / "word2vec.txt").write_text("\n".join(["4 2", *lines]) + "\n")
    return {
        "glove": ["--vectors", folder / "glove.txt"],
        "word2vec": ["--vectors", folder / "word2vec.txt"],
    }


@pytest.mark.parametrize("kind", ["glove", "word2vec"])
def test_vectors(kind: str, tmp_path: Path) -> None:
    options, out = vector_files(tmp_path)[kind], tmp_path / "metric.npz"
    ok("metric", "build", *options, "--out", out, "--power", 2)
    expected = wl.ground.Embedding(VECTORS, labels=WORDS, power=2)
    made = GroundMetric.load(out)
    assert made.labels == WORDS
    assert np.allclose(made.cost(), expected.cost())
    ok("metric", "build", *options, "--out", out, "--labels", "truck,cat")
    made = GroundMetric.load(out)
    assert made.labels == ("truck", "cat")
    assert made.distance()[0, 1] == pytest.approx(float(expected.distance()[3, 0]))


def test_a_tree(tmp_path: Path) -> None:
    file, out = tmp_path / "tree.csv", tmp_path / "metric.npz"
    file.write_text("name,parent,length\ndog,animal,\ncat,animal,2\nrose,plant,\n")
    ok("metric", "build", "--tree", file, "--out", out)
    made = GroundMetric.load(out)
    assert made.labels == ("dog", "cat", "rose")
    assert made.distance().tolist() == [[0, 3, 4], [3, 0, 5], [4, 5, 0]]
    ok("metric", "build", "--tree", file, "--labels", "plant,cat", "--out", out)
    assert GroundMetric.load(out).distance().tolist() == [
        [0, 4],
        [4, 0],
    ]  # an inner node may be a label


def test_a_matrix(tmp_path: Path) -> None:
    distance = np.array([[0, 1, 4], [1, 0, 2], [4, 2, 0]], dtype=np.float64)
    (tmp_path / "d.csv").write_text("a,b,c\n0,1,4\n1,0,2\n4,2,0\n")
    (tmp_path / "named.csv").write_text(",a,b,c\na,0,1,4\nb,1,0,2\nc,4,2,0\n")
    out = tmp_path / "metric.npz"
    for name in ("d.csv", "named.csv"):
        ok("metric", "build", "--matrix", tmp_path / name, "--out", out)
        assert GroundMetric.load(out).labels == ("a", "b", "c")
        assert np.array_equal(GroundMetric.load(out).distance(), distance)
        ok("metric", "build", "--matrix", tmp_path / name, "--labels", "c,a", "--out", out)
        assert GroundMetric.load(out).distance().tolist() == [[0, 4], [4, 0]]
    said = failed(
        "metric", "build", "--matrix", tmp_path / "d.csv", "--labels", "a,x", "--out", out
    )
    assert "d.csv cannot be read as a table: it must have every label, but lacks 1: 'x'" in said


def test_costs(tmp_path: Path) -> None:
    cost = np.array([[0.5, 1, 4], [2, 0, 2], [9, 3, 0]])
    (tmp_path / "c.csv").write_text("a,b,c\n0.5,1,4\n2,0,2\n9,3,0\n")
    (tmp_path / "named.csv").write_text(",a,b,c\na,0.5,1,4\nb,2,0,2\nc,9,3,0\n")
    out = tmp_path / "metric.npz"
    for name in ("c.csv", "named.csv"):
        ok("metric", "build", "--costs", tmp_path / name, "--out", out)
        made = GroundMetric.load(out)
        assert isinstance(made, wl.ground.Cost)
        assert made.labels == ("a", "b", "c")
        assert made.cost().tolist() == cost.tolist()
        ok("metric", "build", "--costs", tmp_path / name, "--labels", "c,a", "--out", out)
        assert GroundMetric.load(out).cost().tolist() == [[0, 9], [4, 0.5]]
    assert "wassloss.ground.Cost" in failed(
        "metric", "build", "--matrix", tmp_path / "c.csv", "--out", tmp_path / "m.npz"
    )
    ok("metric", "build", "--costs", tmp_path / "c.csv", "--out", out)
    text = ok("metric", "show", out, "--near", "a", "-k", 2).stdout
    assert "a: b 2, c 9" in text
    assert "symmetric: no" in text
    assert "zero diagonal: no" in text
    assert "  least: 1\n" in text  # the diagonal is left out


@pytest.mark.parametrize(
    ("option", "text", "expected"),
    [
        ("--tree", "a,b\n1,2\n", "must have columns 'name' and 'parent'"),
        ("--tree", "name,parent\na,\na,\n", "line 3: expected a new name"),
        ("--tree", "name,parent\na,b\nb,a\n", "parents must"),
        ("--tree", "name,parent,length\na,,far\n", "line 2: expected a number, got 'far'"),
        ("--matrix", "a,b\n0,1\n", "must be square"),
        ("--matrix", "a,b\n0,1\n2,0\n", "must be symmetric"),
        ("--matrix", ",a,b\nb,0,1\na,1,0\n", "must follow the order"),
        (
            "--vectors",
            "cat 1 2\ndog 1\n",
            "line 2 must have 2 numbers after the word, as the others, got 1",
        ),
        ("--vectors", "cat 1 two\n", "line 1 must hold numbers after the word: "),
        ("--vectors", "cat 0 0\ndog 1 1\n", "1 of 2 have none: 'cat'"),
    ],
)
def test_files_that_cannot_be_used(option: str, text: str, expected: str, tmp_path: Path) -> None:
    file, out = tmp_path / "file.txt", tmp_path / "m.npz"
    file.write_text(text)
    assert expected in failed("metric", "build", option, file, "--out", out)
    assert not out.exists()


def test_labels_without_vectors_are_named(tmp_path: Path) -> None:
    options = vector_files(tmp_path)["glove"]
    command = ["metric", "build", *options, "--labels", "cat,dog,truck,emu"]
    said = failed(*command, "--out", tmp_path / "m.npz")
    assert "2 of 4 have none: 'dog', 'emu'" in said
    ok(*command, "--missing", "drop", "--out", tmp_path / "m.npz")
    assert GroundMetric.load(tmp_path / "m.npz").labels == ("cat", "truck")


def test_show(tmp_path: Path) -> None:
    wl.ground.Ordinal(10, labels=list("abcdefghij")).save(tmp_path / "m.npz")
    text = ok("metric", "show", tmp_path / "m.npz", "--near", "c", "-k", 2).stdout
    assert "c: b 1, d 1" in text
    assert "triangle inequality: yes" in text
    assert "  least: 1\n" in text
    assert "  largest: 9\n" in text
    assert "a distance of 3, the median between two labels, as 1" in text
    assert "did you mean" in failed("metric", "show", "clipart", "--near", "boa")
    assert "boat: sailing 0.691" in ok("metric", "show", "clipart", "--near", "boat").stdout
    wl.ground.Ordinal(3).save(tmp_path / "unnamed.npz")
    assert "  0: 1 1, 2 2" in ok("metric", "show", tmp_path / "unnamed.npz").stdout
    assert "built without labels" in failed(
        "metric", "show", tmp_path / "unnamed.npz", "--near", "x"
    )
