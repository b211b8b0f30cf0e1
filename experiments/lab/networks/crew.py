"""Run jobs in worker processes, some with a GPU and some without, until the time is up."""

from __future__ import annotations

import heapq
import itertools
import multiprocessing
import os
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from typing import Any

from experiments.lab.networks.pieces import Pieces
from experiments.lab.networks.trials import Job, Run, run

Then = Callable[[Mapping[Job, Run]], Sequence[Job]]


@dataclass(frozen=True)
class Plan:
    """Jobs that belong together, for one queue.

    Attributes:
        queue: the queue of workers that run them.
        then: makes further jobs from the results, once all of them are done.
    """

    name: str
    queue: str
    jobs: Sequence[Job]
    then: Then | None = field(default=None, repr=False)


@dataclass(frozen=True)
class Crew:
    """The workers of one queue.

    Attributes:
        gpu: whether they see a GPU.
        beside: how many of them may work while another crew does, by its queue.
        also: other queues, whose jobs they take when their own is empty.
    """

    workers: int
    gpu: bool = False
    beside: Mapping[str, int] = field(default_factory=dict)
    also: tuple[str, ...] = ()


@dataclass
class _Worker:
    queue: str
    process: Any
    connection: Connection
    job: Job | None = None
    began: float = 0.0


class Foreman:
    """Hands out jobs in the order of plans and stores the results.

    Args:
        pieces: where results are stored; jobs with a result are not run again.
        known: results from elsewhere, used in the same way.
        crews: by queue.
        say: called with a line about progress.
    """

    def __init__(
        self,
        pieces: Pieces,
        crews: Mapping[str, Crew],
        say: Callable[[str], None],
        known: Mapping[Job, Run] | None = None,
    ) -> None:
        self.pieces, self.crews, self.say, self.known = pieces, crews, say, known or {}
        self.failed: dict[Job, str] = {}
        self._waiting: dict[str, list[tuple[int, int, Job]]] = {queue: [] for queue in crews}
        self._done: dict[Job, Run] = {}
        self._count = itertools.count()
        self._asked: set[Job] = set()
        self._open: list[tuple[int, Plan]] = []
        self._took: dict[str, float] = {}  # seconds of the last job, by task

    def work(
        self, plans: Sequence[Plan], seconds: float, meanwhile: Callable[[], None] = lambda: None
    ) -> int:
        """Work for at most this many seconds, and return the number of jobs left.

        A job that is unlikely to end in time is not started. `meanwhile` is called once a minute.
        """
        end = time.monotonic() + seconds
        self._open = list(enumerate(plans))
        for place, plan in self._open:
            self._ask(place, plan.queue, plan.jobs)
        self._continue_plans()
        workers = [
            self._start(queue) for queue, crew in self.crews.items() for _ in range(crew.workers)
        ]
        called = time.monotonic()
        try:
            while True:
                for worker in workers:
                    if self._may_begin(worker, workers):
                        self._give(worker, end - time.monotonic())
                busy = [worker for worker in workers if worker.job is not None]
                left = end - time.monotonic()
                if not busy or left <= 0:
                    break
                ready = wait([worker.connection for worker in busy], min(left, 5.0))
                for worker in busy:
                    if worker.connection in ready:
                        self._take(worker)
                if time.monotonic() - called > 60:
                    called = time.monotonic()
                    self.say(self._progress(left))
                    meanwhile()
        finally:
            for worker in workers:
                worker.process.terminate()
        running = sum(worker.job is not None for worker in workers)
        return running + sum(map(len, self._waiting.values()))

    def _progress(self, left: float) -> str:
        counts = ", ".join(f"{queue} {len(jobs)}" for queue, jobs in self._waiting.items())
        return (
            f"{left:.0f} s left; {len(self._done)} done, {len(self.failed)} failed; wait: {counts}"
        )

    def _ask(self, place: int, queue: str, jobs: Sequence[Job]) -> None:
        for job in jobs:
            if job in self._asked:
                continue
            self._asked.add(job)
            kept = self.known.get(job) or self.pieces.find(job)
            if kept is not None:
                self._done[job] = kept
            else:
                heapq.heappush(self._waiting[queue], (place, next(self._count), job))

    def _continue_plans(self) -> None:
        """Create the follow-up jobs of plans whose first jobs are done."""
        for place, plan in list(self._open):
            if all(job in self._done for job in plan.jobs):
                self._open.remove((place, plan))
                if plan.then is not None:
                    self._ask(place, plan.queue, plan.then(self._done))

    def _start(self, queue: str) -> _Worker:
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe()
        process = context.Process(target=_serve, args=(theirs,), daemon=True)
        with _environment(self.crews[queue].gpu):
            process.start()
        theirs.close()
        return _Worker(queue, process, ours)

    def _may_begin(self, worker: _Worker, workers: Sequence[_Worker]) -> bool:
        """Whether a worker is idle, and its crew is below the limits set by other busy crews."""
        busy = Counter(other.queue for other in workers if other.job is not None)
        limits = [n for queue, n in self.crews[worker.queue].beside.items() if busy[queue]]
        return worker.job is None and all(busy[worker.queue] < limit for limit in limits)

    def _give(self, worker: _Worker, left: float) -> None:
        """Give an idle worker the first job that would end in time."""
        if worker.job is not None or left <= 0:
            return
        for queue in (worker.queue, *self.crews[worker.queue].also):
            waiting = self._waiting.get(queue, [])
            fitting = (e for e in sorted(waiting) if self._took.get(e[2].task, 0) < left)
            entry = next(fitting, None)
            if entry is not None:
                waiting.remove(entry)
                heapq.heapify(waiting)
                worker.job, worker.began = entry[2], time.monotonic()
                worker.connection.send(worker.job)
                return

    def _take(self, worker: _Worker) -> None:
        job, worker.job = worker.job, None
        if job is None:
            return
        try:
            found = worker.connection.recv()
        except (EOFError, OSError):  # killed, for example when out of memory
            found = f"the process ended with {worker.process.exitcode}"
            fresh = self._start(worker.queue)
            worker.process, worker.connection = fresh.process, fresh.connection
        if isinstance(found, str):
            self.failed[job] = found
            self.say(f"{job} failed: {found.strip().splitlines()[-1]}")
            return
        self._took[job.task] = time.monotonic() - worker.began
        self._done[job] = found
        self.pieces.keep(job, found)
        self._continue_plans()


@contextmanager
def _environment(gpu: bool) -> Iterator[None]:
    """Set the environment of new processes: one thread, and no GPU unless they may use it."""
    own = {"OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "passive"}
    own |= {} if gpu else {"CUDA_VISIBLE_DEVICES": ""}
    before = {name: os.environ.get(name) for name in own}
    os.environ.update(own)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _serve(connection: Connection) -> None:
    """Run jobs as they arrive; on failure, send a message instead of a result."""
    import torch

    torch.backends.cudnn.benchmark = True  # images have one size
    while True:
        try:
            job = connection.recv()
        except (EOFError, KeyboardInterrupt):
            return
        try:
            connection.send(run(job))
        except Exception:
            connection.send(traceback.format_exc(limit=-3))
