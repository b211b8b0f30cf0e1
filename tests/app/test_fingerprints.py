"""Rows are recognised in any order, storage and precision; other rows are not."""

from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

import wassloss as wl
from wassloss.app.fingerprints import Fingerprints
from wassloss.app.model import TableModel

X = np.random.default_rng(0).normal(size=(50, 3)).round(4)
OTHERS = np.random.default_rng(1).normal(size=(200, 3))


@pytest.mark.parametrize(
    "same",
    [
        X[::-1],
        np.asfortranarray(X),
        X.astype(np.float32),
        X.astype(">f8"),
        np.concatenate([X, X])[::2],
        np.where(X == 0, -0.0, X),
    ],
)
def test_the_same_rows(same: np.ndarray) -> None:
    known = Fingerprints.of(X)
    assert known.overlap(same).seen == len(same)
    assert known.overlap(OTHERS).seen == 0
    assert Fingerprints.of(same).overlap(X[:20]).seen in (20, 10)


def test_sparse_rows() -> None:
    dense = X * (X > 0)
    listed = sparse.csr_array(dense)
    unsorted = sparse.coo_array((np.ones(2), ([0, 0], [2, 1])), shape=(1, 3)).tocsr()
    known = Fingerprints.of(listed)
    assert known.overlap(sparse.csr_array(dense[::-1])).seen == len(X)
    assert Fingerprints.of(unsorted).overlap(sparse.csr_array([[0.0, 1.0, 1.0]])).seen == 1


def test_zero_is_zero() -> None:
    assert Fingerprints.of(np.array([[-0.0]])).overlap(np.array([[0.0]])).seen == 1


def test_they_are_the_same_on_every_machine() -> None:
    known = Fingerprints.of(np.array([[1.0, 2.0]]))
    assert known.values.tolist() == [7373934272132878346]


def test_what_chance_explains() -> None:
    plain = Fingerprints.of(np.arange(1000.0)[:, None])
    assert (plain.rows, plain.twins) == (1000, 0)
    assert plain.overlap(np.array([[5.0], *[[-i - 1.0] for i in range(300)]])).by_chance
    assert not plain.overlap(np.arange(4.0)[:, None]).by_chance
    assert plain.overlap(-np.arange(1.0, 5.0)[:, None]).by_chance
    coarse = Fingerprints.of(np.arange(1000.0)[:, None] % 10)
    assert (len(coarse.values), coarse.twins) == (10, 1000)
    assert coarse.overlap(np.arange(10.0)[:, None]).by_chance


def test_they_are_kept_with_a_model(tmp_path: Path) -> None:
    y = np.digitize(X[:, 0], [-0.5, 0.5])
    fitted = wl.WassersteinClassifier("ordinal", tol=0.1).fit(X, y)
    TableModel(fitted, trained_on=Fingerprints.of(X)).save(tmp_path / "model")
    found = wl.load(tmp_path / "model")
    assert isinstance(found, TableModel)
    assert found.trained_on is not None
    assert (found.trained_on.rows, found.trained_on.twins) == (50, 0)
    assert found.trained_on.values.dtype == np.uint64
    overlap = found.overlap(X)
    assert overlap is not None
    assert overlap.seen == 50
