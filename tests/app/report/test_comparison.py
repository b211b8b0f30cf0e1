"""The report of `wassloss compare`: what its mistakes are shown by."""

import numpy as np

from wassloss.data.raw_table import Column, RawTable
from wassloss.app.report.tables import described


def test_rows_are_described_by_their_columns() -> None:
    columns = (
        Column("acid", "number", gaps=True),
        Column("cellar", "category", levels=("new", "old")),
    )
    raw = RawTable((*columns, Column("organic", "number")))
    rows = np.array([[1.23456, 0, 0, 1, 1], [0.5, 1, 1, 0, 0], [3, 0, 0, 0, 1]])
    assert [described(raw, row) for row in rows] == [
        "acid 1.235, cellar old, organic 1",
        "acid missing, cellar new, organic 0",
        "acid 3, cellar missing, organic 1",
    ]
