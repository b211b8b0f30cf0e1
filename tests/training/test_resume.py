"""An interrupted run resumes as if nothing had happened, bit for bit."""

import errno
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.training import killed_run
from tests.training.problems import grades, linear, perceptron, same, tags, wasserstein
from wassloss.training import (
    CheckpointError,
    CheckpointWarning,
    TrainingPlan,
    load_checkpoint,
    read_log,
    train,
)


class Crash(Exception):  # noqa: N818
    pass


def crashing(at: int) -> Any:
    """A loss that raises in the middle of a step."""
    loss_fn, calls = wasserstein(), []

    def crash(outputs: Tensor, target: Any) -> Tensor:
        calls.append(1)
        if len(calls) == at:
            raise Crash
        return loss_fn(outputs, target)

    return crash


def plan_with(**changes: Any) -> TrainingPlan:
    return TrainingPlan(
        **{
            "steps": 50,
            "batch_size": 30,
            "optimizer": "adam",
            "schedule": "cosine",
            "log_every": 4,
            "checkpoint_every": 10,
            "evaluate_every": 20,
        }
        | changes
    )


@pytest.mark.parametrize(
    "changes",
    [{"optimizer": "sgd"}, {"optimizer": "sgd", "momentum": 0}, {}, {"optimizer": "adamw"}],
    ids=str,
)
def test_resuming_is_exact(tmp_path: Path, changes: Any) -> None:
    plan, (unseen, target) = plan_with(**changes), grades(seed=1)
    undisturbed, model = perceptron(), perceptron()

    def evaluate(model: torch.nn.Module) -> Tensor:
        return wasserstein()(model(unseen), target)

    expected = train(undisturbed, wasserstein(), tags(), plan, evaluate=evaluate)
    with pytest.raises(Crash):
        train(model, crashing(38), tags(), plan, evaluate=evaluate, directory=tmp_path)
    model = perceptron(seed=9)  # as in a new process
    log = train(
        model, wasserstein(), tags(), plan, evaluate=evaluate, directory=tmp_path, resume=True
    )
    assert same(model, undisturbed)
    assert read_log(tmp_path) == log
    assert [(r.step, r.loss, r.score, r.learning_rate) for r in log] == [
        (r.step, r.loss, r.score, r.learning_rate) for r in expected
    ]
    weights = load_checkpoint(tmp_path).part("model")
    model = perceptron(seed=9)
    model.load_state_dict(weights)
    assert same(model, undisturbed)


def test_kill_minus_nine_then_resume_is_exact(tmp_path: Path) -> None:
    undisturbed, resumed = perceptron(), perceptron(seed=9)
    train(undisturbed, wasserstein(), tags(), killed_run.PLAN)

    program = [sys.executable, "-m", "tests.training.killed_run", tmp_path]
    process = subprocess.Popen(program, cwd=Path(__file__).parents[2])
    try:
        deadline = time.monotonic() + 60
        while not list(tmp_path.glob("checkpoint-*")) and time.monotonic() < deadline:
            time.sleep(0.01)
            assert process.poll() is None, "the run ended before it could be killed"
        time.sleep(0.05)  # somewhere after a checkpoint
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert process.returncode == -signal.SIGKILL
    assert 0 < read_log(tmp_path)[-1].step < killed_run.PLAN.steps

    train(resumed, wasserstein(), tags(), killed_run.PLAN, directory=tmp_path, resume=True)
    assert same(resumed, undisturbed)


