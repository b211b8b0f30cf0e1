"""Write results as a Markdown page: `python benchmarks/table.py docs/benchmarks/cpu.json`."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import output
import summaries
from figures import duration, mark, median, ratio

EXTRA = {"iterations": "iterations", "gigabytes": "memory"}  # optional columns
LEGEND = """\
Times are medians of repeats after a warm-up, all in one run of `benchmarks/run.py`. "×" is
relative to the first row. *Error* is the largest ℓ1 error of both marginals in the batch, computed
afterwards from each contender's potentials in double precision; each gets the tolerance in its own
norm, and a smaller one where that stops it too early. One without a tolerance gets the fewest
iterations that reach ours. *Iterations* are counted as each contender does, and *memory* is the
peak on the GPU beyond the inputs. *Support only* means that the user drops by hand, outside the
timing, the columns of the cost without target mass. K is the number of labels, B of examples, s of
labels per target. Costs are squared distances between random unit vectors of {dimensions}
dimensions (unless a title says otherwise), scaled to median 1.

† stopped above the tolerance. ‡ met it in its own norm, ℓ2, but not in ℓ1, which is at most √K
times larger: its time is for an easier problem."""


def page(results: dict[str, Any]) -> str:
    facts = ", ".join(f"{key} {value}" for key, value in results["machine"].items())
    versions = ", ".join(f"{key} {value}" for key, value in results["versions"].items())
    processor = results["machine"].get("gpu", results["machine"]["cpu"])
    dimensions = results["headline"].get("dimensions", 50)  # older results have no such key
    limits = results["limits"]
    parts = [
        f"# Benchmarks on {processor}: {_title(results['suite'], dimensions)}",
        LEGEND.format(dimensions=dimensions),
        f"Machine: {facts}. Versions: {versions}. Date: {results['date']}. Limits per contender: "
        f"{limits['seconds']:g} s, {limits['gigabytes']:.1f} GB.",
    ]
    parts += summaries.of(results)
    parts += [_section(group) for group in results["groups"]]
    return "\n\n".join(parts) + "\n"


def _title(suite: str, dimensions: int) -> str:
    titles = {
        "goals": "goals",
        "growth": "growth with labels, batch, target and 1/ε",
        "points": "pairs of point clouds",
        "support": "from one target label to all",
    }
    return titles.get(suite, f"labels in {dimensions} dimensions")


def _section(group: dict[str, Any]) -> str:
    rows = group["measurements"]
    base = median(rows[0])
    extra = [key for key in EXTRA if any(row.get(key) is not None for row in rows)]
    names = ["", "time", "×", "error", *(EXTRA[key] for key in extra)]
    head = f"| {' | '.join(names)} |\n| --- {'| ---: ' * (len(names) - 1)}|".replace("|  |", "| |")
    lines = [_row(row, base, group["case"], extra) for row in rows]
    return "\n".join([f"## {group['title']}", "", head, *lines])


def _row(row: dict[str, Any], base: float, case: dict[str, Any], extra: list[str]) -> str:
    if row["not_run"]:
        return f"| {row['contender']} | {row['not_run']} | | |{' |' * len(extra)}"
    took = median(row)
    above = "> " if row["stopped_after"] else ""
    notes = []
    if row["examples"] is not None and row["examples"] < case["batch"]:
        notes.append(f"extrapolated from {row['examples']} of {case['batch']} examples")
    if row["stopped_after"]:
        notes.append(f"stopped at iteration {row['stopped_after']}")
    if row.get("asked"):
        notes.append(f"asked for {row['asked']:g}")
    note = f" ({', '.join(notes)})" if notes else ""
    error = "" if row["error"] is None else f"{row['error']:.0e}"
    time = f"{above}{duration(took)}{note}"
    times = f"{above}{ratio(took / base)}"
    shown = {"iterations": "{:d}", "gigabytes": "{:.2f} GB"}
    more = [shown[key].format(row[key]) if row.get(key) is not None else "" for key in extra]
    cells = [f"{row['contender']}{mark(row, case)}", time, times, error, *more]
    return f"| {' | '.join(cells)} |"


def write(results: dict[str, Any], path: Path) -> None:
    output.write(path.with_suffix(".md"), page(results).encode())


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("results", type=Path, help="the JSON file that run.py wrote")
    arguments = parser.parse_args()
    write(json.loads(arguments.results.read_text()), arguments.results)
