"""Compare wassloss with other libraries on the same problems, in one run.

    python benchmarks/run.py --suite quick            # a few minutes on two cores
    python benchmarks/run.py --suite full --device cuda
    python benchmarks/run.py --suite goals points support growth --device cuda --budget 300
    python benchmarks/run.py --check                  # check that all solve the same problem
    python benchmarks/plots.py docs/benchmarks/cpu.json

points    one pair of 1000 to 50 000 points, the case that point-cloud solvers are made for
support   wassloss alone, from one target label to all
goals     the project's performance goals, next to what is measured
growth    the part of `full` that the pictures over K, B, s and 1/ε need

Writes `cpu.json` and `cpu.md` (`cuda.…` on a GPU) after each row; `points`, `support` and `goals`
have separate files, `cpu-points.json` and so on. Each library runs in its own process, and a row
that takes too long or crashes ends only that row. Libraries that are not installed are reported as
missing: `pip install --group bench` installs them.
"""

from __future__ import annotations

import argparse
import queue
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import entropic
import exact
import figures
import machine
import output
import table
from contenders import OURS, Contender
from measure import Limits, Measurement, measure
from problems import Case, Work
from processes import Worker
from suites import HEADLINE, OF_THEIR_OWN, SECONDS, SUITES, Group, tiny

MEMORY_SHARE = 0.5  # share of the machine's memory for the largest arrays of one contender
PATIENCE = 4, 20.0  # a row is ended after so many times the limit plus so many seconds
ENOUGH = {"cpu": 1.0, "cuda": 0.25}  # seconds of repeats; a GPU's times vary less
WEIGHTS = {"goals": 2, "points": 4, "support": 2}  # in the budget; 3 for the others
FIRST = (OURS, f"{OURS}, graphs", "FlashSinkhorn", "OTT")  # libraries to measure first
WARMING = 45.0  # seconds for compiling kernels in advance, in parallel
FAILURES = 2  # of a contender in a graph before larger targets are skipped


@dataclass
class Budget:
    """The time until which a run may continue, and shares of it."""

    end: float

    @classmethod
    def of(cls, seconds: float | None) -> Budget:
        return cls(time.monotonic() + seconds if seconds else float("inf"))

    @property
    def left(self) -> float:
        return self.end - time.monotonic()

    def share(self, part: float, whole: float) -> Budget:
        return Budget(time.monotonic() + self.left * part / whole)


@dataclass(frozen=True)
class Row:
    """One contender on the case of one group."""

    suite: str
    index: int
    group: Group
    contender: Contender

    def job(
        self, device: str, limits: Limits, *, once: bool = False, last: bool = False
    ) -> dict[str, Any]:
        """The message to a worker: only call it `once`; free the problem after the `last` row."""
        return {
            "suite": self.suite,
            "group": self.index,
            "contender": self.contender.name,
            "case": asdict(self.group.case),
            "device": device,
            "limits": asdict(limits),
            "once": once,
            "last": last,
        }


