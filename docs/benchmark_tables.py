"""The tables of the pages on speed, from the JSON that `benchmarks/run.py` wrote.

`python docs/benchmark_tables.py --write` puts them between their marks in the pages; without it the
command says which pages are behind the JSON. A test compares the two.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "benchmarks"))

import summaries  # noqa: E402

PAGES = (
    HERE / "benchmarks" / "README.md",
    HERE / "developers" / "performance.md",
    HERE / "performance.md",
)
MARK = re.compile(
    r"(<!-- made by docs/benchmark_tables\.py: (?P<table>\w+) (?P<files>[\w, -]+?) -->\n)"
    r".*?(?=<!-- end -->)",
    re.DOTALL,
)
TABLES: dict[str, Callable[[dict[str, Any]], list[str]]] = {
    "goals": summaries.goals_table,
    "points": summaries.points_table,
    "support": summaries.support_table,
    "headlines": summaries.headlines,
    "training": summaries.training,
    "losses": summaries.losses,
}
NOTHING = {"losses": "None in these files."}


def table(name: str, files: list[str], folder: Path, below: str) -> list[str]:
    """A table, of several files one after the other; or how to measure what is missing.

    `below` leads from the page to the folder of results.
    """
    lines: list[str] = []
    for file in files:
        path = folder / f"{file}.json"
        if not path.exists():
            lines += [f"Not measured yet: `{command(file)}`.", ""]
            continue
        results = json.loads(path.read_text())
        made = TABLES[name](results) or [NOTHING.get(name, "")]
        about = f"{processor(results)}, {results['date']}; [all rows]({below}{file}.md):"
        lines += [about, "", *made, ""]
    return lines


def processor(results: dict[str, Any]) -> str:
    facts = results["machine"]
    return str(facts.get("gpu") or f"{facts['cpu']}, {facts['cores']} cores")


def command(file: str) -> str:
    device, _, suite = file.partition("-")
    return f"python benchmarks/run.py --suite {suite or 'full'} --device {device}"


def written(text: str, folder: Path, below: str) -> str:
    """A page with its tables replaced."""

    def replaced(match: re.Match[str]) -> str:
        files = [file.strip() for file in match["files"].split(",")]
        lines = "\n".join(table(match["table"], files, folder, below)).rstrip()
        return f"{match[1]}\n{lines}\n\n"

    return MARK.sub(replaced, text)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="put the tables into the pages")
    write, behind = parser.parse_args().write, 0
    for page in PAGES:
        text = page.read_text()
        new = written(text, HERE / "benchmarks", below_of(page))
        if new != text:
            behind += 1
            print(f"{page.name}: {'written' if write else 'behind its JSON'}")
            if write:
                partial = page.with_suffix(".partial")
                partial.write_text(new)
                partial.replace(page)
    return 0 if write else behind


def below_of(page: Path) -> str:
    return {"benchmarks": "", "developers": "../benchmarks/"}.get(page.parent.name, "benchmarks/")


if __name__ == "__main__":
    sys.exit(main())
