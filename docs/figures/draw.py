"""The drawings of the documentation: `python docs/figures/draw.py` writes them beside this file.

They are committed, so that pages show them on a code host too. Rooms and arrows are listed here;
times and shares are read from JSON, and tests compare all with what they show.
"""

from __future__ import annotations

import json
import statistics
from itertools import pairwise
from pathlib import Path
from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt
from matplotlib.axes import Axes

HERE = Path(__file__).parent
BENCHMARKS = HERE.parent / "benchmarks"
INK, RED, PALE = "#333333", "#c1272d", "#f6efe6"

# From what is imported by all to what imports all: (name, what it is, left, top, width)
ROOMS = [
    ("kernels", "compiled passes on arrays", 0, 0, 3.0),
    ("ground", "labels → distances and costs", 3.3, 0, 3.0),
    ("targets", "class ids, dense, sparse", 6.6, 0, 3.0),
    ("transport", "problem · solver · solution", 0, 1.05, 4.6),
    ("losses", "logits → loss and gradient", 5.0, 1.05, 4.6),
    ("scores", "how bad, how well ranked", 0, 2.1, 3.0),
    ("models", "small networks", 3.3, 2.1, 3.0),
    ("data", "files → data sets", 6.6, 2.1, 3.0),
    ("training", "one loop, checkpoints", 0, 3.15, 3.0),
    ("estimators", "scikit-learn's interface", 3.3, 3.15, 3.0),
    ("runs", "what a run leaves behind", 6.6, 3.15, 3.0),
    ("report", "results on one page", 0, 4.2, 4.6),
    ("demo, cli", "the command line", 5.0, 4.2, 4.6),
]
PATH = [
    ("logits, target", "(batch, labels)"),
    ("Problem", "log softmax; the\ntarget's columns\nof the cost"),
    ("solver", "choose_solver:\nclosed form, Newton\nor Sinkhorn"),
    ("Solution", "value, f, g,\nstatus"),
    ("loss", "value, with h ⊙ f\nas its gradient;\n+ kl_weight · KL"),
    ("mean", "weights,\nreduction"),
]
CONTENDERS = {
    "wassloss": "wassloss",
    "OTT vmap, log domain, support only": "OTT, support picked by hand",
    "GEMM Sinkhorn (float64)": "matrix products",
    "POT solve_batch, support only": "POT solve_batch, support by hand",
    "OTT vmap, log domain": "OTT",
    "POT solve_batch": "POT solve_batch",
    "GeomLoss solve_batch": "GeomLoss",
}
# How far off, in grades: from this many on, its name and colour.
OFF_BY = {
    0: ("right", "#3d8c40"),
    1: ("1", "#a9c77c"),
    2: ("2", "#f2d16b"),
    3: ("3 or 4", "#e38b2e"),
    5: ("5 or more grades off", "#c1272d"),
}
SPEED_CASE = "entropic: K=1000 B=100 s=5 ε=0.02 float32 tol=1e-05"


def box(axes: Axes, x: float, y: float, width: float, height: float, name: str, text: str) -> None:
    patch = mpl.patches.FancyBboxPatch(
        (x, y), width, height, "round,pad=0,rounding_size=0.12", facecolor=PALE, edgecolor=INK
    )
    axes.add_patch(patch)
    middle = x + width / 2
    axes.text(middle, y + 0.26, name, ha="center", va="center", weight="bold", color=RED)
    axes.text(middle, y + 0.42, text, ha="center", va="top", color=INK, fontsize=8.5)


def blank(width: float, height: float) -> tuple[Any, Axes]:
    figure, axes = plt.subplots(figsize=(width * 0.85, height * 0.85), layout="constrained")
    axes.set_xlim(-0.1, width + 0.1)
    axes.set_ylim(height + 0.1, -0.1)
    axes.set_aspect("equal")
    axes.axis("off")
    return figure, axes


def draw_rooms() -> Any:
    figure, axes = blank(11.2, 5.1)
    for name, text, x, y, width in ROOMS:
        box(axes, x, y, width, 0.85, name, text)
    arrow = {"arrowstyle": "-|>", "color": INK, "linewidth": 1.2}
    axes.annotate("", (10.1, 0.1), (10.1, 5.0), arrowprops=arrow)
    axes.text(10.3, 2.6, "imports point up", rotation=90, va="center", color=INK)
    return figure


