"""Write results as a Markdown page: `python benchmarks/table.py docs/benchmarks/cpu.json`."""

from __future__ import annotations

import argparse
import json
import math
import statistics
from pathlib import Path
from typing import Any

import output

LEGEND = """\
Times are medians of repeats after a warm-up, all in one run of `benchmarks/run.py`. "×" is
relative to the first row. *Error* is the largest ℓ1 error of both marginals in the batch, computed
afterwards from each contender's potentials in double precision; each gets the tolerance in its own
norm. *Support only* means that the user drops by hand, outside the timing, the columns of the cost
without target mass. K is the number of labels, B of examples, s of labels per target. Costs are
squared distances between random unit vectors of {dimensions} dimensions (unless a title says
otherwise), scaled to median 1.

† stopped above the tolerance. ‡ met it in its own norm, ℓ2, but not in ℓ1, which is at most √K
times larger: its time is for an easier problem."""


def page(results: dict[str, Any]) -> str:
    facts = ", ".join(f"{key} {value}" for key, value in results["machine"].items())
    versions = ", ".join(f"{key} {value}" for key, value in results["versions"].items())
    processor = results["machine"].get("gpu", results["machine"]["cpu"])
    dimensions = results["headline"].get("dimensions", 50)  # older results all have 50
    limits = results["limits"]
    parts = [
        f"# Benchmarks on {processor}: labels in {dimensions} dimensions",
        LEGEND.format(dimensions=dimensions),
        f"Machine: {facts}. Versions: {versions}. Date: {results['date']}. Limits per contender: "
        f"{limits['seconds']:g} s, {limits['gigabytes']:.1f} GB.",
    ]
    parts += [_section(group) for group in results["groups"]]
    return "\n\n".join(parts) + "\n"


def _section(group: dict[str, Any]) -> str:
    rows = group["measurements"]
    base = _median(rows[0])
    head = "| | time | × | error |\n| --- | ---: | ---: | ---: |"
    lines = [_row(row, base, group["case"]) for row in rows]
    return "\n".join([f"## {group['title']}", "", head, *lines])


def _row(row: dict[str, Any], base: float, case: dict[str, Any]) -> str:
    if row["not_run"]:
        return f"| {row['contender']} | {row['not_run']} | | |"
    median = _median(row)
    above = "> " if row["stopped_after"] else ""
    notes = []
    if row["examples"] is not None and row["examples"] < case["batch"]:
        notes.append(f"extrapolated from {row['examples']} of {case['batch']} examples")
    if row["stopped_after"]:
        notes.append(f"stopped at iteration {row['stopped_after']}")
    note = f" ({', '.join(notes)})" if notes else ""
    error = "" if row["error"] is None else f"{row['error']:.0e}"
    time = f"{above}{duration(median)}{note}"
    ratio = f"{above}{_ratio(median / base)}"
    return f"| {row['contender']}{mark(row, case)} | {time} | {ratio} | {error} |"


def mark(row: dict[str, Any], case: dict[str, Any]) -> str:
    """Empty if the tolerance was reached; NaN counts as not reached."""
    error, tol = row["error"], case["tol"]
    if error is None or error <= tol:
        return ""
    return " ‡" if error <= tol * math.sqrt(case["labels"]) else " †"


def duration(seconds: float) -> str:
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= size:
            return f"{_digits(seconds / size)} {unit}"
    return f"{_digits(seconds / 1e-6)} µs"


def _digits(x: float) -> str:
    return f"{x:.0f}" if x >= 100 else f"{x:.1f}" if x >= 10 else f"{x:.2f}"


def _ratio(x: float) -> str:
    return "" if math.isnan(x) else f"{x:,.0f}" if x >= 10 else f"{x:.1f}" if x >= 2 else f"{x:.2f}"


def _median(row: dict[str, Any]) -> float:
    return statistics.median(row["seconds"]) if row["seconds"] else math.nan


def write(results: dict[str, Any], path: Path) -> None:
    output.write(path.with_suffix(".md"), page(results).encode())


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("results", type=Path, help="the JSON file that run.py wrote")
    arguments = parser.parse_args()
    write(json.loads(arguments.results.read_text()), arguments.results)
