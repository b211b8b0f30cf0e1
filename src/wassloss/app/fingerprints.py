"""Which rows a model was trained on, as one number per row, so that it is not judged by them.

A row's fingerprint is the first 64 bits of the BLAKE2b hash of its features, as they were read for
the model, in single precision; its label does not matter. They are kept with the model, sorted and
each once: 8 bytes per row, from which no row can be read, though a known row can be recognised.

Rows may equal one another by chance where features take few values. How often is seen among the
training rows themselves, of which some have a twin: only an overlap that is more than that says
that rows were used twice.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse, stats

_BY_CHANCE = 1e-3  # probability of an overlap that is still taken for chance


@dataclass(frozen=True, eq=False)
class Fingerprints:
    """Those of the rows that a model was trained on.

    Attributes:
        values: sorted, each once.
        rows: how many rows there were.
        twins: how many of them had an equal one among the others.

    >>> known = Fingerprints.of(np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0], [7.0, 8.0]]))
    >>> print(known.overlap(np.array([[3.0, 4.0], [0.0, 0.0]])))
    1 of 2 rows (50 %)
    """

    values: NDArray[np.uint64] = field(repr=False)
    rows: int
    twins: int

    @classmethod
    def of(cls, features: Any) -> Fingerprints:
        """Those of features `(rows, features)`, dense or a SciPy matrix."""
        values, counts = np.unique(_hashes(features), return_counts=True)
        return cls(values, int(counts.sum()), int(counts[counts > 1].sum()))

    def overlap(self, features: Any) -> Overlap:
        """How many of other rows are among them."""
        seen = np.isin(_hashes(features), self.values)
        return Overlap(int(seen.sum()), len(seen), self)


@dataclass(frozen=True)
class Overlap:
    """How many of some rows a model was trained on, or on rows that equal them."""

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
    """One number per row; the same on every machine."""
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
