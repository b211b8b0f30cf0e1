"""Words that people tag photographs with and that do not say what is to be seen.

The paper removed such tags by hand and names only "annual" and "demo" of them. This list is ours:
words about photographs and cameras, nationalities and the like, and what is said of an occasion
rather than a view. Give your own to replace it.
"""

from __future__ import annotations

from pathlib import Path

_FILE = Path(__file__).with_name("stop_words.txt")
STOP_WORDS = frozenset(_FILE.read_text(encoding="utf-8").split())
