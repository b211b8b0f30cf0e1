"""The README's tables of alternatives, from the benchmark JSON.

`python docs/readme_table.py` prints them, and `--write` puts them into the README. A test compares
the two, so that the README follows new benchmark results.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
README = HERE.parent / "README.md"
BEGIN, END = "<!-- made by docs/readme_table.py: begin -->", "<!-- end -->"

STEP = "10 training steps, linear model of 1280 features"
SPARSE = "entropic: K=1000 B=100 s=5 ε=0.02"
CASES = {  # where: (file, the group of a training step, the group of a solve)
    "2-core CPU": ("cpu.json", f"{STEP}: K=1000 B=100 s=5 ε=0.02", f"{SPARSE} float64 tol=1e-06"),
    "H200": (
        "cuda.json",
        f"{STEP}, CUDA graph: K=1000 B=100 s=5 ε=0.02",
        f"{SPARSE} float64 tol=1e-06",
    ),
}
LIBRARIES = {
    "POT": "the reference for optimal transport of every kind",
    "OTT": "JAX; large single problems, low rank, Gromov-Wasserstein",
    "GeomLoss": "point clouds and images of millions of points",
}
OBJECTIVES = {
    "cross-entropy": ("all mistakes are equally bad", "`CrossEntropyLoss`"),
    "label smoothing": (
        "the same, with less confident predictions",
        "`CrossEntropyLoss(label_smoothing=…)`",
    ),
    "squared EMD": ("ordered labels; differences of cumulative sums, squared", "squared EMD"),
}


def group_of(results: dict[str, Any], title: str) -> dict[str, Any]:
    return next(group for group in results["groups"] if group["title"].startswith(title))


def median(measurement: dict[str, Any]) -> float:
    return statistics.median(measurement["seconds"]) if measurement["seconds"] else math.inf


def number(ratio: float) -> str:
    """Two significant digits, because these are timings."""
    return f"{float(f'{ratio:.2g}'):,.0f}" if ratio >= 10 else f"{ratio:.2g}"


def times(results: dict[str, Any], title: str, library: str, *, by_hand: bool) -> str:
    """The fastest call of the library that reaches the tolerance, relative to our time."""
    group = group_of(results, title)
    measured = {m["contender"]: m for m in group["measurements"]}
    # Most libraries stop by the ℓ2 norm; the ℓ1 error may be larger by this factor.
    enough = group["case"]["tol"] * math.sqrt(group["case"]["labels"])
    tried = [
        m
        for name, m in measured.items()
        if name.startswith(library) and name.endswith("support only") == by_hand
    ]
    if not tried:
        return "not run"
    reached = [median(m) for m in tried if not m["stopped_after"] and (m["error"] or 1) <= enough]
    if not reached and any(m["stopped_after"] for m in tried):
        return f"not in {group.get('limit_seconds', results['limits']['seconds']):g} s"
    if not reached:
        return "not reached"
    return f"{number(min(reached) / median(measured['wassloss']))} ×"


def both(results: dict[str, Any], title: str, library: str) -> str:
    whole, by_hand = (times(results, title, library, by_hand=hand) for hand in (False, True))
    neither = whole == by_hand and "×" not in whole
    return f"{whole}, nor by hand" if neither else f"{whole}; by hand {by_hand}"


def step_ratio(results: dict[str, Any], title: str) -> float:
    seconds = {m["contender"]: median(m) for m in group_of(results, title)["measurements"]}
    return seconds["WassersteinLoss + 0.1 KL"] / seconds["CrossEntropyLoss"]


def mean_distance(counts: list[list[int]]) -> float:
    """The mean distance of the guesses over all splits, in grades."""
    total = [sum(column) for column in zip(*counts, strict=True)]
    return sum(off * count for off, count in enumerate(total)) / sum(total)


def table() -> str:
    off_by = json.loads((HERE / "figures" / "alternatives.json").read_text())["off_by"]
    distance = {name: mean_distance(counts) for name, counts in off_by.items()}
    runs = {
        where: (json.loads((HERE / "benchmarks" / file).read_text()), step, solve)
        for where, (file, step, solve) in CASES.items()
    }
    lines = [
        "| loss | when | distance from the truth, over ours | "
        + " | ".join(f"training step over ours, {where}" for where in runs)
        + " |",
        "| --- | --- | ---: | ---: | ---: |",
    ]
    for objective, (purpose, name) in OBJECTIVES.items():
        off = f"{distance[objective] / distance['Wasserstein']:.2f} ×"
        cells = [
            f"{1 / step_ratio(run, step):.2f} ×" if objective == "cross-entropy" else "not timed"
            for run, step, _ in runs.values()
        ]
        lines.append(f"| {name} | {purpose} | {off} | {' | '.join(cells)} |")
    lines += [
        "",
        "| library | when | "
        + " | ".join(f"time to solve over ours, {where}" for where in runs)
        + " |",
        "| --- | --- | ---: | ---: |",
    ]
    for library, purpose in LIBRARIES.items():
        cells = [both(run, solve, library) for run, _, solve in runs.values()]
        lines.append(f"| {library} | {purpose} | {' | '.join(cells)} |")
    return "\n".join(lines)


def readme_with(new: str, text: str) -> str:
    """The README with its tables replaced."""
    start, end = text.index(BEGIN) + len(BEGIN), text.index(END)
    return f"{text[:start]}\n{new}\n{text[end:]}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true", help="put them into the README")
    if not parser.parse_args().write:
        print(table())
        return
    partial = README.with_suffix(".partial")
    partial.write_text(readme_with(table(), README.read_text()))
    partial.replace(README)


if __name__ == "__main__":
    main()
