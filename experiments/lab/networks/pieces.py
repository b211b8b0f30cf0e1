"""Store each training in its own file, so that an interrupted run loses no finished one."""

from __future__ import annotations

import hashlib
import json
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from experiments.lab.files import read_npz, replacing
from experiments.lab.networks.scoring import Scores
from experiments.lab.networks.trials import Job, Run, Trial

# Scores stored for each example, for intervals; for the others the mean is enough.
LEAST_COST = "least cost: "
_PAIRED = ("distance", "right", "auc", "nll")
PAIRED = (*_PAIRED, "distance@5", "grave", *(f"{LEAST_COST}{name}" for name in _PAIRED))
ABOUT = "about"


class Pieces:
    """A folder with one archive per finished job."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def path(self, job: Job) -> Path:
        written = json.dumps(_as_json(job), sort_keys=True)
        digest = hashlib.sha256(written.encode()).hexdigest()[:12]
        return self.folder / f"{job.task}.{job.trial.family}.{job.seed}.{digest}.npz"

    def keep(self, job: Job, run: Run) -> None:
        """Write the result of a job; scores of each example only for test data."""
        self.folder.mkdir(parents=True, exist_ok=True)
        about = described(job, run)
        paired = [name for name in PAIRED if name in run.scores and job.part == "test"]
        arrays = {name: _compact(run.scores[name]) for name in paired}
        with replacing(self.path(job)) as temporary, open(temporary, "xb") as file:
            np.savez_compressed(file, **{ABOUT: np.array(json.dumps(about))}, **arrays)  # type: ignore[arg-type]

    def find(self, job: Job) -> Run | None:
        """The stored result of a job, or None."""
        path = self.path(job)
        return _read(path)[1] if path.is_file() else None

    def all(self) -> dict[Job, Run]:
        """All jobs in the folder, with their results."""
        return dict(_read(path) for path in sorted(self.folder.glob("*.npz")))

    def pack(self, out: Path, most: int = 15 << 20) -> list[Path]:
        """Pack all pieces into archives ``pieces-0.tar``, …, of at most about `most` bytes each."""
        out.mkdir(parents=True, exist_ok=True)
        groups: list[list[Path]] = [[]]
        size = 0
        for path in sorted(self.folder.glob("*.npz")):
            size += path.stat().st_size + 1024
            if size > most:
                groups.append([])
                size = path.stat().st_size + 1024
            groups[-1].append(path)
        packed = []
        for i, group in enumerate(groups):
            with replacing(out / f"pieces-{i}.tar") as temporary, tarfile.open(temporary, "w") as t:
                for path in group:
                    t.add(path, path.name)
            packed.append(out / f"pieces-{i}.tar")
        return packed

    def unpack(self, archives: Sequence[Path]) -> None:
        """Add the pieces of archives to the folder."""
        self.folder.mkdir(parents=True, exist_ok=True)
        for archive in archives:
            with tarfile.open(archive) as read:
                read.extractall(self.folder, filter="data")


def described(job: Job, run: Run) -> dict[str, Any]:
    """Describe a job and its result as JSON, without scores of each example."""
    return {
        "job": _as_json(job),
        "milliseconds": run.milliseconds,
        "ece": run.ece,
        "means": {name: run.mean(name) for name in run.names},
    }


def understood(about: Mapping[str, Any], scores: Scores | None = None) -> tuple[Job, Run]:
    """Restore a job and its result from their description."""
    job = Job(**{**about["job"], "trial": Trial.from_json(about["job"]["trial"])})
    return job, Run(scores or {}, about["milliseconds"], about["ece"], about["means"])


def _as_json(job: Job) -> dict[str, Any]:
    return {**asdict(job), "trial": job.trial.as_json()}


def _compact(values: Any) -> Any:
    """Use half precision for many values: their mean is barely affected by rounding."""
    return np.asarray(values, dtype=np.float16 if len(values) > 4000 else np.float32)


def _read(path: Path) -> tuple[Job, Run]:
    arrays = read_npz(path)
    about = json.loads(str(arrays.pop(ABOUT)))
    return understood(about, {name: values.astype(np.float64) for name, values in arrays.items()})