def draw_batch() -> Any:
    figure, axes = blank(13.0, 2.9)
    width, step = 1.85, 2.2
    arrow = {"arrowstyle": "-|>", "color": INK, "linewidth": 1.2}
    for place, (name, text) in enumerate(PATH):
        box(axes, place * step, 0, width, 1.35, name, text)
        if place:
            x = place * step
            axes.annotate("", (x, 0.67), (x - step + width, 0.67), arrowprops=arrow)
    short = {**arrow, "color": RED, "connectionstyle": "arc3,rad=0.14"}
    start, end = width / 2, 4 * step + width / 2
    axes.annotate("", (end, 1.4), (start, 1.4), arrowprops=short)
    text = (
        "class ids and sparse targets: one fused kernel does all of this, or hands the batch back"
    )
    axes.text((start + end) / 2, 2.5, text, ha="center", va="center", color=RED, fontsize=9)
    return figure


def timings(title: str) -> dict[str, float]:
    """Median seconds of each contender in a group of the benchmark."""
    results = json.loads((BENCHMARKS / "cuda-50-dimensions.json").read_text())
    group = next(g for g in results["groups"] if g["title"].startswith(title))
    found = {}
    for measurement in group["measurements"]:
        if measurement["seconds"]:
            found[measurement["contender"]] = statistics.median(measurement["seconds"])
    return found


def draw_speed() -> Any:
    seconds = timings(SPEED_CASE)
    figure, axes = plt.subplots(figsize=(8, 3.2), layout="constrained")
    times = [1000 * seconds[name] for name in CONTENDERS]
    colours = [RED if name == "wassloss" else "#9aa7b4" for name in CONTENDERS]
    axes.scatter(times, list(CONTENDERS.values()), color=colours, s=60, zorder=2)
    axes.hlines(range(len(times)), 1, times, color="#dddddd", zorder=1)
    for row, time in enumerate(times):
        axes.text(
            time * 1.2,
            row,
            f"{time:,.3g} ms" if time < 1000 else f"{time / 1000:.2g} s",
            va="center",
        )
    axes.invert_yaxis()
    axes.set_xscale("log")
    axes.set_xlim(1, max(times) * 4)
    axes.set_xlabel("milliseconds a batch, called from Python (log scale)")
    axes.spines[["top", "right"]].set_visible(False)
    return figure


def shares(counts: list[list[int]]) -> list[float]:
    """Per cent of the guesses of all splits in each class of `OFF_BY`."""
    total = [sum(column) for column in zip(*counts, strict=True)]
    edges = [*OFF_BY, len(total)]
    return [100 * sum(total[low:high]) / sum(total) for low, high in pairwise(edges)]


def draw_effect() -> Any:
    off_by = json.loads((HERE / "alternatives.json").read_text())["off_by"]
    names = ["cross-entropy", "label smoothing", "squared EMD", "Wasserstein"]
    figure, axes = plt.subplots(figsize=(8, 2.9), layout="constrained")
    for row, name in enumerate(names):
        left = 0.0
        for (what, colour), width in zip(OFF_BY.values(), shares(off_by[name]), strict=True):
            label = what if row == 0 else None
            axes.barh(row, width, left=left, color=colour, height=0.72, label=label)
            ink = "white" if colour in ("#3d8c40", "#c1272d") else INK
            middle = left + width / 2
            axes.text(middle, row, f"{width:.0f} %", ha="center", va="center", color=ink)
            left += width
    axes.set_yticks(range(len(names)), names)
    axes.get_yticklabels()[-1].set(weight="bold", color=RED)
    axes.invert_yaxis()
    axes.set_xlim(0, 100)
    axes.set_xlabel("% of patients not seen in training, by how far off the predicted grade is")
    axes.legend(frameon=False, ncols=5, loc="lower center", bbox_to_anchor=(0.45, 1.0))
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.tick_params(left=False)
    return figure


def main() -> None:
    mpl.use("svg")
    # The same bytes each time: no date, no random names; text as text, to be found and read out.
    mpl.rcParams.update({"svg.hashsalt": "wassloss", "svg.fonttype": "none"})
    drawings = {
        "rooms": draw_rooms,
        "batch": draw_batch,
        "speed": draw_speed,
        "effect": draw_effect,
    }
    for name, draw in drawings.items():
        partial = HERE / f"{name}.partial"
        draw().savefig(partial, format="svg", metadata={"Date": None}, facecolor="white")
        partial.replace(HERE / f"{name}.svg")
        plt.close("all")


if __name__ == "__main__":
    main()
