"""Helpers for compiled code: none missing, none left over, whoever asks and whenever."""

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from wassloss.kernels import threads
from wassloss.kernels.threads import spread

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def four_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(4)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize("when", ["after-main", pytest.param("atexit", marks=pytest.mark.slow)])
def test_after_the_main_thread(when: str) -> None:
    """A thread that outlives it, or a hook at exit: the same answers."""
    pytest.importorskip("lightning_fabric")
    done = subprocess.run(
        [sys.executable, "-m", "tests.kernels.late_run", when],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
        env={**os.environ, "OMP_WAIT_POLICY": "passive"},
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    said = [line.split() for line in done.stdout.splitlines()]
    assert [words[0] for words in said] == ["early"] + ["late"] * (2 if when == "atexit" else 1)
    expected, *later = ([float(word) for word in words[1:]] for words in said)
    for answers in later:
        assert answers == pytest.approx(expected, rel=1e-5)


def count(batch: int) -> list[int]:
    """How often each example was worked on."""
    seen = [0] * batch

    def work(first: int, last: int, scratch: None) -> None:
        for i in range(first, last):
            seen[i] += 1

    spread(work, batch, lambda: None, batch)
    return seen


def test_every_example_once() -> None:
    for batch in (1, 3, 4, 100, 1001):
        assert count(batch) == [1] * batch


def test_from_many_threads_at_once() -> None:
    wrong: list[int] = []

    def check() -> None:
        wrong.extend(i for i in range(50) if count(37) != [1] * 37)

    callers = [threading.Thread(target=check) for _ in range(16)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert not wrong
    helpers = [t for t in threading.enumerate() if t.name.startswith("wassloss")]
    assert len(helpers) <= max(3, os.cpu_count() or 1)


def test_where_no_thread_can_be_started(monkeypatch: pytest.MonkeyPatch) -> None:
    """As at the end of the interpreter, or at the limit of a user's processes."""

    def refused(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refused)
    monkeypatch.setattr(threads, "_by_process", {})
    assert count(100) == [1] * 100


@pytest.mark.parametrize("whose", ["caller", "helper"])
def test_errors_are_raised_and_waited_for(whose: str) -> None:
    """No helper still writes once the call is over."""
    caller, busy = threading.current_thread(), []
    begun = {"caller": threading.Event(), "helper": threading.Event()}

    def work(first: int, last: int, scratch: None) -> None:
        me, other = "caller", "helper"
        if threading.current_thread() is not caller:
            me, other = other, me
        busy.append(first)
        begun[me].set()
        assert begun[other].wait(60)
        if me != whose:
            time.sleep(0.1)  # still at it when the other fails
        busy.remove(first)
        if me == whose:
            raise MemoryError("no room")

    with pytest.raises(MemoryError, match="no room"):
        spread(work, 64, lambda: None, 64)
    assert not busy
    assert count(64) == [1] * 64


def test_what_was_worked_on_is_let_go() -> None:
    """Helpers that never came keep no batch in memory."""
    import gc
    import weakref

    class Batch:
        pass

    kept = Batch()
    gone = weakref.ref(kept)

    def work(first: int, last: int, scratch: None, kept: Batch = kept) -> None:
        pass

    spread(work, 8, lambda: None, 8)
    del kept, work
    gc.collect()
    deadline = threading.Event()
    for _ in range(100):
        if gone() is None:
            break
        deadline.wait(0.05)
    assert gone() is None


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")
def test_after_a_fork() -> None:
    """A child inherits the memory of threads but not the threads."""
    assert count(100) == [1] * 100
    child = os.fork()
    if child == 0:
        right = False
        try:
            right = count(100) == [1] * 100
        finally:
            os._exit(0 if right else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert count(100) == [1] * 100


LOSS = """
import os, torch
import wassloss as wl

torch.set_num_threads(4)
# So few numbers that torch's own operations start no threads, which do not survive a fork.
logits = torch.randn(200, 64, generator=torch.Generator().manual_seed(0))
loss_fn = wl.WassersteinLoss(wl.ground.Ordinal(64), reduction="none")
target = wl.SparseTarget(torch.arange(400).view(200, 2) % 64, torch.full((200, 2), 0.5))
loss_fn(logits, target)
expected = loss_fn(logits, target)
child = os.fork()
if child == 0:
    os._exit(0 if torch.equal(loss_fn(logits, target), expected) else 1)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
assert torch.equal(loss_fn(logits, target), expected)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_loss_after_a_fork() -> None:
    pytest.importorskip(
        "numba", reason="without Numba torch's own threads compute, and they do not survive a fork"
    )
    done = subprocess.run(
        [sys.executable, "-c", LOSS], capture_output=True, text=True, timeout=200, check=False
    )
    assert done.returncode == 0, done.stderr
