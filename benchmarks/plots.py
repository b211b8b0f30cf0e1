"""Plot time against each quantity: `python benchmarks/plots.py docs/benchmarks/cpu.json`.

Draws `cpu-labels.png` and so on next to the JSON; for the suites `points` and `support`,
`cpu-points-3d-0.1.png` and so on, and `cpu-support-growth.png`.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import figures
import matplotlib.pyplot as plt
import output
from matplotlib.axes import Axes
from matplotlib.colors import to_hex

OURS = "wassloss"
HELPED = ", support only"
QUANTITIES = {
    "labels": "labels K",
    "batch": "examples B",
    "support": "labels in a target s",
    "epsilon": "1/ε",
    "points": "points in each cloud",
}
COLOURS = {
    OURS: "#c1272d",
    "POT sinkhorn, loop": "#1f5fa8",
    "POT solve_batch": "#4f9bd9",
    "GeomLoss solve_batch": "#3d8c40",
    "OTT vmap, log domain": "#7b4ea3",
    "OTT vmap, kernel": "#b07cc6",
    "GEMM Sinkhorn (float64)": "#8a6d3b",
    "FlashSinkhorn": "#e07b00",
    "FlashSinkhorn, TF32": "#f2b134",
    "OTT PointCloud, online": "#7b4ea3",
    "mdot-tnt, batched": "#16807a",
    "POT solve_batch, proximal": "#8fb8de",
    "cuRegOT sinkhorn_bcd": "#b5426e",
    "cuRegOT sinkhorn_splr": "#d98cab",
    "float32, B=100, launched": "#e07b00",
    "float32, B=1024, launched": "#c1272d",
    "float64, B=100, launched": "#4f9bd9",
    "float64, B=1024, launched": "#1f5fa8",
    "float32, B=100, graph": "#3d8c40",
    "float32, B=1024, graph": "#16807a",
}
LEGEND = (
    "filled: tolerance reached   hollow: not reached   ▲ stopped at the time limit   "
    "× extrapolated   dashed: support picked by hand"
)
NARROWEST = 1.25  # smallest ratio of two labelled ticks
LABEL_GAP = 0.042  # between labels at the ends of lines, as a share of the axis


@dataclass(frozen=True)
class Point:
    """One time, and whether the tolerance was reached."""

    x: float
    seconds: float
    marker: str
    reached: bool


def _other_colour(name: str) -> str:
    """Return one of eight colours, always the same for a name."""
    return to_hex(plt.get_cmap("Dark2")(zlib.crc32(name.encode()) % 8))


@dataclass
class Line:
    """One contender's points."""

    name: str
    points: list[Point] = field(default_factory=list)

    @property
    def colour(self) -> str:
        return COLOURS.get(self.name.removesuffix(HELPED)) or _other_colour(self.name)

    @property
    def style(self) -> str:
        return "--" if self.name.endswith(HELPED) else "-"


@dataclass(frozen=True)
class Picture:
    """One picture: the quantity that varies, the fixed ones, and the names of lines."""

    name: str
    quantity: str
    fixed: dict[str, Any]
    title: str
    label: Callable[[dict[str, Any], str], str] = lambda case, contender: contender

    def shows(self, group: dict[str, Any]) -> bool:
        case = group["case"]
        return group["kind"] == "entropic" and all(case[k] == v for k, v in self.fixed.items())


def pictures(results: dict[str, Any]) -> list[Picture]:
    """The pictures of a suite."""
    if results["suite"] == "points":
        cases = [group["case"] for group in results["groups"]]
        kinds = dict.fromkeys((case["dimensions"], case["epsilon"]) for case in cases)
        return [
            Picture(
                f"{dimensions}d-{epsilon:g}",
                "points",
                {"dimensions": dimensions, "epsilon": epsilon},
                f"one pair of point clouds in {dimensions} dimensions, ε = {epsilon:g}",
            )
            for dimensions, epsilon in kinds
        ]
    if results["suite"] == "support":
        return [Picture("growth", "support", {}, "loss and gradient, K = 1000, ε = 0.02", _variant)]
    head = results["headline"]
    return [
        Picture(
            quantity, quantity, {k: v for k, v in head.items() if k != quantity},
            _title(head, quantity),
        )
        for quantity in QUANTITIES if quantity != "points"
    ]  # fmt: skip


