"""Run experiments: ``python -m experiments [NAME ...] [--full] [--out FOLDER]``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from experiments.registry import EXPERIMENTS
from experiments.run import reproduce


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the experiments named on the command line, or all of them."""
    parser = argparse.ArgumentParser(
        prog="python -m experiments",
        description="Reproduce the paper's results, draw them, and report which claims held.",
        epilog="Data sets: python -m experiments.corpora --help",
    )
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help="experiments to run; all if none is named"
    )
    parser.add_argument("--list", action="store_true", help="list the experiments and stop")
    parser.add_argument(
        "--full", action="store_true", help="the sizes of the paper: hours rather than minutes"
    )
    parser.add_argument(
        "-o", "--out", type=Path, default=Path("results"),
        help="folder for JSON, figures and the page (default: results)",
    )  # fmt: skip
    given = parser.parse_args(arguments)
    if given.list:
        for experiment in EXPERIMENTS.values():
            print(f"{experiment.name:12} {experiment.figure:20} {experiment.claim}")
        return
    for name in given.names:
        if name not in EXPERIMENTS:
            parser.error(f"NAME must be one of {', '.join(EXPERIMENTS)}, got {name!r}")
    reproduce(
        given.names or "all",
        given.out,
        full=given.full,
        say=lambda line: print(line, file=sys.stderr, flush=True),
    )
    print(f"Page: {(given.out / 'index.html').resolve()}")


if __name__ == "__main__":
    main()
