"""Make small changes to the library, one at a time, and check whether a test fails.

    python -m scripts.mutants --count 300 --seed 0 --out build/mutants.jsonl

The sample depends only on the seed and the sources. Results are appended to the file one by one,
and changes that it already has are not run again. Changes are made in a copy of the checkout.

mutmut and cosmic-ray do not fit: the first replaces functions by trampolines, whose source Triton
and torch.compile would read; the second changes the checkout itself.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

from scripts.mutants.changes import Change, changes

ROOT = Path(__file__).parents[2]
SOURCE = "src/wassloss/"
# The tests that cover a file, by the beginning of its path, fast ones first.
WORKS = "tests/works/test_works.py::test_a_share_of_the_cells"
DIFFERENCES = "tests/works/test_works.py::test_gradients_in_double_precision_are_differences"
COVERED_BY: dict[str, list[str]] = {
    "ground/": ["tests/ground"],
    "targets.py": ["tests/test_targets.py", "tests/test_bad_input.py"],
    "losses/baselines/": ["tests/losses/test_baselines.py", WORKS],
    "losses/evaluators/triton.py": ["tests/kernels/test_loss.py"],
    "losses/": [
        *("tests/losses/test_evaluators.py", DIFFERENCES, "tests/losses/test_softened.py"),
        *("tests/losses/test_functional.py", "tests/losses/test_modules.py"),
        *("tests/losses/test_units.py", "tests/losses/test_as_cross_entropy.py"),
        *("tests/losses/test_dense_targets.py", "tests/test_bad_input.py"),
    ],
    "transport/newton/gpu.py": ["tests/transport/test_newton_gpu.py"],
    "transport/solver.py": ["tests/test_bad_input.py", "tests/transport"],
    "transport/": ["tests/transport", DIFFERENCES],
    "kernels/triton/cross_entropy.py": ["tests/kernels/test_cross_entropy.py"],
    "kernels/triton/euclidean.py": ["tests/kernels/test_euclidean.py"],
    "kernels/triton/gibbs.py": [
        "tests/kernels/test_gibbs.py",
        "tests/transport/test_kernel_sums.py",
    ],
    "kernels/triton/linear_head.py": ["tests/kernels/test_linear_head.py"],
    "kernels/triton/newton": [
        *("tests/kernels/test_newton_step.py", "tests/transport/test_newton_gpu.py"),
        "tests/kernels/test_loss.py",
    ],
    "kernels/": [
        *("tests/kernels/test_newton_step.py", "tests/kernels/test_summary.py"),
        *("tests/kernels/test_launch.py", "tests/kernels/test_loss.py"),
    ],
    "native/newton.hpp": ["tests/native", "tests/transport/test_newton.py"],
    "native/": ["tests/native"],
    "scores/differences.py": ["tests/scores/test_differences.py"],
}
# A change is also caught if its tests take much longer than without it, because it may never end.
# Measured in processor time, which does not depend on other work of the machine.
ALLOWED = (2.0, 30.0)  # factor, and additional seconds
PYTEST = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider"]
BUILD = [sys.executable, "setup.py", "-q", "build_ext", "--inplace"]
Result = dict[str, str | float | int]


def tests_of(path: str) -> list[str]:
    """Return the tests of a file, those with its name first."""
    inner = path.removeprefix(SOURCE)
    listed = next(tests for start, tests in COVERED_BY.items() if inner.startswith(start))
    own = Path("tests", inner).with_name(f"test_{Path(inner).stem}.py")
    first = [str(own)] if (ROOT / own).exists() and str(own) not in listed else []
    doctests = [path] if path.endswith(".py") and ">>>" in (ROOT / path).read_text() else []
    return [*first, *listed, *doctests]


def sample(count: int, seed: int) -> list[Change]:
    """Draw changes from all files, in proportion to their lines of code."""
    files = [
        str(path.relative_to(ROOT))
        for pattern in ("*.py", "*.hpp", "*.cpp")
        for path in sorted((ROOT / SOURCE).rglob(pattern))
    ]
    covered = [path for path in files if path.removeprefix(SOURCE).startswith(tuple(COVERED_BY))]
    every = [change for path in covered for change in changes(ROOT, path)]
    return random.Random(seed).sample(every, min(count, len(every)))


COPIED = ("conftest.py", "pyproject.toml", "setup.py", "README.md", "scripts/readme.py")


class Copies:
    """One copy of the checkout per thread."""

    def __init__(self, folder: Path, seconds: float | None) -> None:
        self.folder, self.local, self.made = folder, threading.local(), 0
        self.seconds = seconds  # limit for tests that are known to pass
        self.lock = threading.Lock()
        self.allowed: dict[tuple[str, ...], float] = {}

    def mine(self) -> Path:
        if not hasattr(self.local, "path"):
            with self.lock:
                self.made += 1
                self.local.path = self.folder / str(self.made)
            skip = shutil.ignore_patterns("__pycache__", "*.png", "*.gz", "experiments")
            for name in ("src", "tests", "experiments"):
                shutil.copytree(ROOT / name, self.local.path / name, ignore=skip)
            for name in COPIED:
                (self.local.path / name).parent.mkdir(exist_ok=True)
                shutil.copy(ROOT / name, self.local.path / name)
        return Path(self.local.path)

    def usual(self, tests: list[str]) -> float:
        """Time the tests without a change, which must pass."""
        if self.seconds is not None:
            return self.seconds
        key = tuple(tests)
        if key not in self.allowed:
            code, printed, seconds = command([*PYTEST, *tests], self.mine())
            if code:
                raise RuntimeError(f"tests fail without any change:\n{printed[-2000:]}")
            self.allowed[key] = ALLOWED[0] * seconds + ALLOWED[1]
        return self.allowed[key]


def run(change: Change, copies: Copies) -> Result:
    """Make a change, run its tests, and undo it."""
    copy, tests = copies.mine(), tests_of(change.path)
    allowed = copies.usual(tests)
    path, native = copy / change.path, not change.path.endswith(".py")
    original = path.read_text(encoding="utf-8")
    path.write_text(change.applied(original), encoding="utf-8")
    try:
        if native and command(BUILD, copy)[0]:
            return _result(change, "broken", 0.0, "")
        code, printed, seconds = command([*PYTEST, *tests], copy, allowed)
    finally:
        path.write_text(original, encoding="utf-8")
    failed = re.search(r"^(?:FAILED|ERROR) (\S+)", printed, flags=re.M)
    outcome = {0: "survived", 1: "caught", 2: "caught"}.get(code, "caught: crash or endless")
    return _result(change, outcome, seconds, failed[1] if failed else printed[-200:])


def command(words: list[str], copy: Path, seconds: float = math.inf) -> tuple[int, str, float]:
    """Run a program within a copy; return its exit code, output and processor time."""
    environment = os.environ | {
        "PYTHONPATH": str(copy / "src"), "OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1",
    }  # fmt: skip
    limit = [] if seconds == math.inf else ["prlimit", f"--cpu={math.ceil(seconds)}"]
    with tempfile.TemporaryFile("w+") as out:
        process = subprocess.Popen(
            [*limit, *words], cwd=copy, env=environment, stdout=out, stderr=subprocess.STDOUT
        )
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        return process.returncode, out.read(), used.ru_utime + used.ru_stime


def _result(change: Change, outcome: str, seconds: float, by: str) -> Result:
    words = {"change": str(change), "outcome": outcome, "by": by if outcome != "survived" else ""}
    return {"key": change.key, **words, "seconds": round(seconds, 1)}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m scripts.mutants", description=__doc__)
    parser.add_argument("--count", type=int, default=300, help="number of changes (300)")
    parser.add_argument("--seed", type=int, default=0, help="seed of the sample (0)")
    parser.add_argument("--jobs", type=int, default=2, help="changes tested in parallel (2)")
    parser.add_argument("--seconds", type=float, help="limit for tests that are known to pass")
    parser.add_argument("--only", default="", help="only files whose path contains this")
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "mutants.jsonl")
    asked = parser.parse_args()
    asked.out.parent.mkdir(parents=True, exist_ok=True)
    results: dict[str, Result] = {}
    if asked.out.exists():
        lines = asked.out.read_text(encoding="utf-8").splitlines()
        results = {result["key"]: result for result in map(json.loads, lines)}
    chosen = [change for change in sample(asked.count, asked.seed) if asked.only in change.path]
    left = [change for change in chosen if change.key not in results]
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        copies = Copies(Path(folder), asked.seconds)
        with ThreadPoolExecutor(asked.jobs) as pool, asked.out.open("a", encoding="utf-8") as out:
            for done in as_completed([pool.submit(run, change, copies) for change in left]):
                result = done.result()
                results[str(result["key"])] = result
                out.write(json.dumps(result) + "\n")
                out.flush()
                words = f"{result['outcome']:>10}, {result['seconds']:5} s: {result['change']}"
                print(words, flush=True)
    found = [results[change.key] for change in chosen]
    counts = Counter(str(result["outcome"]).split(":")[0] for result in found)
    made = len(found) - counts["broken"]
    print(f"{made} changes, {counts['caught']} caught ({counts['caught'] / max(made, 1):.1%})")
    for result in found:
        if result["outcome"] == "survived":
            print(f"survived: {result['change']}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
