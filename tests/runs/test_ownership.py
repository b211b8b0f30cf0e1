"""A directory belongs to one process at a time, and a refused run does not change it."""

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from wassloss.training import DirectoryInUseError, TrainingPlan, train
from wassloss.training.directory_lock import owned

import wassloss as wl
from tests.data.tables import saved
from tests.problems import linear, same, tags, wasserstein
from tests.runs.files import NAMES, data_file, trained
from wassloss.runs.directory import open_run

pytest.importorskip("lightning_fabric")
pytest.importorskip("safetensors")

ROOT = Path(__file__).parents[2]


def snapshot(directory: Path) -> dict[str, tuple[int, bytes]]:
    """The modification time and contents of each file."""
    return {
        str(path.relative_to(directory)): (path.stat().st_mtime_ns, path.read_bytes())
        for path in sorted(directory.rglob("*"))
        if path.is_file()
    }


def started(folder: Path, out: Path, passes: int, resume: str = "new") -> Any:
    program = [sys.executable, "-m", "tests.runs.slow_run", folder, out, str(passes), resume]
    return subprocess.Popen(program, cwd=ROOT, stderr=subprocess.PIPE, text=True)


@contextmanager
def running(folder: Path, out: Path, passes: int = 10**6) -> Iterator[Any]:
    """A run in another process, suspended in the middle of its steps."""
    process = started(folder, out, passes)
    try:
        deadline = time.monotonic() + 300
        while not (out / "log.jsonl").exists() or not (out / "log.jsonl").stat().st_size:
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < deadline
            time.sleep(0.02)
        process.send_signal(signal.SIGSTOP)
        time.sleep(0.1)
        yield process
    finally:
        process.kill()
        process.communicate()


def test_a_directory_in_use_is_refused_and_left_alone(tmp_path: Path) -> None:
    data_file(tmp_path)
    with running(tmp_path, tmp_path / "run") as owner:
        owned_by = f"is in use by process {owner.pid} on {socket.gethostname()}"
        checkpoints = list((tmp_path / "run").glob("checkpoint-*"))
        for path in [None, *checkpoints]:  # also before its first, when there is little to see
            if path is not None:
                path.unlink()
            before = snapshot(tmp_path / "run")
            assert "config.json" in before
            for resume in (False, True):
                with pytest.raises(DirectoryInUseError, match=owned_by):
                    trained(tmp_path, tmp_path / "run", resume=resume, max_iter=10**6)
                assert snapshot(tmp_path / "run") == before


@pytest.mark.slow
def test_the_lock_of_a_dead_process_is_taken_over(tmp_path: Path) -> None:
    data_file(tmp_path)
    with running(tmp_path, tmp_path / "run", passes=200) as owner:
        owner.kill()  # like kill -9: nothing is cleaned up
        owner.wait()
        assert (tmp_path / "run" / ".wassloss.owner").exists()
        trained(tmp_path, tmp_path / "run", resume=True, max_iter=200)
    open_run(tmp_path / "run")
    assert not (tmp_path / "run" / ".wassloss.owner").exists()


@pytest.mark.slow
def test_of_two_runs_at_once_exactly_one_succeeds(tmp_path: Path) -> None:
    data_file(tmp_path)
    both = [started(tmp_path, tmp_path / "run", 300) for _ in range(2)]
    said = [process.communicate(timeout=300)[1] for process in both]
    codes = [process.returncode for process in both]
    assert sorted(codes) == [0, 1], said
    loser, winner = codes.index(1), both[codes.index(0)]
    in_use = f"is in use by process {winner.pid} on {socket.gethostname()}" in said[loser]
    assert (
        in_use or "holds a trained model already" in said[loser]
    )  # if the other had ended by then

    alone = started(tmp_path, tmp_path / "alone", 300)
    reason = alone.communicate(timeout=300)[1]
    assert alone.returncode == 0, reason
    assert same(*(open_run(tmp_path / name).model.model_ for name in ("run", "alone")))


# --- refused, for every reason there is -----------------------------------------------------------


