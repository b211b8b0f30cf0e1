"""The report of `wassloss compare`: what its mistakes are shown by."""

import numpy as np
import pandas as pd

from wassloss.app.report.page import described


def test_rows_are_described_by_their_first_columns() -> None:
    frame = pd.DataFrame(
        {
            "acid": [1.23456, np.nan, 3.0],
            "cellar": ["old ", "", None],
            "organic": [True, False, True],
            "year": [2001, 2002, "x" * 50],
            "note": ["a", "b", "c"],
        }
    )
    assert [described(frame.iloc[i]) for i in range(3)] == [
        "acid 1.235, cellar old, organic True, year 2001",
        "acid missing, cellar missing, organic False, year 2002",
        "acid 3, cellar missing, organic True, year " + 39 * "x" + "…",
    ]
