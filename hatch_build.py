"""What a package index shows: the README with links that work there.

The address of the repository is `WASSLOSS_ADDRESS`, which the workflow that publishes sets. Without
it, a link to a file of the repository is left out and its text kept, and a picture is left out.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

try:
    from hatchling.metadata.plugin.interface import MetadataHookInterface
except ImportError:  # not needed to test what is below
    MetadataHookInterface = object

_LINK = re.compile(r"\[([^\[\]]+)\]\((?!https?:|#)([^()\s]+)\)")
_PICTURE = re.compile(r"<picture>.*?</picture>\n*", re.DOTALL)
_SOURCE = re.compile(r'(src|srcset)="(?!https?:)([^"]+)"')


def for_index(readme: str, address: str, version: str) -> str:
    """The README with absolute links to that version's files, or with none if there is no address.

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


class ReadmeAndLinks(MetadataHookInterface):  # type: ignore[misc]
    """Called by hatchling."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Fill in what `dynamic` in pyproject.toml leaves to this file."""
        address = os.environ.get("WASSLOSS_ADDRESS", "").rstrip("/")
        readme = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        text = for_index(readme, address, metadata["version"])
        metadata["readme"] = {"content-type": "text/markdown", "text": text}
        metadata["urls"] = {}
        if address:
            changes = f"{address}/blob/v{metadata['version']}/CHANGELOG.md"
            metadata["urls"] = {
                "Source": address,
                "Issues": f"{address}/issues",
                "Changelog": changes,
            }
