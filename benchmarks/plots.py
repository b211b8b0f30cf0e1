"""Plot time against each quantity: `python benchmarks/plots.py docs/benchmarks/cpu.json`.

Draws `cpu-labels.png` and so on next to the JSON, from the JSON alone.
"""

from __future__ import annotations

import argparse
import io
import json
import math
import statistics
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import output
import table
from matplotlib.axes import Axes

OURS = "wassloss"
HELPED = ", support only"
QUANTITIES = {
    "labels": "labels K",
    "batch": "examples B",
    "support": "labels in a target s",
    "epsilon": "1/ε",
}
COLOURS = {
    OURS: "#c1272d",
    "POT sinkhorn, loop": "#1f5fa8",
    "POT solve_batch": "#4f9bd9",
    "GeomLoss solve_batch": "#3d8c40",
    "OTT vmap, log domain": "#7b4ea3",
    "OTT vmap, kernel": "#b07cc6",
    "GEMM Sinkhorn (float64)": "#8a6d3b",
}
LEGEND = (
    "filled: tolerance reached   hollow: not reached   ▲ stopped at the time limit   "
    "× extrapolated   dashed: support picked by hand"
)
LABEL_GAP = 0.042  # share of the axis height between the labels at the ends of lines


@dataclass(frozen=True)
class Point:
    """One time and whether it was reached."""

    x: float
    seconds: float
    marker: str
    reached: bool


@dataclass
class Line:
    """One contender's points."""

    name: str
    points: list[Point] = field(default_factory=list)

    @property
    def colour(self) -> str:
        return COLOURS.get(self.name.removesuffix(HELPED), "#555555")

    @property
    def style(self) -> str:
        return "--" if self.name.endswith(HELPED) else "-"


def lines(results: dict[str, Any], quantity: str) -> list[Line]:
    """Each contender's times in the cases that differ from the headline in one quantity."""
    found: dict[str, Line] = {}
    for group in results["groups"]:
        case = group["case"]
        others = {k: v for k, v in results["headline"].items() if k != quantity}
        if group["kind"] != "entropic" or any(case[k] != v for k, v in others.items()):
            continue
        x = 1 / case["epsilon"] if quantity == "epsilon" else case[quantity]
        for row in group["measurements"]:
            if row["seconds"]:
                name = row["contender"]
                found.setdefault(name, Line(name)).points.append(_point(x, row, case))
    for line in found.values():
        line.points.sort(key=lambda point: point.x)
    return list(found.values())


def _point(x: float, row: dict[str, Any], case: dict[str, Any]) -> Point:
    extrapolated = row["examples"] is not None and row["examples"] < case["batch"]
    marker = "^" if row["stopped_after"] else "X" if extrapolated else "o"
    reached = "†" not in table.mark(row, case)
    return Point(x, statistics.median(row["seconds"]), marker, reached)


def draw(results: dict[str, Any], quantity: str) -> bytes | None:
    """A PNG, or None if there is nothing to compare."""
    drawn = lines(results, quantity)
    xs = sorted({point.x for line in drawn for point in line.points})
    if len(xs) < 2:
        return None
    figure, ax = plt.subplots(figsize=(9.5, 6.2))
    for line in drawn:
        _draw_line(ax, line)
    ax.set(xscale="log", yscale="log", xlabel=QUANTITIES[quantity], ylabel="seconds, whole batch")
    ax.set_xticks(xs, [f"{x:,.0f}" for x in xs], minor=False)
    ax.set_xticks([], minor=True)
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(axis="y", color="#e4e4e4", linewidth=0.8)
    ax.set_axisbelow(True)
    _label_ends(ax, drawn)
    ax.set_title(_title(results, quantity), loc="left", fontsize=11)
    figure.text(0.01, 0.01, LEGEND, fontsize=8, color="#555555")
    figure.subplots_adjust(left=0.09, right=0.7, top=0.92, bottom=0.13)
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=150)
    plt.close(figure)
    return buffer.getvalue()


def _draw_line(ax: Axes, line: Line) -> None:
    width, order = (2.6, 5) if line.name == OURS else (1.3, 3)
    xs, ys = zip(*[(p.x, p.seconds) for p in line.points], strict=True)
    ax.plot(xs, ys, line.style, color=line.colour, linewidth=width, zorder=order)
    for point in line.points:
        ax.plot(
            point.x,
            point.seconds,
            point.marker,
            markersize=7 if point.marker != "o" else 5.5,
            markeredgecolor=line.colour,
            markerfacecolor=line.colour if point.reached else "white",
            zorder=order + 1,
        )


def _label_ends(ax: Axes, drawn: list[Line]) -> None:
    """Names in the right margin, spread apart and connected to the ends of their lines."""
    low, high = (math.log10(y) for y in ax.get_ylim())
    ends = sorted(drawn, key=lambda line: line.points[-1].seconds)
    wanted = [(math.log10(line.points[-1].seconds) - low) / (high - low) for line in ends]
    for line, height in zip(ends, _spread(wanted), strict=True):
        end = line.points[-1]
        ax.annotate(
            line.name,
            (end.x, end.seconds),
            xytext=(1.03, height),
            textcoords="axes fraction",
            va="center",
            fontsize=9,
            color=line.colour,
            fontweight="bold" if line.name == OURS else "normal",
            arrowprops={
                "arrowstyle": "-",
                "color": line.colour,
                "alpha": 0.35,
                "linewidth": 0.8,
                "relpos": (0, 0.5),  # from the start of the text, not its middle
            },
        )


def _spread(heights: list[float]) -> list[float]:
    """The nearest heights that are at least a gap apart and within the axis."""
    placed: list[float] = []
    for height in heights:
        placed.append(max(height, placed[-1] + LABEL_GAP) if placed else height)
    ceiling = 1.0
    for i in reversed(range(len(placed))):
        placed[i] = min(placed[i], ceiling)
        ceiling = placed[i] - LABEL_GAP
    return placed


def _title(results: dict[str, Any], quantity: str) -> str:
    head = results["headline"]
    names = {"labels": "K", "batch": "B", "support": "s", "epsilon": "ε"}
    fixed = ", ".join(f"{n} = {head[k]:g}" for k, n in names.items() if k != quantity)
    where = results["machine"].get("gpu") or (
        f"{results['machine']['cpu']}, torch threads: {results['machine']['torch_threads']}"
    )
    return f"{fixed}, {head['dtype']}, tolerance {head['tol']:g}; {where}"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("results", type=Path, help="the JSON file that run.py wrote")
    source = parser.parse_args().results
    for quantity in QUANTITIES:
        picture = draw(json.loads(source.read_text()), quantity)
        if picture is not None:
            path = source.with_name(f"{source.stem}-{quantity}.png")
            output.write(path, picture)
            print(path)
