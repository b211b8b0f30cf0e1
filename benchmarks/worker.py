"""A process that measures contenders on request, with one line of JSON per job and answer.

`run.py` starts one for each library. A crash, a hang or a broken device then ends only one row,
and libraries do not share allocators, threads or captured graphs.
"""

from __future__ import annotations

import gc
import json
import os
import sys
from dataclasses import asdict
from functools import lru_cache
from typing import Any

import torch
from contenders import Contender
from measure import Limits, measure
from problems import Case, Work, forget_costs
from suites import SUITES, Group


@lru_cache
def groups(suite: str) -> tuple[Group, ...]:
    return tuple(SUITES[suite]())


@lru_cache(maxsize=1)
def work_of(case: Case, device: str) -> Work:
    return Work.of(case, device)


def contender_of(job: dict[str, Any]) -> Contender:
    group = groups(job["suite"])[job["group"]]
    return next(c for c in group.contenders if c.name == job["contender"])


def answer(job: dict[str, Any]) -> dict[str, Any]:
    """Measure a contender, or only call it once so that its compiled kernels are on disk."""
    contender, work = contender_of(job), work_of(Case(**job["case"]), job["device"])
    if job["once"]:
        contender.prepare(work, contender.iterations_at_once).run()
        return {}
    found = asdict(measure(contender, work, Limits(**job["limits"])))
    if job["last"]:
        work_of.cache_clear()
        forget_costs()
        del work
    gc.collect()  # free the attempt before the next contender needs its memory
    if job["device"] == "cuda":
        torch.cuda.empty_cache()
    return found


def main() -> None:
    # Libraries print to stdout, so the answers get a copy of the original.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for line in sys.stdin:
        try:
            found = answer(json.loads(line))
        except Exception as failure:  # in creating the problem, such as running out of memory
            found = {"not_run": f"failed: {type(failure).__name__}: {failure}"[:200]}
        answers.write(json.dumps(found) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
