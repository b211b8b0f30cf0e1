"""Check the links inside a built site: `python docs/check_links.py build/docs`.

Sphinx checks links between Markdown pages. This checks what a browser will see: the reference, the
gallery, pictures and styles included. Links to other sites are not followed.
"""

from __future__ import annotations

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


class Page(HTMLParser):
    """Where a page's links lead, and where links to it can lead."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links: set[str] = set()
        self.anchors: set[str] = {""}
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name in ("href", "src") and value:
                self.links.add(value)
            elif name == "id" or (name, tag) == ("name", "a"):
                self.anchors.add(value or "")


def dead_links(site: Path) -> list[str]:
    """A line for each link of a page that leads nowhere."""
    site = site.resolve()
    pages = {path: Page(path) for path in sorted(site.rglob("*.html"))}
    found = []
    for path, page in pages.items():
        if path.is_relative_to(site / "_modules"):
            continue  # Sphinx gets these wrong if a module is documented under two names
        for link in sorted(page.links):
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if target.is_dir():
                target /= "index.html"
            anchor = unquote(parts.fragment)
            known = pages[target].anchors if target in pages else {"", anchor}
            if not target.exists() or anchor not in known:
                found.append(f"{path.relative_to(site)}: {link}")
    return found


if __name__ == "__main__":
    dead = dead_links(Path(sys.argv[1]))
    sys.exit("\n".join(["Dead links:", *dead]) if dead else 0)
