"""Compare wassloss with other libraries on the same problems, in one run.

    python benchmarks/run.py --suite quick            # two or three minutes on two cores
    python benchmarks/run.py --suite full --device cuda
    python benchmarks/run.py --suite points --device cuda  # one pair of 1000 to 50 000 points
    python benchmarks/run.py --suite support          # ours alone, from one target label to all
    python benchmarks/run.py --check                  # do all solve the same problem?
    python benchmarks/plots.py docs/benchmarks/cpu.json

Writes `cpu.json` and `cpu.md` (`cuda.…` on a GPU) after each case; the suites `points` and
`support` have files of their own, `cpu-points.json` and so on. Libraries that are not installed are
reported as missing: `pip install '.[bench]'` installs them.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import entropic
import exact
import machine
import output
import table
import training
from contenders import Contender
from measure import Limits, Measurement, measure
from problems import MANY_DIMENSIONS, WORD_VECTORS, Case, Work

HEADLINE = Case()
SECONDS = {
    "quick": 10.0,
    "reference": 60.0,
    "full": 60.0,
    "points": 20.0,
    "support": 10.0,
}  # per contender, by default
MEMORY_SHARE = 0.5  # share of the machine's memory for the largest arrays of one contender


@dataclass(frozen=True)
class Group:
    """One case and its contenders; times are relative to the first."""

    kind: str
    case: Case
    contenders: tuple[Contender, ...]

    @property
    def title(self) -> str:
        return f"{self.kind}: {self.case}"

    def on(self, device: str) -> list[Contender]:
        """The contenders that can solve the case on a device."""
        return [c for c in self.contenders if c.suits(self.case) and c.device in (None, device)]


def quick() -> Iterator[Group]:
    yield _entropic(HEADLINE)
    yield _entropic(replace(HEADLINE, labels=100))
    yield from _others()


def reference() -> Iterator[Group]:
    """The quoted cases, the sparse ones in both precisions and two batch sizes."""
    single = replace(HEADLINE, dtype="float32", tol=1e-5)
    yield _entropic(single)
    yield _entropic(replace(single, batch=1024))
    yield _many_labels()
    yield from _others()
    dense = replace(HEADLINE, support=HEADLINE.labels, dimensions=MANY_DIMENSIONS)
    yield _entropic(replace(dense, dtype="float32", tol=1e-5, epsilon=0.1))
    yield _entropic(dense)
    yield _entropic(HEADLINE)
    yield _entropic(replace(single, dimensions=MANY_DIMENSIONS))
    yield _entropic(replace(single, labels=10_000))


def full() -> Iterator[Group]:
    """Variations of the headline case, one quantity at a time."""
    yield _entropic(HEADLINE)
    yield _entropic(replace(HEADLINE, dtype="float32", tol=1e-5))
    yield from _others()
    yield _many_labels()
    for labels in (100, 10_000, 100_000):
        yield _entropic(replace(HEADLINE, labels=labels))
    for batch in (10, 1000):
        yield _entropic(replace(HEADLINE, batch=batch))
    for support in (1, 20, HEADLINE.labels):
        yield _entropic(replace(HEADLINE, support=support))
    for epsilon in (0.1, 0.002):
        yield _entropic(replace(HEADLINE, epsilon=epsilon))
    yield _entropic(replace(HEADLINE, support=HEADLINE.labels, epsilon=0.1))
    yield _entropic(replace(HEADLINE, labels=100, support=100))
    yield _entropic(replace(HEADLINE, dimensions=MANY_DIMENSIONS))


def points() -> Iterator[Group]:
    """One pair of dense measures on many points, where solvers of point clouds are strong."""
    one = replace(HEADLINE, batch=1, epsilon=0.1, dtype="float32", tol=1e-5)
    for labels in (1000, 10_000, 50_000):
        for dimensions in (3, 64):
            yield _entropic(replace(one, labels=labels, support=labels, dimensions=dimensions))


def support() -> Iterator[Group]:
    """Ours alone over the number of target labels: its time should grow without a step."""
    ours = tuple(c for c in entropic.CONTENDERS if c.name.startswith("wassloss"))
    for dtype, tol in (("float32", 1e-5), ("float64", HEADLINE.tol)):
        for labels in (*(1, 2, 4, 8, 12, 16, 20, 24, 32, 48, 64, 128, 256, 512), HEADLINE.labels):
            case = replace(HEADLINE, support=labels, dtype=dtype, tol=tol)
            yield Group("entropic", case, ours)


SUITES = {
    "quick": quick,
    "reference": reference,
    "full": full,
    "points": points,
    "support": support,
}
OF_THEIR_OWN = {"points", "support"}  # whose results would otherwise replace those of the rest


def _others() -> Iterator[Group]:
    yield Group("exact", replace(HEADLINE, epsilon=0.0), exact.CONTENDERS)
    single = replace(HEADLINE, dtype="float32", tol=1e-5)
    kind = f"{training.PASSES} × forward and backward"
    for batch in (single.batch, 1024):
        case = replace(single, batch=batch)
        yield from _each_way(f"{kind}, class ids", replace(case, support=1), training.ONE_HOT)
        yield from _each_way(f"{kind}, tags", case, training.TAGS)
    kind = f"{training.PASSES} training steps, linear model of {training.FEATURES} features"
    yield from _each_way(kind, single, training.STEP)
    yield from _each_way(kind, replace(single, epsilon=0.1), training.STEP)


def _each_way(kind: str, case: Case, ways: dict[str, training.Contenders]) -> Iterator[Group]:
    for way, contenders in ways.items():
        yield Group(kind + way, case, contenders)


def _many_labels() -> Group:
    single = replace(HEADLINE, dtype="float32", tol=1e-5)
    case = replace(single, labels=100_000, batch=256, dimensions=WORD_VECTORS)
    kind = f"{training.PASSES} × forward and backward, tags"
    return Group(kind, case, training.MANY_LABELS)


def _entropic(case: Case) -> Group:
    return Group("entropic", case, entropic.CONTENDERS)


def run(
    group: Group, device: str, limits: Limits, without: Sequence[str] = ()
) -> dict[str, Any] | None:
    """Measure all contenders; None if there are none."""
    here = [c for c in group.on(device) if not any(part in c.name for part in without)]
    if not here:
        return None
    _say(f"\n{group.title}")
    work = Work.of(group.case, device)
    measurements = []
    for contender in here:
        measurement = measure(contender, work, limits)
        measurements.append(measurement)
        _say(f"  {contender.name:42} {_summary(measurement)}")
    return {
        "kind": group.kind,
        "title": group.title,
        "case": asdict(group.case),
        "measurements": [asdict(m) for m in measurements],
    }


def check(device: str) -> bool:
    """Solve a small case with all contenders, to high accuracy, and compare the marginals."""
    case = Case(labels=30, batch=4, support=4, epsilon=0.1, tol=1e-7)
    groups = (
        _entropic(case),
        _entropic(replace(case, support=case.labels)),
        Group("exact", replace(case, epsilon=0.0), exact.CONTENDERS),
    )
    good = True
    for group in groups:
        work = Work.of(group.case, device)
        for contender in group.on(device):
            result = measure(contender, work, Limits(30.0, 4.0))
            # The error of GeomLoss falls like one over its number of iterations; FlashSinkhorn has
            # single precision.
            rough = {"GeomLoss": 1e-2, "FlashSinkhorn": 1e-4}
            wanted = rough.get(contender.name.split()[0], 10 * case.tol)
            fine = result.not_run is not None or (
                result.error is not None and result.error <= wanted
            )
            good = good and fine
            _say(f"{'ok ' if fine else 'BAD'} {contender.name:42} {_summary(result)}")
    return good


def _summary(measurement: Measurement) -> str:
    if measurement.not_run:
        return measurement.not_run
    error = "" if measurement.error is None else f"error {measurement.error:.1e}"
    return f"{table.duration(measurement.median):>10}  {error}  {len(measurement.seconds)} runs"


def _say(text: str) -> None:
    print(text, flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--suite", choices=SUITES, default="quick")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--limit", type=float, help="seconds for one contender")
    parser.add_argument("--memory", type=float, help="gigabytes for one contender")
    parser.add_argument(
        "--without",
        nargs="*",
        default=[],
        metavar="TEXT",
        help="leave out contenders whose name has this in it, where they would take too long",
    )
    parser.add_argument("--out", type=Path, default=Path("docs/benchmarks"))
    parser.add_argument("--check", action="store_true", help="compare the answers, not the times")
    arguments = parser.parse_args()
    if arguments.check:
        return 0 if check(arguments.device) else 1

    limits = Limits(
        arguments.limit or SECONDS[arguments.suite],
        arguments.memory or MEMORY_SHARE * machine.memory_gigabytes(arguments.device),
    )
    results: dict[str, Any] = {
        "suite": arguments.suite,
        "device": arguments.device,
        "date": datetime.now(timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
        "limits": asdict(limits),
        "without": arguments.without,
        "machine": machine.describe(arguments.device),
        "versions": machine.versions(),
        "headline": asdict(HEADLINE),
        "groups": [],
    }
    of_its_own = f"-{arguments.suite}" if arguments.suite in OF_THEIR_OWN else ""
    path = arguments.out / f"{arguments.device}{of_its_own}.json"
    for group in SUITES[arguments.suite]():
        measured = run(group, arguments.device, limits, arguments.without)
        if measured is None:
            continue
        results["groups"].append(measured)
        output.write(path, (json.dumps(results, indent=1) + "\n").encode())
        table.write(results, path)
    _say(f"\n{path.with_suffix('.md')}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
