"""`wassloss train` killed at random moments, and resumed: the final run is the same.

`WASSLOSS_KILLS` is the number of kills (100), `WASSLOSS_KILL_SEED` the seed of their times (0).
Half of them are anywhere in the life of a process, most of which is imports; the other half after
training has started. A table of them is printed.
"""

import json
import os
import random
import shutil
import signal
import statistics
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import torch

import wassloss as wl
from tests.data.tables import saved, split

ROOT = Path(__file__).parents[2]
KILLS = int(os.environ.get("WASSLOSS_KILLS", "100"))
SEED = int(os.environ.get("WASSLOSS_KILL_SEED", "0"))
AT_ONCE = 2
STEPS = 600
OPTIONS = (
    *("--hidden-layer-sizes", 32, "--kl-weight", 0.1),
    *("--max-iter", 80, "--batch-size", 64, "--checkpoint-every", 15),
)
PHASES = (
    "imports",
    "reading data, setting up",
    "training, before the first checkpoint",
    "training",
    "writing a checkpoint",
    "scoring",
    "at the end",
)


@dataclass
class Killed:
    """One run: when it was killed, and the result."""

    number: int
    moments: list[float] = field(default_factory=list)  # as shares of the process's life
    phases: list[str] = field(default_factory=list)
    steps: list[int] = field(default_factory=list)  # of the newest checkpoint at the kill
    starts: int = 0
    wrong: list[str] = field(default_factory=list)

    def lines(self) -> Iterator[str]:
        for i, (moment, phase, steps) in enumerate(
            zip(self.moments, self.phases, self.steps, strict=True)
        ):
            last = i == len(self.moments) - 1
            same = f"{self.starts - 1:7}  {', '.join(self.wrong) or 'yes'}" if last else ""
            yield f"{self.number:4} {100 * moment:6.1f} %  {phase:38} {steps:5}  {same}"


@dataclass
class Times:
    """Durations of a process in seconds."""

    life: float
    training: float  # from the log to the scores

    def after(self, steps: int) -> "Times":
        """The durations of a process that resumes after this many steps."""
        saved = 0.9 * self.training * steps / STEPS  # the rest is scoring
        return Times(self.life - saved, self.training - saved)


class Clock:
    """Estimates how long processes live, which depends on the load of the machine."""

    def __init__(self, times: Times) -> None:
        self._times, self._lock, self._paces = times, threading.Lock(), [1.0]

    def expected(self, steps: int) -> Times:
        """Expected durations of a process that resumes after this many steps."""
        with self._lock:
            pace, times = statistics.median(self._paces[-5:]), self._times.after(steps)
        return Times(pace * times.life, pace * times.training)

    def learn(self, life: float, steps: int) -> None:
        """Update the estimate from the life of one process."""
        with self._lock:
            self._paces.append(life / self._times.after(steps).life)


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="needs POSIX: kills processes")
def test_killed_at_random_moments(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("typer")
    pytest.importorskip("lightning_fabric")
    data = write_data(tmp_path)
    # Numba's code rounds differently in the process that compiles it than from the cache.
    whole(data, tmp_path / "warm")
    with ThreadPoolExecutor(AT_ONCE) as pool:
        times = list(pool.map(lambda i: whole(data, tmp_path / f"whole{i}"), range(AT_ONCE)))
    expected = outcome(tmp_path / "whole0")
    assert differences(outcome(tmp_path / "whole1"), expected) == []
    clock = Clock(times[0])

    drawn = random.Random(SEED)
    wanted = []  # kills per run: most are killed once, some several times
    while sum(wanted) < KILLS:
        wanted.append(min(KILLS - sum(wanted), drawn.choice([1, 1, 1, 2, 3])))
    moments = [[(drawn.random(), drawn.random() < 0.5) for _ in range(kills)] for kills in wanted]

    def one(number: int) -> Killed:
        found = kill_and_resume(number, moments[number], clock, data, tmp_path / f"run{number}")
        if not found.wrong:
            shutil.rmtree(tmp_path / f"run{number}")
        return found

    begun = time.monotonic()
    with ThreadPoolExecutor(AT_ONCE) as pool:
        runs = list(pool.map(one, range(len(wanted))))
    with capsys.disabled():
        sys.stdout.write("\n".join(table(runs, times[0].life, time.monotonic() - begun)) + "\n")
    assert sum(len(run.moments) for run in runs) == KILLS
    assert [run.number for run in runs if run.wrong] == []


def kill_and_resume(
    number: int, moments: list[tuple[float, bool]], clock: Clock, data: Path, run: Path
) -> Killed:
    """Kill a run at each of these moments (of its training, if true), then let it finish."""
    told, left = Killed(number), list(moments)
    mark, copy = run.with_name(f"{run.name}.reading"), run.with_name(f"{run.name}.copy")
    while True:
        mark.unlink(missing_ok=True)
        shutil.rmtree(copy, ignore_errors=True)
        if run.exists():
            shutil.copytree(run, copy)
        before, steps = written(run), newest(run)
        begun, times = time.monotonic(), clock.expected(steps)
        process = start(mark, data, run)
        share, of_training = left[0] if left else (1.0, False)
        while of_training and process.poll() is None and written(run)["log"] == before["log"]:
            time.sleep(0.002)
        length = times.training if of_training else times.life
        try:
            process.wait(length * share if left else 600)
        except subprocess.TimeoutExpired:
            process.kill()
        moment = (time.monotonic() - begun) / times.life
        _, said = process.communicate()
        if process.returncode not in (0, -signal.SIGKILL):
            told.wrong.append(f"failed: {said.strip()}")
            return told
        if process.returncode == 0:
            clock.learn(time.monotonic() - begun, steps)
        if process.returncode == 0 and left:  # the kill came too late: start again
            shutil.rmtree(run)
            if copy.exists():
                copy.rename(run)
            left[0] = (0.8 * share, of_training)
            continue
        told.starts += 1
        if not left:
            break
        left.pop(0)
        told.moments.append(min(1.0, moment))
        told.phases.append(phase(run, mark, before))
        told.steps.append(newest(run))
    shutil.rmtree(copy, ignore_errors=True)
    if process.returncode != 0:
        told.wrong.append("did not end")
    else:
        told.wrong += differences(outcome(run), outcome(data.parent / "whole0"))
        wl.load(run)  # checks every checksum
    return told


def start(mark: Path, data: Path, run: Path) -> subprocess.Popen[str]:
    """Start the command; `--resume` starts a new run if there is none."""
    words = (*OPTIONS, "--metric", data.with_name("metric.npz"), "--out", run, "--resume")
    program = Path(__file__).with_name("killed_train.py")
    return subprocess.Popen(
        [sys.executable, str(program), str(mark), str(data), *map(str, words)],
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "passive"},
    )


