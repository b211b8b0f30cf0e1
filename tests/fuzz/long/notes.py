"""Notes on the arguments of the current batch, for the report of a failure."""

from __future__ import annotations

_noted: dict[str, object] = {}


def note(**facts: object) -> None:
    """Record facts about the current batch."""
    _noted.update(facts)


def clear() -> None:
    _noted.clear()


def noted() -> str:
    return ", ".join(f"{name} {value}" for name, value in _noted.items())
