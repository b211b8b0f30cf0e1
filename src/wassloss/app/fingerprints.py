"""Fingerprints of training rows, so that a model is not scored on rows it was trained on.

A row's fingerprint is a 64-bit BLAKE2b hash of its encoded features in single precision; its label
does not matter. The model stores the distinct fingerprints, sorted: 8 bytes per row, from which no
row can be recovered, though a known row can be recognised.

Rows may be equal by chance if features take few values. How often this happens is estimated from
duplicates among the training rows: only a larger overlap means that rows were used twice.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse, stats

_BY_CHANCE = 1e-3  # p-value above which an overlap is attributed to chance


@dataclass(frozen=True, eq=False)
class Fingerprints:
    """Fingerprints of the rows that a model was trained on.

    Attributes:
        values: the distinct fingerprints, sorted.
        rows: the number of training rows.
        twins: the number of training rows that equal another one.

    >>> known = Fingerprints.of(np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0], [7.0, 8.0]]))
    >>> print(known.overlap(np.array([[3.0, 4.0], [0.0, 0.0]])))
    1 of 2 rows (50 %)
    """

    values: NDArray[np.uint64] = field(repr=False)
    rows: int
    twins: int

    @classmethod
    def of(cls, features: Any) -> Fingerprints:
        """Compute the fingerprints of features `(rows, features)`, dense or `scipy.sparse`."""
        values, counts = np.unique(_hashes(features), return_counts=True)
        return cls(values, int(counts.sum()), int(counts[counts > 1].sum()))

    def overlap(self, features: Any) -> Overlap:
        """Count the rows of other features that are among the training rows."""
        seen = np.isin(_hashes(features), self.values)
        return Overlap(int(seen.sum()), len(seen), self)


@dataclass(frozen=True)
class Overlap:
    """The number of rows that equal a training row."""

    seen: int
    rows: int
    known: Fingerprints

    @property
    def by_chance(self) -> bool:
        """Whether equal rows are no more frequent than among the training rows themselves.

        By Fisher's exact test, one-sided.
        """
        twins, count = self.known.twins, self.known.rows
        chance = stats.hypergeom.sf(self.seen - 1, count + self.rows, twins + self.seen, self.rows)
        return bool(chance > _BY_CHANCE)

    def __str__(self) -> str:
        return f"{self.seen} of {self.rows} rows ({100 * self.seen / self.rows:.3g} %)"


def _hashes(features: Any) -> NDArray[np.uint64]:
    """One hash per row; the same on every machine."""
    if sparse.issparse(features):
        listed = sparse.csr_array(features, copy=True)
        listed.sum_duplicates()
        listed.eliminate_zeros()
        ends, where = listed.indptr, listed.indices.astype("<i8")
        data = listed.data.astype("<f4")
        rows = [
            where[start:stop].tobytes() + data[start:stop].tobytes()
            for start, stop in pairwise(ends)
        ]
    else:
        with np.errstate(over="ignore"):
            table = np.asarray(features).astype("<f4") + np.float32(0)  # -0.0 is 0.0
        rows = [row.tobytes() for row in table]
    digests = b"".join(blake2b(row, digest_size=8).digest() for row in rows)
    return np.frombuffer(digests, "<u8").astype(np.uint64)
