"""Run experiments by name: compute JSON, draw figures, report verdicts."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from experiments.lab.cache import Cache, remove_if_empty
from experiments.lab.compact_json import write_json
from experiments.lab.experiment import Experiment, Result
from experiments.lab.files import replacing
from experiments.lab.page import write_page
from experiments.lab.provenance import machine, versions
from experiments.lab.style import png
from experiments.registry import EXPERIMENTS, find_experiment

FORMAT = 1  # version of the JSON format
PARTS = ".parts"  # folder of finished parts while an experiment is incomplete


def reproduce(
    names: Sequence[str] | str = "all",
    out: str | os.PathLike[str] = "results",
    *,
    full: bool = False,
    say: Callable[[str], None] | None = None,
) -> dict[str, Result]:
    """Run experiments; write `NAME.json`, their figures as PNG, and one page `index.html`.

    An interrupted run continues with its unfinished parts. With ``"all"``, an experiment whose data
    are missing is skipped and reported to `say`; for a named one, missing data are an error.

    Args:
        names: names of experiments, or ``"all"``.
        out: the folder to write to.
        full: use the paper's own sizes, instead of minutes on two cores.
        say: called with lines about progress.

    Returns:
        The results by name, as in the JSON files.
    """
    asked = list(EXPERIMENTS) if names == "all" else [names] if isinstance(names, str) else names
    experiments = [find_experiment(name) for name in asked]
    folder, tell = Path(out), say or (lambda _: None)
    folder.mkdir(parents=True, exist_ok=True)
    run = _if_data_there if names == "all" else run_experiment
    found = {each.name: run(each, folder, full=full, say=tell) for each in experiments}
    write_page(load_results(folder), EXPERIMENTS, folder / "index.html")
    return {name: result for name, result in found.items() if result is not None}


def _if_data_there(
    experiment: Experiment, folder: Path, *, full: bool, say: Callable[[str], None]
) -> Result | None:
    try:
        return run_experiment(experiment, folder, full=full, say=say)
    except FileNotFoundError as error:
        say(f"{experiment.name}: skipped, because its data are missing: {error}")
        return None


def run_experiment(
    experiment: Experiment,
    folder: Path,
    *,
    full: bool = False,
    settings: Any = None,
    say: Callable[[str], None] | None = None,
) -> Result:
    """Compute, write JSON and draw; `settings` replaces the experiment's own."""
    tell = say or (lambda _: None)
    mode = "own" if settings is not None else "full" if full else "quick"
    if settings is None:
        settings = experiment.full if full else experiment.quick
    described = asdict(settings)
    key = {"format": FORMAT, "settings": described, "versions": versions()}
    cache = Cache(
        folder / PARTS / f"{experiment.name}-{mode}",
        key,
        lambda name: tell(f"{experiment.name}: {name}"),
    )
    began = time.perf_counter()
    found = experiment.compute(settings, cache)
    result = {
        "format": FORMAT,
        "experiment": experiment.name,
        "mode": mode,
        "command": _command(experiment.name, mode, settings),
        "made": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "settings": described,
        "versions": key["versions"],
        "machine": machine(),
        "seconds": {"this run": round(time.perf_counter() - began, 3), **cache.seconds},
        "found": found,
    }
    path = folder / f"{experiment.name}.json"
    write_json(path, result)
    cache.clear()
    remove_if_empty(folder / PARTS)
    read = load_result(path)
    draw_figures(experiment, read, folder)
    for verdict in experiment.verdict(read):
        tell(f"{experiment.name}: {verdict.claim}: {verdict.outcome.value}. {verdict.effect}")
    return read


def _command(name: str, mode: str, settings: Any) -> str:
    if mode == "own":
        return f"run_experiment(EXPERIMENTS[{name!r}], folder, settings={settings})"
    return f"python -m experiments {name}{' --full' if mode == 'full' else ''}"


def draw_figures(experiment: Experiment, result: Result, folder: Path) -> list[Path]:
    """Draw the figures of a result as PNG next to its JSON."""
    paths = []
    for name, figure in experiment.draw(result).items():
        path = folder / f"{experiment.name}-{name}.png"
        with replacing(path) as temporary:
            temporary.write_bytes(png(figure))
        paths.append(path)
    return paths


def load_result(path: str | os.PathLike[str]) -> Result:
    """Load a result from its JSON."""
    read = json.loads(Path(path).read_text(encoding="utf-8"))
    if not isinstance(read, dict) or read.get("format") != FORMAT:
        raise ValueError(f"{path} must be a result of `python -m experiments`, format {FORMAT}")
    return read


def load_results(folder: str | os.PathLike[str]) -> dict[str, Result]:
    """Load the results in a folder, in the order of the experiments."""
    paths = {name: Path(folder) / f"{name}.json" for name in EXPERIMENTS}
    return {name: load_result(path) for name, path in paths.items() if path.is_file()}