def whole(data: Path, run: Path) -> Times:
    """Run without a kill."""
    begun = time.monotonic()
    process = start(run.with_name(f"{run.name}.reading"), data, run)
    while process.poll() is None and not (run / "log.jsonl").exists():
        time.sleep(0.002)
    training = time.monotonic()
    while process.poll() is None and not (run / "scores.json").exists():
        time.sleep(0.002)
    scored = time.monotonic()
    _, said = process.communicate(timeout=600)
    assert process.returncode == 0, said
    return Times(time.monotonic() - begun, scored - training)


def write_data(folder: Path) -> Path:
    """A table of examples with one to three of ten labels, and a metric of the labels."""
    generator = torch.Generator().manual_seed(0)
    features = torch.randn(600, 12, generator=generator)
    scores = features @ torch.randn(12, 10, generator=generator)
    indices = scores.topk(3).indices
    used = torch.rand(600, 3, generator=generator) < torch.tensor([1.0, 0.6, 0.3])
    weights = used / used.sum(1, keepdim=True)
    names = tuple(f"grade {i}" for i in range(10))
    given = wl.data.Dataset(features, wl.SparseTarget(indices, weights), label_names=names)
    saved(split(given, {"train": 0.8, "test": 0.2}), folder / "data.csv")
    wl.ground.Ordinal(10, labels=names).save(folder / "metric.npz")
    return folder / "data.csv"


def written(run: Path) -> dict[str, tuple[int, int] | None]:
    """The inode and time of each file, which change when it is written."""
    return {"log": identity(run / "log.jsonl"), "scores": identity(run / "scores.json")}


def identity(path: Path) -> tuple[int, int] | None:
    try:
        status = path.stat()
    except FileNotFoundError:
        return None
    return status.st_ino, status.st_mtime_ns


def phase(run: Path, mark: Path, before: dict[str, tuple[int, int] | None]) -> str:
    """The phase of a process, from the files that it has written."""
    if not mark.exists():
        return "imports"
    now = written(run)
    if now["log"] == before["log"]:
        return "reading data, setting up"
    if now["scores"] != before["scores"]:
        return "at the end"
    if (run / "model.safetensors").exists():
        return "scoring"
    if list(run.glob(".checkpoint-*")):
        return "writing a checkpoint"
    return "training" if newest(run) else "training, before the first checkpoint"


def newest(run: Path) -> int:
    """The step of the newest checkpoint."""
    return max((int(p.stem.split("-")[1]) for p in run.glob("checkpoint-*")), default=0)


def outcome(run: Path) -> dict[str, Any]:
    """The contents of a run, without dates and durations."""
    log = [json.loads(line) for line in (run / "log.jsonl").read_text().splitlines()]
    for record in log:
        record.pop("seconds")
    scores = json.loads((run / "scores.json").read_text())
    scores["training"].pop("seconds")
    config = json.loads((run / "config.json").read_text())
    for name in ("started", "files", "sha256"):  # checksums depend on the log's durations
        config.pop(name, None)
    return {
        "model.safetensors": (run / "model.safetensors").read_bytes(),
        "log.jsonl": log,
        "scores.json": scores,
        "config.json": config,
        "names of files": sorted(path.name for path in run.iterdir()),
    }


def differences(found: dict[str, Any], expected: dict[str, Any]) -> list[str]:
    """Describe the differences between two runs."""
    return [f"other {name}" for name in expected if found[name] != expected[name]]


def table(runs: list[Killed], length: float, seconds: float) -> Iterator[str]:
    """List every kill, and the number of each kind."""
    yield f"\n{' run  moment    where it was':49}  saved  resumes  same bits, log and scores"
    for run in runs:
        yield from run.lines()
    kills: Counter[str] = Counter()
    failed: Counter[str] = Counter()
    for run in runs:
        kills.update(run.phases)
        failed.update(run.phases if run.wrong else ())
    yield f"\n{'where it was':40} kills  of runs that ended otherwise"
    for name in PHASES:
        yield f"{name:40} {kills[name]:5}  {failed[name]:5}"
    several = sum(len(run.moments) > 1 for run in runs)
    same = sum(not run.wrong for run in runs)
    yield (
        f"{kills.total()} kills (seed {SEED}) of {len(runs)} runs, {several} of them killed more "
        f"than once; {same} runs ended with the same bits, log and scores. An undisturbed run of "
        f"{STEPS} steps took {length:.1f} s, all of them {seconds:.0f} s."
    )
