"""Style of figures: colours that colour-blind readers can distinguish, sizes in a footer."""

from __future__ import annotations

from io import BytesIO
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe and Ito's palette; each colour has its own marker, for print in grey.
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")


def new_figure(rows: int, columns: int, size: tuple[float, float]) -> tuple[Figure, Any]:
    """Create a figure without global state, and its axes `(rows, columns)`."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=size, layout="constrained")
    return figure, figure.subplots(rows, columns, squeeze=False)


def draw_band(axes: Axes, x: ArrayLike, band: ArrayLike, place: int, label: str) -> None:
    """Draw a line with its interval: `band` has rows mean, low, high."""
    mean, low, high = np.asarray(band)
    color, marker = COLORS[place % len(COLORS)], MARKERS[place % len(MARKERS)]
    axes.plot(x, mean, color=color, marker=marker, markersize=4, linewidth=1.6, label=label)
    axes.fill_between(x, low, high, color=color, alpha=0.18, linewidth=0)


def finish(axes: Axes, title: str, x: str, y: str, legend: bool = True) -> None:
    """Set the title, the names of the axes, a light grid and the legend."""
    axes.set_title(title, fontsize=10)
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    axes.grid(alpha=0.25, linewidth=0.6)
    axes.spines[["top", "right"]].set_visible(False)
    if legend:
        axes.legend(fontsize=8, frameon=False)


def state_sizes(figure: Figure, text: str) -> None:
    """Write below the figure what it was made from."""
    figure.supxlabel(text, fontsize=8, color="#444444")


def png(figure: Figure, dpi: int = 130) -> bytes:
    """Render a PNG with a palette: a third of the size, without a visible difference."""
    from PIL import Image

    drawn, small = BytesIO(), BytesIO()
    figure.savefig(drawn, dpi=dpi, format="png")
    colours = Image.open(drawn).convert("RGB")
    colours.quantize(256, dither=Image.Dither.NONE).save(small, "PNG", optimize=True)
    return small.getvalue()
