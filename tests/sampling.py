"""Long lists of cases: a few in every run, all in `make slow`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def one_in(n: int, cases: Iterable[Any]) -> list[Any]:
    """Cases for `parametrize`, with all but every n-th marked `slow`."""
    return [
        case if i % n == 0 else pytest.param(case, marks=pytest.mark.slow)
        for i, case in enumerate(cases)
    ]
