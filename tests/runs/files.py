"""Small data in files, and settings to train on them."""

from pathlib import Path

import wassloss as wl
from tests.data.tables import split
from tests.training.problems import grades
from wassloss.runs.settings import Settings

NAMES = ("a", "b", "c", "d", "e")


def data_file(folder: Path) -> Path:
    """Grades with a test part, on features that ask to be standardised; and their metric."""
    x, y = grades(100)
    data = wl.data.Dataset(3 * x + 5, y, label_names=NAMES)
    wl.data.write(split(data, {"train": 0.6, "test": 0.4}), folder / "data.npz")
    wl.ground.Ordinal(5, labels=NAMES).save(folder / "metric.npz")
    return folder / "data.npz"


def settings(folder: Path, **changes: object) -> Settings:
    """Of a short run on the files that `data_file` has put into a folder."""
    values = {
        "data": str(folder / "data.npz"),
        "metric": str(folder / "metric.npz"),
        "steps": 20,
        "batch_size": 10,
        "log_every": 5,
        "standardize": True,
    }
    return Settings(**(values | changes))  # type: ignore[arg-type]
