"""What all commands of the tests share."""

import pytest


@pytest.fixture(autouse=True)
def one_fold(monkeypatch: pytest.MonkeyPatch) -> None:
    """`compare` chooses by one fold: it is in `tests/estimators` that its choice matters."""
    monkeypatch.setattr("wassloss.estimators.comparison._MANY", 1)