REFUSALS: dict[str, tuple[dict[str, Any], bool, str]] = {  # parameters, whether resumed, error
    "not resumed": ({}, False, "holds a trained model already"),
    "other settings": ({"learning_rate": 0.5}, True, "cannot be continued with 0.5"),
    "other data": ({}, True, "its training data changed after it began"),
    "other metric": ({}, True, "its ground metric changed after it began"),
    "checkpoints damaged": ({}, True, "is not a valid checkpoint"),
    "no config": ({}, True, r"or checkpoints, but no config\.json"),
    "wrong": ({"alpha": -1.0}, True, "cannot be continued with -1.0"),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_a_refused_run_changes_no_file(case: str, tmp_path: Path) -> None:
    data, run = data_file(tmp_path), tmp_path / "run"
    trained(tmp_path, run)
    params, resume, message = REFUSALS[case]
    if case == "other data":
        saved(wl.data.read(data).take(slice(0, 80)), data)
    elif case == "other metric":
        wl.ground.Ordinal([0, 1, 2, 3, 9], labels=NAMES).save(tmp_path / "metric.npz")
    elif case == "checkpoints damaged":
        for path in run.glob("checkpoint-*"):
            path.write_bytes(path.read_bytes()[:-1])
    elif case == "no config":
        (run / "config.json").unlink()
    before = snapshot(run)
    with pytest.raises(ValueError, match=message):
        trained(tmp_path, run, resume=resume, **params)
    assert snapshot(run) == before


@pytest.mark.parametrize("solver", ["lbfgs", "adam"])
def test_a_run_that_cannot_begin_leaves_nothing(solver: str, tmp_path: Path) -> None:
    data_file(tmp_path)
    for wrong in ({"alpha": -1.0}, {"batch_size": 0}, {"decision": "x"}, {"epsilon": -1.0}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            trained(tmp_path, tmp_path / "run", **({"solver": solver} | wrong))
        assert not (tmp_path / "run").exists()


# --- the same for training from Python ------------------------------------------------------------

PLAN = TrainingPlan(steps=5, batch_size=20)


def train_one(directory: Path) -> None:
    train(linear(), wasserstein(), tags(), PLAN, directory=directory, resume=True)


def test_training_owns_its_directory(tmp_path: Path) -> None:
    with pytest.raises(DirectoryInUseError, match=f"process {os.getpid()} on "):
        _elsewhere(lambda: train_one(tmp_path), tmp_path)
    train_one(tmp_path)
    train_one(tmp_path)  # the directory was released, also by the refused run


def _elsewhere(action: Any, directory: Path) -> None:
    """Run an action while another thread owns a directory."""
    has, done = threading.Event(), threading.Event()

    def hold() -> None:
        try:
            with owned(directory):
                has.set()
                done.wait()
        finally:
            has.set()  # even if it could not be acquired

    thread = threading.Thread(target=hold)
    thread.start()
    has.wait()
    try:
        action()
    finally:
        done.set()
        thread.join()


def test_a_directory_is_released_after_an_error(tmp_path: Path) -> None:
    class Crash(Exception):  # noqa: N818
        pass

    def crash(*_: object) -> None:
        raise Crash

    with pytest.raises(Crash):
        train(linear(), crash, tags(), PLAN, directory=tmp_path)  # type: ignore[arg-type]
    assert not (tmp_path / ".wassloss.owner").exists()
    train_one(tmp_path)


def test_ownership_nests(tmp_path: Path) -> None:
    with owned(tmp_path), owned(tmp_path / ".." / tmp_path.name):
        assert (tmp_path / ".wassloss.owner").exists()
    assert not (tmp_path / ".wassloss.owner").exists()


@pytest.mark.parametrize("solver", ["lbfgs", "adam"])
def test_what_a_killed_run_was_writing_is_removed(solver: str, tmp_path: Path) -> None:
    data_file(tmp_path)
    trained(tmp_path, tmp_path / "run", solver=solver, max_iter=200)
    names = {path.name for path in (tmp_path / "run").iterdir()}
    for name in ("config.json", "model.safetensors", "scores.json"):
        (tmp_path / "run" / f".{name}.0123abcd.wassloss.tmp").touch()
    (tmp_path / "run" / ".notes.tmp").touch()  # a user's file
    trained(tmp_path, tmp_path / "run", solver=solver, max_iter=200, resume=True)
    assert {path.name for path in (tmp_path / "run").iterdir()} == {*names, ".notes.tmp"}
