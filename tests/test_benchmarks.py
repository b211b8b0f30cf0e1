"""The benchmarks give everyone the same problem, and take errors and times as they say."""

import importlib
import math
from pathlib import Path

import pytest
import torch

FOLDER = Path(__file__).parent.parent / "benchmarks"


@pytest.fixture
def load(monkeypatch):
    monkeypatch.syspath_prepend(str(FOLDER))
    return importlib.import_module


@pytest.fixture
def work(load):
    problems = load("problems")
    case = problems.Case(labels=12, batch=3, support=3, epsilon=0.1, tol=1e-7)
    return problems.Work.of(case, "cpu")


@pytest.mark.parametrize(
    "name",
    [
        "wassloss",
        "GEMM Sinkhorn (float64)",
        "POT sinkhorn, loop",
        "POT solve_batch, proximal, support only",
    ],
)
def test_contenders_reach_the_tolerance_of_the_same_problem(load, work, name):
    contender = {c.name: c for c in load("entropic").CONTENDERS}[name]
    result = load("measure").measure(contender, work, load("measure").Limits(0.5, 1.0))
    assert result.not_run is None
    assert result.error <= 10 * work.case.tol


def test_marginal_error_is_that_of_the_plan(load, work):
    f, g = torch.zeros_like(work.h), torch.zeros_like(work.target.weights)
    plans = (-work.support_cost / work.case.epsilon).exp()
    rows = (plans.sum(2) - work.h).abs().sum(1)
    columns = (plans.sum(1) - work.target.weights).abs().sum(1)
    error = load("contenders").marginal_error(work, f, g)
    assert error == pytest.approx(float((rows + columns).max()))


def test_a_failed_solve_does_not_pass_for_a_good_one(load, work):
    f = torch.full_like(work.h, math.nan)
    f[0] = 0.0  # the first example is fine: the maximum must not hide the others
    error = load("contenders").marginal_error(work, f, torch.zeros_like(work.target.weights))
    assert math.isnan(error)


def test_a_missing_peer_is_reported(load, work):
    def prepare(work, iterations):
        raise ImportError("No module named 'peer'")

    contender = load("contenders").Contender("peer", prepare)
    result = load("measure").measure(contender, work, load("measure").Limits(1.0, 1.0))
    assert result.not_run == "missing: No module named 'peer'"


def test_a_peer_too_large_for_memory_is_not_run(load, work):
    contender = load("contenders").Contender("peer", None, gigabytes=lambda case: 40.0)
    result = load("measure").measure(contender, work, load("measure").Limits(1.0, 8.0))
    assert result.not_run == "needs 40 GB"


def test_few_examples_tell_the_rest_of_a_slow_loop(load, work):
    attempt = load("contenders").Attempt(lambda: torch.ones(()), lambda _: 0.0)
    contender = load("contenders").Contender("peer", lambda w, i: attempt, one_by_one=True)
    result = load("measure").measure(contender, work, load("measure").Limits(1e-9, 1.0))
    assert result.examples == 1


def test_number_tokens_are_compared_with_cross_entropy(load):
    row = load("number_tokens").row(10, 0.5, torch.bfloat16, tokens=4)
    assert row["ratio"] == row["seconds"]["ours"] / row["seconds"]["cross_entropy"]


def test_the_picture_of_heads_comes_from_their_record(load):
    rows = [
        {"contender": name, "tokens": tokens, "words": 9, "milliseconds": 2.0, "megabytes": 1.0}
        for name in ("wassloss, Ordinal", "torch cross-entropy")
        for tokens in (4, 8)
    ]
    rows.append({"contender": "cut cross-entropy", "tokens": 4, "words": 9, "not_run": "why"})
    record = {"rows": rows, "machine": {"gpu": "a GPU"}, "features": 3, "dtype": "bfloat16"}
    assert load("heads").draw(record).startswith(b"\x89PNG")