def test_an_interrupt_is_saved_where_it_came(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    # Python ignores interrupts if its parent does, as in a shell's background jobs.
    inherited = signal.signal(signal.SIGINT, signal.default_int_handler)
    request.addfinalizer(lambda: signal.signal(signal.SIGINT, inherited))
    undisturbed, model = perceptron(), perceptron()
    train(undisturbed, wasserstein(), tags(), plan_with())
    loss_fn, calls, before = wasserstein(), [], signal.getsignal(signal.SIGINT)

    def interrupted(outputs: Tensor, target: Any) -> Tensor:
        calls.append(1)
        if len(calls) == 23:
            os.kill(os.getpid(), signal.SIGINT)
        return loss_fn(outputs, target)

    with pytest.raises(KeyboardInterrupt):
        train(model, interrupted, tags(), plan_with(), directory=tmp_path)
    assert signal.getsignal(signal.SIGINT) is before
    assert load_checkpoint(tmp_path).step == 23
    model = perceptron(seed=9)
    train(model, wasserstein(), tags(), plan_with(), directory=tmp_path, resume=True)
    assert same(model, undisturbed)

    model = perceptron()
    calls.clear()
    with pytest.raises(KeyboardInterrupt):  # nothing to save, so it is raised immediately
        train(model, interrupted, tags(), plan_with())
    assert len(calls) == 23


def test_a_finished_run_can_be_made_longer(tmp_path: Path) -> None:
    short, long = plan_with(schedule="constant"), plan_with(schedule="constant", steps=80)
    model, straight = perceptron(), perceptron()
    train(model, wasserstein(), tags(), short, directory=tmp_path)
    train(model, wasserstein(), tags(), long, directory=tmp_path, resume=True)
    train(straight, wasserstein(), tags(), long)
    assert same(model, straight)


def test_resume_begins_where_there_is_nothing_yet(tmp_path: Path) -> None:
    model, straight = linear(), linear()
    train(model, wasserstein(), tags(), plan_with(), directory=tmp_path / "new", resume=True)
    train(straight, wasserstein(), tags(), plan_with())
    assert same(model, straight)


# --- damage -------------------------------------------------------------------------------------


def damage(path: Path, how: str) -> None:
    content = bytearray(path.read_bytes())
    if how == "cut short":
        del content[len(content) // 2 :]
    elif how == "header cut short":
        del content[100:]
    elif how == "tensors changed":
        content[-1] ^= 1
    elif how == "state changed":
        content = content.replace(b'"step\\": 50', b'"step\\": 49')
    elif how == "empty":
        content.clear()
    elif how == "something else":
        content[:] = b"[]"
    path.write_bytes(content)


DAMAGES = [
    "cut short",
    "header cut short",
    "tensors changed",
    "state changed",
    "empty",
    "something else",
]


@pytest.mark.parametrize("how", DAMAGES)
def test_a_damaged_checkpoint_is_passed_over(tmp_path: Path, how: str) -> None:
    undisturbed, model = perceptron(), perceptron()
    train(undisturbed, wasserstein(), tags(), plan_with(), directory=tmp_path)
    damage(tmp_path / "checkpoint-00000050.safetensors", how)
    with pytest.raises(
        CheckpointError, match=r"checkpoint-00000050.safetensors is not a valid checkpoint: "
    ):
        load_checkpoint(tmp_path / "checkpoint-00000050.safetensors")
    with pytest.warns(
        CheckpointWarning, match=r"50.safetensors is not .*; continuing from checkpoint-00000040"
    ):
        train(model, wasserstein(), tags(), plan_with(), directory=tmp_path, resume=True)
    assert same(model, undisturbed)
    assert load_checkpoint(tmp_path / "checkpoint-00000050.safetensors").step == 50
    assert len(list(tmp_path.glob("damaged-*"))) == 1


def test_nothing_but_damage_is_an_error(tmp_path: Path) -> None:
    train(linear(), wasserstein(), tags(), plan_with(), directory=tmp_path)
    for path in tmp_path.glob("checkpoint-*"):
        damage(path, "cut short")
    with pytest.raises(CheckpointError, match=r"50.safetensors is not .*; .*40.safetensors is not"):
        train(linear(), wasserstein(), tags(), plan_with(), directory=tmp_path, resume=True)


def test_a_full_disk_loses_nothing(tmp_path: Path) -> None:
    """The second checkpoint does not fit: writes fail in the middle, as on a full disk."""
    resource = pytest.importorskip("resource", reason="needs POSIX: limits")
    _, hard = limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    loss_fn, calls = wasserstein(), []

    def filling(outputs: Tensor, target: Any) -> Tensor:
        calls.append(1)
        if len(calls) == 15:
            resource.setrlimit(resource.RLIMIT_FSIZE, (4000, hard))
        return loss_fn(outputs, target)

    undisturbed, model = perceptron(), perceptron()
    try:
        with pytest.raises(OSError, match=r"of step 20 to .*earlier ones are intact: free"):
            train(model, filling, tags(), plan_with(log_every=50), directory=tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert load_checkpoint(tmp_path / "checkpoint-00000010.safetensors").step == 10
    names = sorted(p.name for p in tmp_path.iterdir())
    assert names == [".wassloss.lock", "checkpoint-00000010.safetensors", "log.jsonl"]

    train(undisturbed, wasserstein(), tags(), plan_with())
    train(model, wasserstein(), tags(), plan_with(log_every=50), directory=tmp_path, resume=True)
    assert same(model, undisturbed)


def test_a_disk_that_fills_in_the_log_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    undisturbed, model = perceptron(), perceptron()
    train(undisturbed, wasserstein(), tags(), plan_with())
    resource = pytest.importorskip("resource", reason="needs POSIX: limits")
    _, hard = limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    loss_fn, calls = wasserstein(), []

    def filling(outputs: Tensor, target: Any) -> Tensor:
        calls.append(1)
        if len(calls) == 13:
            resource.setrlimit(resource.RLIMIT_FSIZE, (500, hard))
        return loss_fn(outputs, target)

    try:
        with pytest.raises(OSError) as caught:  # noqa: PT011
            train(model, filling, tags(), plan_with(log_every=1), directory=tmp_path)
        assert caught.value.errno == errno.EFBIG
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    log = train(
        model, wasserstein(), tags(), plan_with(log_every=1), directory=tmp_path, resume=True
    )
    assert same(model, undisturbed)
    assert [record.step for record in log] == list(range(1, 51))


# --- what is not the run's own ------------------------------------------------------------------


def test_only_the_last_checkpoints_are_kept(tmp_path: Path) -> None:
    # Left by a run that was killed.
    (tmp_path / ".checkpoint-00000010.safetensors.deadbeef.wassloss.tmp").touch()
    train(linear(), wasserstein(), tags(), plan_with(), directory=tmp_path)
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == [
        ".wassloss.lock",
        *(f"checkpoint-000000{n}.safetensors" for n in (40, 50)),
        "log.jsonl",
    ]


def test_a_run_is_not_overwritten_or_mixed_up(tmp_path: Path) -> None:
    train(linear(), wasserstein(), tags(), plan_with(), directory=tmp_path)

    def again(model: Any = None, data: Any = None, resume: bool = True, **changes: Any) -> None:
        plan = plan_with(**changes)
        train(
            model or linear(),
            wasserstein(),
            data or tags(),
            plan,
            directory=tmp_path,
            resume=resume,
        )

    with pytest.raises(ValueError, match="directory must be new, or resume=True, got "):
        again(resume=False)
    with pytest.raises(ValueError, match="seed must be the run's own 0 to resume it, got 1"):
        again(seed=1)
    with pytest.raises(
        ValueError, match="examples must be the run's own 200 to resume it, got 100"
    ):
        again(data=tags(100))
    with pytest.raises(CheckpointError, match="the checkpoint is of another model: Error"):
        again(model=perceptron())


def test_tied_weights_are_saved(tmp_path: Path) -> None:
    class Tied(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.one, self.other = torch.nn.Linear(6, 6), torch.nn.Linear(6, 6)
            self.other.weight = self.one.weight
            self.last = torch.nn.Linear(6, 5)

        def forward(self, x: Tensor) -> Tensor:
            y: Tensor = self.last(self.other(self.one(x).tanh()))
            return y

    torch.manual_seed(0)
    undisturbed = Tied()
    torch.manual_seed(0)
    model = Tied()
    train(undisturbed, wasserstein(), tags(), plan_with())
    with pytest.raises(Crash):
        train(model, crashing(25), tags(), plan_with(), directory=tmp_path)
    train(model, wasserstein(), tags(), plan_with(), directory=tmp_path, resume=True)
    assert same(model, undisturbed)
