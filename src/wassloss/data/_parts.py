"""Names of parts, as people write them into files."""

from __future__ import annotations

KNOWN_PARTS = ("train", "validation", "test")


def part_name(text: str) -> str:
    """A part's name without outer blanks; case does not matter in the three that are looked for.

    >>> part_name(" Test"), part_name("Fold 1 ")
    ('test', 'Fold 1')
    """
    name = text.strip()
    return name.lower() if name.lower() in KNOWN_PARTS else name
