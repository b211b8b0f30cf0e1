"""Ground metrics from words and files."""

from pathlib import Path

import numpy as np
import pytest

import wassloss as wl
from wassloss.app.metrics import read_metric


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "metric.csv"
    path.write_text(text)
    return path


def distances(metric: object) -> list[list[float]]:
    assert isinstance(metric, wl.ground.GroundMetric)
    found: list[list[float]] = metric.distance().double().tolist()
    return found


def test_words_and_saved_files(tmp_path: Path) -> None:
    assert read_metric("ordinal") == "ordinal"
    assert read_metric("discrete") == "discrete"
    wl.ground.Ordinal([0, 1, 5], labels=["a", "b", "c"]).save(tmp_path / "m.npz")
    found = read_metric(tmp_path / "m.npz")
    assert distances(found)[0] == [0, 1, 5]
    assert read_metric(found) is found  # type: ignore[arg-type]


def test_a_taxonomy_by_parents(tmp_path: Path) -> None:
    path = written(
        tmp_path, "name,parent,length\nhusky,dog,1\npoodle,dog,1\ndog,animal,2\ncat,animal,\n"
    )
    found = read_metric(path)
    assert found.labels == ("husky", "poodle", "cat")  # type: ignore[union-attr]
    assert distances(found) == [[0, 2, 4], [2, 0, 4], [4, 4, 0]]
    chosen = read_metric(path, ["cat", "dog"])
    assert distances(chosen) == [[0, 3], [3, 0]]


def test_a_taxonomy_by_paths(tmp_path: Path) -> None:
    path = written(tmp_path, "path\nanimal/dog/husky\nanimal / dog / poodle\nanimal/cat\nrose\n")
    found = read_metric(path)
    assert found.labels == ("husky", "poodle", "cat", "rose")  # type: ignore[union-attr]
    paths = [("animal", "dog", "husky"), ("animal", "dog", "poodle"), ("animal", "cat"), ("rose",)]
    assert distances(found) == distances(wl.ground.Tree.from_paths(paths))
    assert read_metric(path, ["rose", "cat"]).labels == ("rose", "cat")  # type: ignore[union-attr]


@pytest.mark.parametrize("named", [True, False])
def test_distances(named: bool, tmp_path: Path) -> None:
    table = np.array([[0.0, 1, 4], [1, 0, 2.5], [4, 2.5, 0]])
    lines = ["a,b,c", *(",".join(map(str, row)) for row in table)]
    if named:
        lines = [f"{name},{line}" for name, line in zip(["", "a", "b", "c"], lines, strict=True)]
    path = written(tmp_path, "\n".join(lines))
    assert distances(read_metric(path)) == table.tolist()
    assert distances(read_metric(path, ["c", "a"])) == [[0, 4], [4, 0]]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a,b\n", "it must have a header and other lines"),
        ("a,b\n0,1\n", r"it must have one line per label \(2\), got 1"),
        ("a,b\n0,1\nx,0\n", "line 3: expected a number, got 'x'"),
        ("a,b\n0,1\n1\n", "line 3: expected 2 columns"),
        (",a,b\nb,0,1\na,1,0\n", "lines must be in the order of the columns"),
        ("name,parent\ncat,\ncat,\n", "line 3: expected a new name, got 'cat'"),
        ("name,parent,length\ncat,,far\n", "line 2: expected a number, got 'far'"),
        ("path\na/b\nc/b\n", "line 3: expected a path to a new label, got 'c/b'"),
        ("path\na//b\n", "line 2: expected a path to a new label"),
    ],
)
def test_bad_files(text: str, message: str, tmp_path: Path) -> None:
    path = written(tmp_path, text)
    with pytest.raises(
        ValueError, match=f"metric.csv cannot be read as a ground metric: .*{message}"
    ):
        read_metric(path)


def test_labels_that_are_missing(tmp_path: Path) -> None:
    for text in ("path\na/b\na/c\n", "name,parent\nb,a\nc,a\n", "b,c\n0,1\n1,0\n"):
        with pytest.raises(ValueError, match="it must have every label, but lacks 1: 'd'"):
            read_metric(written(tmp_path, text), ["b", "d"])
    with pytest.raises(ValueError, match="metric must be ordinal, discrete, or a file"):
        read_metric("ordinary")
    with pytest.raises(FileNotFoundError):
        read_metric(tmp_path / "none.csv")
