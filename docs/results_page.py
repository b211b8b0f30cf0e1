"""Writes the tables and figures of docs/results/README.md from the JSON beside it.

python docs/results_page.py --write     # without, says whether the page is up to date
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path

from experiments.lab.experiment import Result
from experiments.lab.verdict_text import interval, mean_of
from experiments.registry import EXPERIMENTS
from experiments.run import load_results

FOLDER = Path(__file__).parent / "results"
BEGIN, END = "<!-- made by docs/results_page.py: begin -->\n", "<!-- end -->\n"


def made(results: Mapping[str, Result]) -> str:
    """The part of the page that follows from the results."""
    parts = [claims(results), notes(results), limits(), origins(results), figures(results)]
    return "\n".join(parts)


def claims(results: Mapping[str, Result]) -> str:
    lines = ["| experiment | claim | outcome | effect | sizes |", "| --- | --- | --- | --- | --- |"]
    for name, result in results.items():
        for v in EXPERIMENTS[name].verdict(result):
            cells = (name, v.claim, v.outcome.value, v.effect, str(result["mode"]))
            lines.append(f"| {' | '.join(cell.replace('|', '∣') for cell in cells)} |")
    return "\n".join(lines) + "\n"


def notes(results: Mapping[str, Result]) -> str:
    lines = ["## What to know about each", ""]
    for name, result in results.items():
        lines += [f"### {EXPERIMENTS[name].title} (`{name}`)", ""]
        for v in EXPERIMENTS[name].verdict(result):
            lines.append(f"- **{v.claim}**: {v.outcome.value}. {v.words}")
        lines.append("")
    return "\n".join(lines)


def limits() -> str:
    """What a regression of the cost adds to KL, from `experiments/studies/limits.py`."""
    lines = [
        "## The cost itself, regressed",
        "",
        "Cost and AUC less those of KL, of KL's logits less β times a regression of the "
        "cost (`experiments/studies/limits.py`).",
        "",
        "| set, training tags | least cost at KL's AUC | its AUC | least cost | its AUC |",
        "| --- | --- | --- | --- | --- |",
    ]
    found = json.loads((FOLDER / "limits.json").read_text(encoding="utf-8"))["sets"]
    for name, versions in found.items():
        for version, each in versions.items():
            kl = mean_of(each["scores"]["kl"], "cost")
            cells = [f"{name}, {version}"]
            for rule in ("auc", "cost"):
                gap = each["differences"].get(rule)
                if gap is None:
                    cells += ["none", ""]
                    continue
                share = {key: value / kl for key, value in gap["cost"].items()}
                cells.append(f"{share['mean']:+.1%} [{share['low']:+.1%}, {share['high']:+.1%}]")
                cells.append(interval(gap["auc"]))
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def origins(results: Mapping[str, Result]) -> str:
    lines = [
        "## How they were made",
        "",
        "| experiment | command | time | where | date |",
        "| --- | --- | --- | --- | --- |",
    ]
    for name, result in results.items():
        machine = result["machine"]
        where = machine.get("gpu", machine["cpu"])
        command = result["command"].replace("wassloss reproduce", "python -m experiments")
        if "runs" in result:  # by hand, from runs of one set each
            command = f"each set by itself, as `runs` of [`{name}.json`]({name}.json) say"
        elif len(command) > 200:  # settings of its own, which the JSON lists
            command = f"settings of its own, in [`{name}.json`]({name}.json)"
        else:
            command = f"`{command}`"
        took = f"{result['seconds']['this run']:.0f} s"
        lines.append(f"| {name} | {command} | {took} | {where} | {result['made'][:10]} |")
        if "note" in result:
            lines.append(f"| | {result['note']} | | | |")
    return "\n".join(lines) + "\n"


def figures(results: Mapping[str, Result]) -> str:
    lines = ["## Figures", ""]
    for name in results:
        paths = sorted(FOLDER.glob(f"{name}-*.png"))
        known = [p for p in paths if not any(len(n) > len(name) and p.name.startswith(f"{n}-")
                                             for n in results)]  # fmt: skip
        lines += [f"![{EXPERIMENTS[name].title}]({path.name})\n" for path in known]
    return "\n".join(lines)


def page() -> str:
    """The whole page, with what is made put between its marks."""
    text = (FOLDER / "README.md").read_text(encoding="utf-8")
    before, rest = text.split(BEGIN)
    return before + BEGIN + made(load_results(FOLDER)) + END + rest.split(END)[1]


if __name__ == "__main__":
    path = FOLDER / "README.md"
    if "--write" in sys.argv:
        path.write_text(page(), encoding="utf-8")
    elif page() != path.read_text(encoding="utf-8"):
        sys.exit(f"{path} is not what its JSON says: run python docs/results_page.py --write")
