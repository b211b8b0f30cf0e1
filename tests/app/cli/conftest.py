"""What all commands of the tests share."""

import pytest


@pytest.fixture(autouse=True)
def one_fold(monkeypatch: pytest.MonkeyPatch) -> None:
    """`compare` chooses by one fold: what it chooses is tested in `tests/app/comparison`."""
    monkeypatch.setattr("wassloss.app.comparison.tuning._MANY", 1)