def _variant(case: dict[str, Any], contender: str) -> str:
    way = "graph" if contender.endswith("graph") else "launched"
    return f"{case['dtype']}, B={case['batch']}, {way}"


def lines(results: dict[str, Any], picture: Picture) -> list[Line]:
    """Each contender's times in the cases of a picture."""
    found: dict[str, Line] = {}
    for group in results["groups"]:
        if not picture.shows(group):
            continue
        case = group["case"]
        key = "labels" if picture.quantity == "points" else picture.quantity
        x = 1 / case["epsilon"] if key == "epsilon" else case[key]
        for row in group["measurements"]:
            if row["seconds"]:
                name = picture.label(case, row["contender"])
                found.setdefault(name, Line(name)).points.append(_point(x, row, case))
    for line in found.values():
        line.points.sort(key=lambda point: point.x)
    return list(found.values())


def _point(x: float, row: dict[str, Any], case: dict[str, Any]) -> Point:
    extrapolated = row["examples"] is not None and row["examples"] < case["batch"]
    marker = "^" if row["stopped_after"] else "X" if extrapolated else "o"
    reached = "†" not in figures.mark(row, case)
    return Point(x, statistics.median(row["seconds"]), marker, reached)


def draw(results: dict[str, Any], picture: Picture) -> bytes | None:
    """Return a PNG, or None if there is nothing to compare."""
    drawn = lines(results, picture)
    xs = sorted({point.x for line in drawn for point in line.points})
    if len(xs) < 2:
        return None
    figure, ax = plt.subplots(figsize=(9.5, 6.2))
    for line in drawn:
        _draw_line(ax, line)
    ax.set(
        xscale="log",
        yscale="log",
        xlabel=QUANTITIES[picture.quantity],
        ylabel="seconds, whole batch",
    )
    ax.set_xticks(xs, _tick_labels(xs), minor=False)
    ax.set_xticks([], minor=True)
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(axis="y", color="#e4e4e4", linewidth=0.8)
    ax.set_axisbelow(True)
    _label_ends(ax, drawn)
    ax.set_title(f"{picture.title}; {_machine(results)}", loc="left", fontsize=11)
    figure.text(0.01, 0.01, LEGEND, fontsize=8, color="#555555")
    figure.subplots_adjust(left=0.09, right=0.7, top=0.92, bottom=0.13)
    plt.close(figure)
    return output.png(figure, dpi=150)


def _tick_labels(xs: list[float]) -> list[str]:
    """Format each number, dropping those that would overlap the one before."""
    labels: list[str] = []
    last = 0.0
    for x in xs:
        clear = x > last * NARROWEST
        last = x if clear else last
        labels.append(f"{x:,.0f}" if clear else "")
    return labels


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
    """Write names in the right margin, spread apart and connected to the ends of their lines."""
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
    """Return the nearest heights within the axis that are at least a gap apart."""
    placed: list[float] = []
    for height in heights:
        placed.append(max(height, placed[-1] + LABEL_GAP) if placed else height)
    ceiling = 1.0
    for i in reversed(range(len(placed))):
        placed[i] = min(placed[i], ceiling)
        ceiling = placed[i] - LABEL_GAP
    return placed


def _title(head: dict[str, Any], quantity: str) -> str:
    names = {"labels": "K", "batch": "B", "support": "s", "epsilon": "ε"}
    fixed = ", ".join(f"{n} = {head[k]:g}" for k, n in names.items() if k != quantity)
    return f"{fixed}, {head['dtype']}, tolerance {head['tol']:g}"


def _machine(results: dict[str, Any]) -> str:
    facts = results["machine"]
    return facts.get("gpu") or f"{facts['cpu']}, torch threads: {facts['torch_threads']}"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("results", type=Path, help="the JSON file that run.py wrote")
    source = parser.parse_args().results
    record = json.loads(source.read_text())
    for each in pictures(record):
        drawn = draw(record, each)
        if drawn is not None:
            path = source.with_name(f"{source.stem}-{each.name}.png")
            output.write(path, drawn)
            print(path)
