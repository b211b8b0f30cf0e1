"""Seeds: one range everywhere, and errors that name the argument and the range."""

import numpy as np
import pytest

from wassloss._checks import check_seed
from wassloss.app.tables import Table
from wassloss.app.training import fit_table


def test_seeds() -> None:
    for good in (0, 2**63 - 1, np.int64(7)):
        assert type(check_seed("seed", good)) is int
    for bad in (-1, 2**63, 2**70):
        with pytest.raises(ValueError, match=rf"seed must be in 0..2\*\*63 - 1, got {bad}"):
            check_seed("seed", bad)
    for bad in (1.5, True, "a", None):
        with pytest.raises(TypeError, match=rf"seed must be an integer.*, got {bad!r}"):
            check_seed("seed", bad)  # type: ignore[arg-type]


def test_the_application_takes_the_seeds_of_scikit_learn() -> None:
    pandas = pytest.importorskip("pandas")
    table = Table.of(pandas.DataFrame({"x": range(8), "label": [0, 1] * 4}))
    for good in (0, 2**32 - 1):
        fit_table(table, "discrete", seed=good)
    with pytest.raises(ValueError, match=rf"seed must be in 0..2\*\*32 - 1, .*got {2**32}"):
        fit_table(table, "discrete", seed=2**32)
