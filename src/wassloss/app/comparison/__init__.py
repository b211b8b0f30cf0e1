"""Compare losses and decision rules, tuned with the same budget, on held-out rows."""

from wassloss.app.comparison.answer import (
    LEAST_COST,
    PROBABLE,
    SAID,
    Candidate,
    Comparison,
    in_percent,
)
from wassloss.app.comparison.experiment import TableComparison, compare, compare_table

__all__ = [
    "LEAST_COST",
    "PROBABLE",
    "SAID",
    "Candidate",
    "Comparison",
    "TableComparison",
    "compare",
    "compare_table",
    "in_percent",
]
