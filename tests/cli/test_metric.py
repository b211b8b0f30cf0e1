"""`wassloss metric build` and `show`, and the readers below them."""

from pathlib import Path

import numpy as np
import pytest

import wassloss as wl
from tests.cli.commands import failed, ok
from wassloss.cli.metric import distances_of, histogram
from wassloss.ground import load

WORDS = ("cat", "kitten", "car", "truck")
VECTORS = np.array([[3.0, 0.1], [4.0, 1.0], [0.0, 2.0], [0.3, 3.0]], dtype=np.float32)


def vector_files(folder: Path) -> dict[str, list[object]]:
    """The same vectors in each form."""
    np.save(folder / "v.npy", VECTORS)
    (folder / "words.txt").write_text("\n".join(WORDS) + "\n")
    lines = [f"{w} {' '.join(map(str, v))}" for w, v in zip(WORDS, VECTORS, strict=True)]
    (folder / "glove.txt").write_text("\n".join(lines) + "\n")
    (folder / "word2vec.txt").write_text("\n".join(["4 2", *lines]) + "\n")
    return {
        "npy": ["--vectors", folder / "v.npy", "--words", folder / "words.txt"],
        "npy, words beside it": ["--vectors", folder / "v.npy"],
        "glove": ["--vectors", folder / "glove.txt"],
        "word2vec": ["--vectors", folder / "word2vec.txt"],
    }


@pytest.mark.parametrize("kind", ["npy", "npy, words beside it", "glove", "word2vec"])
def test_vectors(kind: str, tmp_path: Path) -> None:
    options, out = vector_files(tmp_path)[kind], tmp_path / "metric.npz"
    ok("metric", "build", *options, "--out", out, "--power", 2)
    expected = wl.ground.Embedding(VECTORS, labels=WORDS, power=2)
    made = load(out)
    assert made.labels == WORDS
    assert np.allclose(made.cost(), expected.cost())
    ok("metric", "build", *options, "--out", out, "--labels", "truck,cat")
    made = load(out)
    assert made.labels == ("truck", "cat")
    assert made.distance()[0, 1] == pytest.approx(float(expected.distance()[3, 0]))
    ok("metric", "build", *options, "--out", out, "--no-normalize")
    gap = np.linalg.norm(VECTORS[0] - VECTORS[1])
    assert load(out).distance()[0, 1] == pytest.approx(float(gap))


def test_a_tree(tmp_path: Path) -> None:
    file, out = tmp_path / "tree.csv", tmp_path / "metric.npz"
    file.write_text("name,parent,length\ndog,animal,\ncat,animal,2\nrose,plant,\n")
    ok("metric", "build", "--tree", file, "--out", out)
    made = load(out)
    assert made.labels == ("dog", "cat", "rose")
    assert made.distance().tolist() == [[0, 3, 4], [3, 0, 5], [4, 5, 0]]
    ok("metric", "build", "--tree", file, "--labels", "plant,cat", "--out", out)
    assert load(out).distance().tolist() == [[0, 4], [4, 0]]  # an inner node may be a label


def test_a_matrix(tmp_path: Path) -> None:
    distance = np.array([[0, 1, 4], [1, 0, 2], [4, 2, 0]], dtype=np.float64)
    np.save(tmp_path / "d.npy", distance)
    np.savez(tmp_path / "d.npz", distance=distance, labels=np.array(["a", "b", "c"]))
    (tmp_path / "d.csv").write_text("a,b,c\n0,1,4\n1,0,2\n4,2,0\n")
    (tmp_path / "named.csv").write_text(",a,b,c\na,0,1,4\nb,1,0,2\nc,4,2,0\n")
    out = tmp_path / "metric.npz"
    for name in ("d.npz", "d.csv", "named.csv"):
        ok("metric", "build", "--matrix", tmp_path / name, "--out", out)
        assert load(out).labels == ("a", "b", "c")
        assert np.array_equal(load(out).distance(), distance)
        ok("metric", "build", "--matrix", tmp_path / name, "--labels", "c,a", "--out", out)
        assert load(out).distance().tolist() == [[0, 4], [4, 0]]
    ok("metric", "build", "--matrix", tmp_path / "d.npy", "--labels", "x,y,z", "--out", out)
    assert load(out).labels == ("x", "y", "z")


