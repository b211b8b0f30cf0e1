"""Thousands of random calls, checked in three ways: `python -m tests.fuzz`.

docs/developers/robustness.md describes them.
"""

from __future__ import annotations

import argparse
import math
import sys
import time

import torch

from tests.fuzz.long.campaign import Failure, run, run_batch, table
from tests.fuzz.long.kinds import KINDS


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--calls", type=int, default=20_000, help="calls in all (20000)")
    parser.add_argument(
        "--minutes", type=float, default=math.inf, help="when to stop at the latest"
    )
    parser.add_argument("--seed", type=int, default=0, help="where random numbers begin (0)")
    parser.add_argument(
        "--kind", action="append", choices=list(KINDS), help="only this; repeatable"
    )
    parser.add_argument("--batch", type=int, help="this batch of one kind, and nothing else")
    asked = parser.parse_args(arguments)
    if asked.batch is not None and len(asked.kind or []) != 1:
        parser.error("--batch needs one --kind")
    torch.set_num_threads(1)  # problems are tiny, so a second thread would only wait
    if asked.batch is not None:
        tally, failure = run_batch(asked.kind[0], asked.seed, asked.batch)
        say(str(tally) if failure is None else str(failure))
        return 0 if failure is None else 1
    started = time.monotonic()
    kinds = asked.kind or list(KINDS)
    records = run(asked.calls, 60 * asked.minutes, asked.seed, kinds, on_failure=announce)
    say(table(records))
    count = sum(len(record.failures) for record in records.values())
    say(f"seed {asked.seed}: {count} failures in {(time.monotonic() - started) / 60:.1f} minutes")
    return 1 if count else 0


def announce(failure: Failure) -> None:
    say(f"FAILED {failure}\n")


def say(words: str) -> None:
    sys.stdout.write(words + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
