"""Words that are used as tags but do not describe what a photograph shows.

The paper removed such tags by hand and names only "annual" and "demo". This list is ours: words
about photography and cameras, nationalities and the like, and words that describe an occasion
rather than a view. Pass your own list to replace it.
"""

from __future__ import annotations

from pathlib import Path

_FILE = Path(__file__).with_name("stop_words.txt")
STOP_WORDS = frozenset(_FILE.read_text(encoding="utf-8").split())
