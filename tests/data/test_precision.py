"""Numbers beyond float32: in every reader, errors name the position and the dtype."""

import warnings
from pathlib import Path

import numpy as np
import pytest
import torch

import wassloss as wl
from wassloss.data.files import read_wanted
from wassloss.data.table import Wanted

X = np.ones((6, 2))
X[2, 1] = 1e200
Y = np.arange(6) % 5
NAMES = ("awful", "bad", "fair", "good", "superb")
FITS = r"must fit torch.float32, got 1e\+200 in row 2, column 1"


def test_tables(tmp_path: Path) -> None:
    rows = zip(X.tolist(), Y, strict=True)
    text = "u,v,label\n" + "".join(f"{a},{b},{NAMES[y]}\n" for (a, b), y in rows)
    (tmp_path / "x.csv").write_text(text)
    expected = r"line 4, column 'v': expected a finite number that fits float32, got 1e\+200"
    for read in (wl.data.read, lambda path: read_wanted(path, Wanted(labelled=False))):
        with pytest.raises(ValueError, match=expected):
            read(tmp_path / "x.csv")


def test_numbers_that_are_not_finite_are_told_from_large_ones(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("u,label\n1,a\ninf,b\n")
    with pytest.raises(
        ValueError, match="line 3, column 'u': expected a finite number that fits float32"
    ):
        wl.data.read(tmp_path / "x.csv")


def test_word_vectors(tmp_path: Path) -> None:
    (tmp_path / "v.txt").write_text("dog 1 2\ncat 1e200 3\n")
    with pytest.raises(
        ValueError, match=r"vectors must be finite in float32, got inf for the word 'cat'"
    ):
        wl.data.read_word_vectors(tmp_path / "v.txt")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(
            ValueError, match=r"vectors must be finite in float32, got inf for .*'cat'"
        ):
            wl.data.WordVectors(("dog", "cat"), np.array([[1.0, 2.0], [1e200, 3.0]]))


def test_lists() -> None:
    with pytest.raises(ValueError, match=f"features {FITS}"):
        wl.data.Dataset(X.tolist(), Y)
    assert wl.data.Dataset(X, Y).features.dtype == torch.float64  # arrays keep their dtype
    for make in (wl.ground.Ordinal, lambda p: wl.ground.Matrix([[0, p[1]], [p[1], 0]])):
        with pytest.raises(ValueError, match=r"must fit torch.float32, got .*\[.*1\] = 1e\+200"):
            make([0, 1e200])