def test_costs(tmp_path: Path) -> None:
    cost = np.array([[0.5, 1, 4], [2, 0, 2], [9, 3, 0]])
    np.save(tmp_path / "c.npy", cost)
    np.savez(tmp_path / "c.npz", cost=cost, labels=np.array(["a", "b", "c"]))
    (tmp_path / "c.csv").write_text("a,b,c\n0.5,1,4\n2,0,2\n9,3,0\n")
    (tmp_path / "named.csv").write_text(",a,b,c\na,0.5,1,4\nb,2,0,2\nc,9,3,0\n")
    out = tmp_path / "metric.npz"
    for name in ("c.npz", "c.csv", "named.csv"):
        ok("metric", "build", "--costs", tmp_path / name, "--out", out)
        made = load(out)
        assert isinstance(made, wl.ground.Cost)
        assert made.labels == ("a", "b", "c")
        assert made.cost().tolist() == cost.tolist()
        ok("metric", "build", "--costs", tmp_path / name, "--labels", "c,a", "--out", out)
        assert load(out).cost().tolist() == [[0, 9], [4, 0.5]]
    assert "wassloss.ground.Cost" in failed(
        "metric", "build", "--matrix", tmp_path / "c.csv", "--out", tmp_path / "m.npz"
    )
    ok("metric", "build", "--costs", tmp_path / "c.npy", "--labels", "x,y,z", "--out", out)
    text = ok("metric", "show", out, "--near", "x", "-k", 2).stdout
    assert "x: y 2, z 9" in text
    assert "symmetric: no" in text
    assert "zero diagonal: no" in text
    assert sorted(distances_of(load(out))[0].tolist()) == [
        1,
        2,
        2,
        3,
        4,
        9,
    ]  # the diagonal is left out


def test_a_line(tmp_path: Path) -> None:
    ok("metric", "build", "--ordinal", 3, "--labels", "low,mid,high", "--out", tmp_path / "m.npz")
    assert load(tmp_path / "m.npz").labels == ("low", "mid", "high")


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
        ("--vectors", "cat 1 two\n", "line 1 must hold numbers after the word, got 'two'"),
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
    assert load(tmp_path / "m.npz").labels == ("cat", "truck")


def test_an_array_without_words(tmp_path: Path) -> None:
    np.save(tmp_path / "v.npy", VECTORS)
    said = failed("metric", "build", "--vectors", tmp_path / "v.npy", "--out", tmp_path / "m.npz")
    assert "does not say which word each row is of" in said
    assert "words.txt, one a line" in said


def test_show(tmp_path: Path) -> None:
    wl.ground.Ordinal(10, labels=list("abcdefghij")).save(tmp_path / "m.npz")
    text = ok("metric", "show", tmp_path / "m.npz", "--near", "c", "-k", 2).stdout
    assert "c: b 1, d 1" in text
    assert "triangle inequality: yes" in text
    assert "a distance of 3, the median between two labels, as 1" in text
    assert "did you mean" in failed("metric", "show", "clipart", "--near", "boa")
    assert "boat: sailing 0.691" in ok("metric", "show", "clipart", "--near", "boat").stdout
    wl.ground.Ordinal(3).save(tmp_path / "unnamed.npz")
    assert "  0: 1 1, 2 2" in ok("metric", "show", tmp_path / "unnamed.npz").stdout
    said = failed("metric", "show", tmp_path / "unnamed.npz", "--near", "x", code=2)
    assert "--near must be a number" in said


@pytest.mark.parametrize(
    "metric", [wl.ground.Ordinal(7, power=2), wl.ground.Discrete(4), wl.data.clipart().metric]
)
def test_bars_count_every_distance(metric: wl.ground.GroundMetric) -> None:
    others = ~np.eye(metric.size, dtype=bool)
    distance = metric.distance().double().numpy()[others]
    bars = histogram(distances_of(metric)[0])
    assert sum(count for _, _, count in bars) == others.sum()
    for low, high, count in bars[:-1]:
        inside = (distance == low) if low == high else (distance >= low) & (distance < high)
        assert count == inside.sum()
