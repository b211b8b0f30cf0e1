"""Measure the layout of a page in a browser at several widths."""

import html
import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

WIDTHS = (400, 700, 1000)
_BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")
# A frame has exactly the given width, while a window may have a minimum width.
_FRAME = '<iframe srcdoc="{}" style="border:0; width:{}px; height:3000px"></iframe>'
_MEASURE = """
<script>
addEventListener("load", () => {
  const found = [...document.querySelectorAll("iframe")].map(frame => {
    const page = frame.contentDocument, root = page.documentElement, broken = [], wide = [];
    for (const element of page.body.querySelectorAll("*"))
      if (!element.closest("svg") && element.scrollWidth > element.clientWidth + 1
          && page.defaultView.getComputedStyle(element).display != "inline"
          && element.clientWidth) wide.push(element.outerHTML.slice(0, 80));
    const texts = page.createTreeWalker(page.body, NodeFilter.SHOW_TEXT);
    while (texts.nextNode()) {
      const text = texts.currentNode;
      if (text.parentElement.closest("svg, style")) continue;
      for (const word of text.data.matchAll(/[\\p{L}\\p{N}]+/gu)) {
        const range = page.createRange();
        range.setStart(text, word.index);
        range.setEnd(text, word.index + word[0].length);
        if (new Set([...range.getClientRects()].map(box => box.top)).size > 1) broken.push(word[0]);
      }
    }
    return {width: root.clientWidth, overflow: root.scrollWidth - root.clientWidth, wide, broken};
  });
  document.body.innerHTML = "<pre>" + JSON.stringify(found).replaceAll("<", "&lt;") + "</pre>";
});
</script>
"""


def measured(page: Path) -> list[dict[str, Any]]:
    """For each width, elements that overflow, and words that are broken over two lines."""
    browser = next((path for name in _BROWSERS if (path := shutil.which(name))), None)
    if browser is None:
        missing = (
            f"no browser: none of {', '.join(_BROWSERS)} is on the path; on Debian and Ubuntu, "
            "`apt-get install chromium` provides one"
        )
        if os.environ.get("WASSLOSS_BROWSER") == "required":
            pytest.fail(missing)
        pytest.skip(missing)
    frames = "".join(_FRAME.format(html.escape(page.read_text()), width) for width in WIDTHS)
    wrapper = page.with_name("frames.html")
    wrapper.write_text(f'<!doctype html><meta charset="utf-8"><body>{frames}{_MEASURE}</body>')
    done = subprocess.run(
        [
            browser,
            *("--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"),
            "--enable-logging=stderr",
            *(f"--user-data-dir={page.with_name('profile')}", "--dump-dom", wrapper.as_uri()),
        ],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert "CONSOLE" not in done.stderr
    found = re.search(r"<pre>(.*)</pre>", done.stdout, flags=re.DOTALL)
    assert found is not None
    return json.loads(html.unescape(found[1]))  # type: ignore[no-any-return]


def assert_looks_right(page: Path) -> None:
    """Assert that nothing is wider than the page and no word is broken, at any width."""
    found = measured(page)
    assert [each["width"] for each in found] == list(WIDTHS)
    for each in found:
        assert each["overflow"] <= 0, each
        assert each["wide"] == [], each["width"]
        assert each["broken"] == [], each["width"]
