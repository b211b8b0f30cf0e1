"""Adapt the README's links to a package index; setup.py runs this file."""

from __future__ import annotations

import re

_LINK = re.compile(r"\[([^\[\]]+)\]\((?!https?:|#)([^()\s]+)\)")
_PICTURE = re.compile(r"<picture>.*?</picture>\n*", re.DOTALL)
_SOURCE = re.compile(r'(src|srcset)="(?!https?:)([^"]+)"')


def for_index(readme: str, address: str, version: str) -> str:
    """Make links absolute, to that version's files, or remove them if there is no address.

    >>> for_index("see [the tour](docs/tour.md)", "https://example.org/wassloss", "1.0")
    'see [the tour](https://example.org/wassloss/blob/v1.0/docs/tour.md)'
    >>> for_index("see [the tour](docs/tour.md)", "", "1.0")
    'see the tour'
    """
    if not address:
        return _LINK.sub(r"\1", _PICTURE.sub("", readme))
    base = address.rstrip("/")
    readme = _LINK.sub(rf"[\1]({base}/blob/v{version}/\2)", readme)
    return _SOURCE.sub(rf'\1="{base}/raw/v{version}/\2"', readme)
