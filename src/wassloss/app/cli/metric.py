"""`wassloss metric show`."""

from __future__ import annotations

from typing import Annotated

import typer

from wassloss.app.cli._interrupt import loading
from wassloss.app.cli._terminal import option, say

app = typer.Typer(
    help="Inspect the distances between labels.",
    epilog="Example: wassloss metric show taxonomy.csv",
    no_args_is_help=True,
)
SHOW_EXAMPLE = "Example: wassloss metric show taxonomy.csv --near husky --near cat"
_INSPECTED = 512  # labels whose distances are summarised, if there are more
_QUANTILES = {"least": 0, "5 % below": 0.05, "median": 0.5, "95 % below": 0.95, "largest": 1}


@app.callback()
def _group() -> None:
    pass  # without a callback, Typer would turn the only command into the group


@app.command(epilog=SHOW_EXAMPLE)
def show(
    metric: Annotated[
        str,
        typer.Argument(help="A file, as for --metric of train, or clipart."),
    ],
    near: Annotated[
        list[str] | None,
        option("A label whose nearest neighbours to show; may be repeated.", metavar="LABEL"),
    ] = None,
    neighbours: Annotated[
        int, option("The number of neighbours.", "--neighbours", "-k", min=1)
    ] = 5,
) -> None:
    """Show the nearest labels, the distances and the axioms of a ground metric."""
    with loading():
        import numpy as np

        from wassloss.app.metrics import read_metric
        from wassloss.datasets import load_clipart
        from wassloss.ground import GroundMetric

    made = load_clipart().metric if metric == "clipart" else read_metric(metric)
    if not isinstance(made, GroundMetric) or made.size < 2:
        raise ValueError(
            f"metric must be clipart or a file with distances between at least two labels, got "
            f"{made!r}"
        )
    say(f"{made!r}\n\nNearest labels")
    some = min(made.size, 5)
    names = made.labels or [str(i) for i in range(made.size)]
    for label in near or [names[i * made.size // some] for i in range(some)]:
        which = int(label) if made.labels is None and label.isdigit() else label
        found = ", ".join(f"{other} {d:.3g}" for other, d in made.nearest(which, neighbours))
        say(f"  {label}: {found}")
    chosen = np.unique(np.linspace(0, made.size - 1, _INSPECTED).astype(np.int64))
    different = np.arange(made.size) != chosen[:, None]  # (chosen, labels)
    distances = made.distance_columns(chosen).detach().double().numpy()[different]
    say("\nDistances between two different labels")
    for name, share in _QUANTILES.items():
        say(f"  {name}: {np.quantile(distances, share):.4g}")
    say(f"\nThe distance is {made.check_axioms()}\n")
    unit = made.in_medians().scale
    say(f"Losses measure distances in units of {unit:.4g}, the median between two labels.")
