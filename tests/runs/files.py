"""Small data in files, and runs trained on them."""

from pathlib import Path
from typing import Any

import wassloss as wl
from tests.data.tables import saved, split
from tests.problems import grades
from wassloss.runs.fitting import fit
from wassloss.runs.task import Task

NAMES = ("a", "b", "c", "d", "e")
STEPS = 24  # of `trained`: four passes over 60 examples, ten at a time


def data_file(folder: Path) -> Path:
    """Write grades with a test part, whose features need standardising, and their metric."""
    x, y = grades(100)
    data = wl.data.Dataset(3 * x + 5, y, label_names=NAMES)
    wl.ground.Ordinal(5, labels=NAMES).save(folder / "metric.npz")
    return saved(split(data, {"train": 0.6, "test": 0.4}), folder / "data.parquet")


def trained(folder: Path, out: Path, *, resume: bool = False, **params: Any) -> None:
    """Train a short run with small steps on the files that `data_file` wrote to a folder."""
    task = Task(data=str(folder / "data.parquet"), metric=str(folder / "metric.npz"))
    params = {"solver": "adam", "max_iter": 4, "batch_size": 10} | params
    fit(task, params, out, resume=resume, checkpoint_every=10)
