"""The drawings of the documentation: `python docs/figures/draw.py` writes them next to this file.

They are committed, so that pages show them on a code host too. Each is drawn for light and for dark
pages. Rooms and arrows are listed here; times and distances are read from JSON, and tests compare
all with what they show.
"""

from __future__ import annotations

import json
import statistics
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt
from matplotlib.axes import Axes

HERE = Path(__file__).parent
BENCHMARKS = HERE.parent / "benchmarks"
RESULTS = HERE.parent / "results"


@dataclass(frozen=True)
class Theme:
    """Colours: of the page, of text and lines, of what stands out, of a box and of a faint line."""

    page: str
    ink: str
    red: str
    box: str
    faint: str


THEMES = {
    "": Theme("white", "#333333", "#c1272d", "#f6efe6", "#dddddd"),
    "-dark": Theme("none", "#d7dbe0", "#ff7b72", "#2a2622", "#444a52"),
}
GREY, PURPLE = "#8a97a5", "#a371d0"

# From what is imported by all to what imports all: (name, what it is, left, top, width)
ROOMS = [
    ("kernels, native", "compiled passes on arrays", 0, 0, 3.0),
    ("ground", "labels → distances and costs", 3.3, 0, 3.0),
    ("targets", "class ids, dense, sparse", 6.6, 0, 3.0),
    ("transport", "problem · solver · solution", 0, 1.05, 3.0),
    ("losses", "logits → loss and gradient", 3.3, 1.05, 3.0),
    ("language", "heads of language models", 6.6, 1.05, 3.0),
    ("scores, decisions", "how good, what to answer", 0, 2.1, 3.0),
    ("models", "small networks", 3.3, 2.1, 3.0),
    ("datasets", "built-in data sets", 6.6, 2.1, 3.0),
    ("estimators", "scikit-learn's interface", 0, 3.15, 4.6),
    ("lightning", "any network, our scores", 5.0, 3.15, 4.6),
    ("app", "tables → comparison → model → report; the command line", 0, 4.2, 9.6),
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
# The picture of the README, with all sets of these kinds: which part of the results, and names.
EFFECT = {
    "Networks on taxonomies, nothing tuned": ("untouched", {
        "tiny-imagenet-450": "Tiny ImageNet, 450 images per class",
        "tiny-imagenet-50": "Tiny ImageNet, 50 images per class",
        "definitions-transformer": "10 000 definitions, transformer",
        "definitions-3000": "3000 definitions, bag of words",
        "definitions-3000-paths": "the same, lengths of paths",
        "definitions-10000": "10 000 definitions, bag of words",
        "definitions-10000-paths": "the same, lengths of paths",
        "definitions-40000": "40 000 definitions, bag of words",
        "definitions-40000-paths": "the same, lengths of paths",
    }),
    "Ordered labels, all tuned alike": ("tuned", {
        "abalone": "abalone", "boston": "Boston housing", "california": "California housing",
        "cement": "cement", "machine": "computers", "stock": "stock prices",
        "grades": "patients' grades", "digits": "digits",
    }),
}  # fmt: skip
FARTHEST, EDGE = 12, 19  # per cent; marks farther than the first are written at the edge
SPEED_CASE = "entropic: K=1000 B=100 s=5 ε=0.02 float32 tol=1e-05"


def box(
    theme: Theme, axes: Axes, x: float, y: float, width: float, height: float, name: str, text: str
) -> None:
    patch = mpl.patches.FancyBboxPatch(
        (x, y),
        width,
        height,
        "round,pad=0,rounding_size=0.12",
        facecolor=theme.box,
        edgecolor=theme.ink,
    )
    axes.add_patch(patch)
    middle = x + width / 2
    axes.text(middle, y + 0.26, name, ha="center", va="center", weight="bold", color=theme.red)
    axes.text(middle, y + 0.42, text, ha="center", va="top", color=theme.ink, fontsize=8.5)


def blank(width: float, height: float) -> tuple[Any, Axes]:
    figure, axes = plt.subplots(figsize=(width * 0.85, height * 0.85), layout="constrained")
    axes.set_xlim(-0.1, width + 0.1)
    axes.set_ylim(height + 0.1, -0.1)
    axes.set_aspect("equal")
    axes.axis("off")
    return figure, axes


def draw_rooms(theme: Theme) -> Any:
    figure, axes = blank(11.2, 5.1)
    for name, text, x, y, width in ROOMS:
        box(theme, axes, x, y, width, 0.85, name, text)
    arrow = {"arrowstyle": "-|>", "color": theme.ink, "linewidth": 1.2}
    axes.annotate("", (10.1, 0.1), (10.1, 5.0), arrowprops=arrow)
    axes.text(10.3, 2.6, "imports point up", rotation=90, va="center", color=theme.ink)
    return figure


def draw_batch(theme: Theme) -> Any:
    figure, axes = blank(13.0, 2.9)
    width, step = 1.85, 2.2
    arrow = {"arrowstyle": "-|>", "color": theme.ink, "linewidth": 1.2}
    for place, (name, text) in enumerate(PATH):
        box(theme, axes, place * step, 0, width, 1.35, name, text)
        if place:
            x = place * step
            axes.annotate("", (x, 0.67), (x - step + width, 0.67), arrowprops=arrow)
    short = {**arrow, "color": theme.red, "connectionstyle": "arc3,rad=0.14"}
    start, end = width / 2, 4 * step + width / 2
    axes.annotate("", (end, 1.4), (start, 1.4), arrowprops=short)
    text = "a compiled kernel does all of this for a batch, or hands the batch back"
    axes.text((start + end) / 2, 2.5, text, ha="center", va="center", color=theme.red, fontsize=9)
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


def draw_speed(theme: Theme) -> Any:
    seconds = timings(SPEED_CASE)
    figure, axes = plt.subplots(figsize=(8, 3.2), layout="constrained")
    times = [1000 * seconds[name] for name in CONTENDERS]
    colours = [theme.red if name == "wassloss" else GREY for name in CONTENDERS]
    axes.scatter(times, list(CONTENDERS.values()), color=colours, s=60, zorder=2)
    axes.hlines(range(len(times)), 1, times, color=theme.faint, zorder=1)
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


def changes(part: str, name: str) -> dict[str, float]:
    """The mean distance of each loss and decision in % of that of cross-entropy, minus 100."""
    found = json.loads((RESULTS / "networks.json").read_text())["found"][part][name]["scores"]
    ours = "default" if part == "untouched" else "w"

    def of(loss: str, least_cost: bool) -> list[float]:
        tuned_for = f"least cost: {loss}" if least_cost and part == "tuned" else loss
        return found[tuned_for]["least cost: distance" if least_cost else "distance"]

    distances = {
        "cross-entropy, least-cost decisions": of("ce", True),
        "Wasserstein": of(ours, False),
        "Wasserstein, least-cost decisions": of(ours, True),
    }
    if "ridge" in found:
        distances["ridge regression, rounded"] = of("ridge", False)
    before = fmean(of("ce", False))
    return {name: 100 * (fmean(each) / before - 1) for name, each in distances.items()}


def draw_effect(theme: Theme) -> Any:
    marks = {
        "cross-entropy, least-cost decisions": ("s", GREY, GREY),
        "Wasserstein": ("o", theme.red, theme.red),
        "Wasserstein, least-cost decisions": ("s", "none", theme.red),
        "ridge regression, rounded": ("D", PURPLE, PURPLE),
    }
    figure, axes = plt.subplots(figsize=(8, 6.2), layout="constrained")
    row, ticks = 0.0, {}
    for title, (part, sets) in EFFECT.items():
        axes.text(
            -0.01,
            row,
            title,
            ha="right",
            va="center",
            weight="bold",
            transform=axes.get_yaxis_transform(),
        )
        for name, words in sets.items():
            row += 1
            ticks[row] = words
            axes.axhline(row, color=theme.faint, lw=0.8, zorder=0)
            for what, change in changes(part, name).items():
                mark, face, edge = marks[what]
                size, z = (13, 1) if mark == "D" else (9, 2)  # a loss may be level with it
                if change > FARTHEST:
                    axes.text(EDGE, row, f"+{change:.0f} % ▸", ha="right", va="center", color=edge)
                    continue
                axes.plot(change, row, mark, mfc=face, mec=edge, mew=1.8, ms=size, zorder=z)
        row += 1.4
    axes.axvline(0, color=theme.ink, lw=1.2)
    axes.set_yticks(list(ticks), list(ticks.values()))
    axes.set_ylim(row - 0.8, -0.6)
    axes.set_xlim(-EDGE, EDGE)
    axes.set_xlabel("mean distance from the truth, change in %")
    axes.text(0, -0.75, "cross-entropy", ha="center", va="bottom")
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.tick_params(left=False)
    handles = [
        mpl.lines.Line2D([], [], ls="", marker=mark, mfc=face, mec=edge, mew=1.8, ms=9, label=what)
        for what, (mark, face, edge) in marks.items()
    ]
    figure.legend(handles=handles, frameon=False, ncols=2, loc="outside lower center")
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
    inked = ("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color")
    for suffix, theme in THEMES.items():
        mpl.rcParams.update(dict.fromkeys(inked, theme.ink))
        mpl.rcParams["axes.facecolor"] = "none"
        for name, draw in drawings.items():
            partial = HERE / f"{name}.partial"
            draw(theme).savefig(
                partial, format="svg", metadata={"Date": None}, facecolor=theme.page
            )
            partial.replace(HERE / f"{name}{suffix}.svg")
            plt.close("all")


if __name__ == "__main__":
    main()
