"""Long lists of cases: a few of them in every run, all of them in `make slow`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def one_in(n: int, cases: Iterable[Any]) -> list[Any]:
    """The cases for `parametrize`, all but every n-th behind the marker `slow`."""
    return [
        case if i % n == 0 else pytest.param(case, marks=pytest.mark.slow)
        for i, case in enumerate(cases)
    ]