class Run:
    """Measure suites with one worker per library, and write the results after each row."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self.device, self.out = arguments.device, arguments.out
        self.without, self.only = arguments.without, arguments.only
        self.small, self.limit = arguments.tiny, arguments.limit
        share = MEMORY_SHARE * machine.memory_gigabytes(self.device)
        self.memory = arguments.memory or share
        self.workers: dict[str, Worker] = {}
        self.facts = {
            "device": self.device,
            "without": self.without,
            "machine": machine.describe(self.device),
            "versions": machine.versions(),
        }

    def limits(self, suite: str) -> Limits:
        return Limits(self.limit or SECONDS[suite], self.memory, ENOUGH[self.device])

    def rows(self, suite: str) -> list[Row]:
        groups = list(SUITES[suite]())
        shown = [tiny(group) for group in groups] if self.small else groups
        return [
            Row(suite, i, group, contender)
            for i, group in enumerate(shown)
            for contender in groups[i].on(self.device)
            if not any(part in contender.name for part in self.without)
            and (not self.only or any(part in contender.name for part in self.only))
        ]

    def warm(self, suites: Sequence[str], processes: int) -> None:
        """Compile kernels in several processes, into the cache on disk that all share."""
        every = [row for suite in suites for row in self.rows(suite)]
        rows = [row for row in every if row.contender.compiles(row.group.case)]
        seen: dict[tuple[str, Case], Row] = {}
        for row in rows:
            # The strength and the tolerance are arguments, not code.
            case = replace(row.group.case, epsilon=0.1, tol=1e-4)
            seen.setdefault((row.contender.name, case), row)
        _say(f"compiling for {len(seen)} cases in {processes} processes")
        waiting: queue.SimpleQueue[Row] = queue.SimpleQueue()
        for row in seen.values():
            waiting.put(row)
        budget = Budget.of(WARMING)
        for library in {row.contender.library for row in every}:
            self.worker(library).start()  # imports take seconds

        def go_on(_: int) -> None:
            worker = Worker()
            with suppress(queue.Empty):
                while budget.left > 0:
                    row = waiting.get_nowait()
                    job = row.job(self.device, self.limits(row.suite), once=True)
                    worker.ask(job, budget.left, starting=0.0)
            worker.stop()

        with ThreadPoolExecutor(processes) as pool:
            list(pool.map(go_on, range(processes)))
        _say(f"{waiting.qsize()} cases left to be compiled when they are measured")

    def worker(self, library: str) -> Worker:
        return self.workers.setdefault(library, Worker())

    def suite(self, name: str, budget: Budget) -> Path:
        """Measure all rows of a suite, library by library."""
        limits = self.limits(name)
        results: dict[str, Any] = {
            "suite": name,
            "date": datetime.now(timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
            **self.facts,
            "limits": asdict(limits),
            "headline": asdict(HEADLINE),
            "groups": [],
        }
        rows = self.rows(name)
        path = self.out / f"{self.device}{f'-{name}' if name in OF_THEIR_OWN else ''}.json"
        found: dict[tuple[int, str], dict[str, Any]] = {}
        libraries = list(dict.fromkeys(row.contender.library for row in rows))
        libraries.sort(key=lambda one: FIRST.index(one) if one in FIRST else len(FIRST))
        for place, library in enumerate(libraries):
            own = [row for row in rows if row.contender.library == library]
            _say(f"\n{name}: {library}")
            weights = [2 if one in FIRST else 1 for one in libraries[place:]]
            share = budget.share(weights[0], sum(weights)) if place else budget
            failures = 0
            for row in own:
                measurement = self.measure(row, limits, share, failures, last=row is own[-1])
                broken = "graph" in library and bool(measurement.not_run)
                failures = failures + 1 if broken else 0
                found[row.index, row.contender.name] = asdict(measurement)
                _say(f"  {row.group.case}  {row.contender.name}: {_summary(measurement)}")
                results["groups"] = _groups(rows, found)
                output.write_record(path, results)
                table.write(results, path)
        return path

    def measure(
        self, row: Row, limits: Limits, budget: Budget, failures: int, *, last: bool
    ) -> Measurement:
        name, case = row.contender.name, row.group.case
        need = row.contender.gigabytes(case)
        if need > limits.gigabytes:
            return Measurement(name, not_run=f"needs {need:.0f} GB")
        if budget.left <= 0:
            return Measurement(name, not_run="out of time")
        if failures >= FAILURES and case.support > 1:
            return Measurement(name, not_run="not tried, as smaller targets failed")
        patience = min(PATIENCE[0] * limits.seconds + PATIENCE[1], budget.left + PATIENCE[1])
        job = row.job(self.device, limits, last=last)
        answer = self.worker(row.contender.library).ask(job, patience)
        return Measurement(**{"contender": name, **answer})

    def stop(self) -> None:
        for worker in self.workers.values():
            worker.stop()


def _groups(rows: list[Row], found: dict[tuple[int, str], dict[str, Any]]) -> list[dict[str, Any]]:
    """The groups with at least one measurement, contenders in their own order."""
    made: dict[int, dict[str, Any]] = {}
    for row in rows:
        measured = found.get((row.index, row.contender.name))
        if measured is None:
            continue
        group = row.group
        about = {"kind": group.kind, "title": group.title, "case": asdict(group.case)}
        made.setdefault(row.index, {**about, "measurements": []})["measurements"].append(measured)
    return list(made.values())


def check(device: str) -> bool:
    """Solve a small case with all contenders, to high accuracy, and compare the marginals."""
    case = Case(labels=30, batch=4, support=4, epsilon=0.1, tol=1e-7)
    one = replace(case, support=case.labels, batch=1, dimensions=3, dtype="float32", tol=1e-4)
    groups = (
        Group("entropic", case, entropic.CONTENDERS),
        Group("entropic", replace(case, support=case.labels), entropic.CONTENDERS),
        Group("entropic", one, entropic.CONTENDERS),
        Group("exact", replace(case, epsilon=0.0), exact.CONTENDERS),
    )
    good = True
    for group in groups:
        work = Work.of(group.case, device)
        for contender in group.on(device):
            result = measure(contender, work, Limits(30.0, 4.0, 0.0))
            # The error of GeomLoss decreases like 1/iterations, and FlashSinkhorn has single
            # precision.
            rough = {"GeomLoss": 1e-2, "FlashSinkhorn": 1e-4}
            wanted = rough.get(contender.name.split(",")[0].split()[0], 0.0)
            wanted = max(wanted, 10 * group.case.tol)
            absent = (result.not_run or "").startswith("missing")
            graph = contender.library.endswith("graphs") and result.not_run is not None
            fine = absent or graph or (result.error is not None and result.error <= wanted)
            good = good and fine
            _say(f"{'ok ' if fine else 'BAD'} {contender.name:42} {_summary(result)}")
    return good


def _summary(measurement: Measurement) -> str:
    if measurement.not_run:
        return measurement.not_run
    error = "" if measurement.error is None else f"error {measurement.error:.1e}"
    count = "" if measurement.iterations is None else f"{measurement.iterations} iterations"
    runs = f"{len(measurement.seconds)} runs"
    return "  ".join(x for x in (figures.duration(measurement.median), error, count, runs) if x)


def _say(text: str) -> None:
    print(text, flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--suite", nargs="+", choices=SUITES, default=["quick"])
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--limit", type=float, help="seconds for one contender")
    parser.add_argument("--memory", type=float, help="gigabytes for one contender")
    parser.add_argument("--budget", type=float, help="seconds for all suites, shared among them")
    for option, what in (("--without", "leave out"), ("--only", "measure only")):
        text = f"{what} contenders whose name has this in it"
        parser.add_argument(option, nargs="*", default=[], metavar="TEXT", help=text)
    parser.add_argument(
        "--warm", type=int, default=0, metavar="N", help="first compile kernels in N processes"
    )
    parser.add_argument("--tiny", action="store_true", help="use small sizes, for a test run")
    parser.add_argument("--out", type=Path, default=Path("docs/benchmarks"))
    parser.add_argument("--check", action="store_true", help="compare the answers, not the times")
    arguments = parser.parse_args()
    if arguments.check:
        return 0 if check(arguments.device) else 1

    run, budget = Run(arguments), Budget.of(arguments.budget)
    try:
        if arguments.warm:
            run.warm(arguments.suite, arguments.warm)
        for place, name in enumerate(arguments.suite):
            weights = [WEIGHTS.get(one, 3) for one in arguments.suite[place:]]
            path = run.suite(name, budget.share(weights[0], sum(weights)))
            _say(f"\n{path.with_suffix('.md')}")
    finally:
        run.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
