"""What the batch at hand was asked, for the report of a failure."""

from __future__ import annotations

_noted: dict[str, object] = {}


def note(**facts: object) -> None:
    """Remember facts about the batch that is being checked."""
    _noted.update(facts)


def clear() -> None:
    _noted.clear()


def noted() -> str:
    return ", ".join(f"{name} {value}" for name, value in _noted.items())
