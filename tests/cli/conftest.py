"""Fixtures of all tests of commands."""

import pytest


@pytest.fixture(autouse=True)
def one_fold(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let `compare` use a single fold; its choice is tested in `tests/estimators`."""
    monkeypatch.setattr("wassloss.estimators.comparison._MANY", 1)
