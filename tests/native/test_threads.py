"""Any number of threads, in any thread and process, gives the same bits."""

import math
import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.generators import random_metric
from tests.native.core import each_dtype, skip_module_without_core
from wassloss.native import calls

skip_module_without_core()

BATCH, LABELS, SUPPORT = 301, 300, 5


def batch(dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    logits = 3 * torch.randn(BATCH, LABELS, dtype=torch.float64, generator=generator)
    order = torch.rand(BATCH, LABELS, generator=generator).topk(SUPPORT).indices
    weights = torch.full((BATCH, SUPPORT), 1 / SUPPORT, dtype=dtype)
    return logits.to(dtype), order, weights, random_metric(LABELS).cost().to(dtype)


def run(threads: int, dtype: torch.dtype, rows: slice = slice(None), **keywords: Any) -> Tensor:
    given = {"epsilon": 0.05, "kl_weight": 0.3, "tol": 1e-5, "max_iterations": 100} | keywords
    record = calls.settings(mass_tolerance=1e-4, threads=threads, **given)
    logits, indices, weights, cost = batch(dtype)
    found = calls.sparse(record, logits[rows], indices[rows], weights[rows], cost, True)
    assert found.worst == int(found.status.max()) == 0
    return torch.cat([found.value.unsqueeze(1), found.gradient], 1)


@each_dtype
@pytest.mark.parametrize("threads", [2, 4, 33])
@pytest.mark.parametrize(
    "keywords",
    [
        {},
        {"fixed": True},
        {"gamma": (math.inf, 0.0)},
        {"per_softening": 5.0},
        {"gamma": (1.0, 1.0)},
    ],
    ids=str,
)
def test_the_number_of_threads_changes_no_bit(
    keywords: dict[str, Any], threads: int, dtype: torch.dtype
) -> None:
    single = run(1, dtype, **keywords)
    assert torch.equal(run(threads, dtype, **keywords), single)
    alone = run(threads, dtype, slice(70, 71), **keywords)
    assert torch.equal(alone, single[70:71])


def test_the_worst_status_of_all_threads() -> None:
    logits, indices, weights, cost = batch()
    logits[200] = math.nan
    record = calls.settings(
        epsilon=0.1, tol=1e-8, mass_tolerance=1e-8, max_iterations=100, threads=4
    )
    found = calls.sparse(record, logits, indices, weights, cost, True)
    assert found.worst == 3
    assert found.status.nonzero().tolist() == [[200]]


def test_class_ids_in_threads() -> None:
    logits = torch.randn(4000, 500, generator=torch.Generator().manual_seed(0))
    ids, cost = torch.arange(4000) % 500, random_metric(500).cost().float()
    one, four = (
        calls.class_ids(calls.settings(epsilon=0.1, threads=n), logits, ids, cost, True)
        for n in (1, 4)
    )
    assert torch.equal(one.gradient, four.gradient)
    assert torch.equal(one.value, four.value)


def test_from_many_threads_at_once() -> None:
    expected = run(1, torch.float32)
    with ThreadPoolExecutor(6) as pool:
        found = list(pool.map(lambda _: run(2, torch.float32), range(24)))
    assert all(torch.equal(one, expected) for one in found)
    assert threading.active_count() < 50


AFTER_A_FORK = """
import os, sys
import torch
torch.set_num_threads(1)
from tests.native.test_threads import run
expected = run(4, torch.float32)
child = os.fork()
if child == 0:
    os._exit(0 if torch.equal(run(4, torch.float32), expected) else 1)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
assert torch.equal(run(4, torch.float32), expected)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs POSIX")
def test_after_a_fork() -> None:
    done = subprocess.run(
        [sys.executable, "-c", AFTER_A_FORK], capture_output=True, text=True, timeout=200
    )
    assert done.returncode == 0, done.stderr


AT_THE_LIMIT = """
import resource, torch
torch.set_num_threads(1)
from tests.native.test_threads import run
expected = run(1, torch.float32)
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + 12 * 2**20,) * 2)  # no room for another stack
assert torch.equal(run(64, torch.float32), expected)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="needs Linux")
def test_where_no_thread_can_be_started() -> None:
    done = subprocess.run(
        [sys.executable, "-c", AT_THE_LIMIT], capture_output=True, text=True, timeout=200
    )
    assert done.returncode == 0, done.stderr


OUT_OF_MEMORY = """
import resource, torch
torch.set_num_threads(1)
from wassloss.native import calls
labels, support = 1_000_000, 60
logits, cost = torch.zeros(1, labels), torch.zeros(1, labels).expand(support, -1).contiguous()
indices, weights = torch.arange(support).unsqueeze(0), torch.full((1, support), 1 / support)
record = calls.settings(epsilon=0.1, tol=1e-4, mass_tolerance=1e-3, max_iterations=3, threads=4)
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + 50 * 2**20,) * 2)
try:
    calls.sparse(record, logits, indices, weights, cost, False)
except MemoryError as error:
    print(error)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="needs Linux")
def test_running_out_of_memory_is_an_error_of_python() -> None:
    done = subprocess.run(
        [sys.executable, "-c", OUT_OF_MEMORY], capture_output=True, text=True, timeout=200
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "no memory to compute losses over 1000000 labels"
