"""All contenders get the same problem; errors and times are measured as documented."""

import argparse
import importlib
import importlib.util
import io
import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
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
    f[0] = 0.0  # the first example is right, but the maximum must not hide the others
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


@pytest.fixture
def limits(load):
    return load("measure").Limits(0.2, 1.0, 0.0)


def peer(load, error, **keywords):
    """A contender whose error depends on the given tolerance and its iterations."""
    contenders = load("contenders")

    def prepare(work, iterations):
        return contenders.Attempt(
            lambda: None, lambda _: error(work.case.tol, iterations), lambda _: iterations
        )

    return contenders.Contender("peer", prepare, **keywords)


def test_a_norm_of_its_own_does_not_spare_a_peer_the_error_of_all(load, work, limits):
    result = load("measure").measure(peer(load, lambda tol, _: 3 * tol), work, limits)
    assert result.error <= work.case.tol
    assert result.asked == pytest.approx(work.case.tol / 5)


def test_a_peer_that_cannot_reach_the_error_keeps_its_first_result(load, work, limits):
    result = load("measure").measure(peer(load, lambda tol, _: 2e-7), work, limits)
    assert result.error == 2e-7
    assert result.asked is None


@pytest.mark.parametrize("enough", [3, 8, 100, 1000])
def test_the_fewest_iterations_are_found_for_a_peer_without_a_tolerance(load, work, limits, enough):
    contender = peer(load, lambda _, count: float(count < enough), searched=True)
    result = load("measure").measure(contender, work, limits)
    assert enough <= result.iterations <= 1.2 * enough + 1
    assert result.stopped_after is None


def test_a_search_gives_up_where_precision_ends(load, work, limits):
    contender = peer(load, lambda _, count: max(1 / count, 0.01), searched=True)
    result = load("measure").measure(contender, work, limits)
    assert result.iterations == result.stopped_after < 1000


@pytest.fixture
def run_tiny(load, tmp_path, monkeypatch):
    """Run a suite at small sizes, in this process."""

    def run(suite, **keywords):
        settings = {"device": "cpu", "out": tmp_path, "without": [], "only": [], "tiny": True}
        settings |= {"limit": 0.01, "memory": 1.0} | keywords
        monkeypatch.setitem(load("run").ENOUGH, "cpu", 0.0)
        monkeypatch.setattr(load("suites"), "SUPPORTS", (1, 4))
        monkeypatch.setattr(load("suites"), "POINTS", (1000, 3000))
        load("worker").groups.cache_clear()
        monkeypatch.setattr(
            load("processes").Worker, "ask", lambda self, job, patience: load("worker").answer(job)
        )
        run = load("run").Run(argparse.Namespace(**settings))
        path = run.suite(suite, load("run").Budget.of(None))
        return json.loads(path.read_text()), path

    return run


@pytest.mark.parametrize(
    "suite", ["goals", *(pytest.param(x, marks=pytest.mark.slow) for x in ("points", "support"))]
)
def test_a_suite_has_its_table_and_pictures(load, run_tiny, suite):
    results, path = run_tiny(suite, only=["wassloss", "Loss", "GEMM"])
    rows = [row for group in results["groups"] for row in group["measurements"]]
    assert rows
    assert not any((row["not_run"] or "").startswith("failed") for row in rows)
    page = path.with_suffix(".md").read_text()
    heads = {"goals": "| goal | measured |", "points": "16 points", "support": "largest step"}
    assert heads[suite] in page
    plots = load("plots")
    drawn = [plots.draw(results, picture) for picture in plots.pictures(results)]
    assert suite == "goals" or all(picture.startswith(b"\x89PNG") for picture in drawn)


def test_what_time_does_not_allow_is_said(load, run_tiny, monkeypatch):
    monkeypatch.setattr(load("run").Budget, "left", -1.0)
    results, _ = run_tiny("support", only=["wassloss"])
    assert results["groups"][0]["measurements"][0]["not_run"] == "out of time"


@pytest.mark.slow
def test_a_process_that_breaks_is_started_again(load):
    worker = load("processes").Worker()
    job = {"suite": "support", "group": 0, "contender": "wassloss, loss and gradient"}
    job |= {"device": "cpu", "once": True, "last": False}
    case = {"labels": 5, "support": 2, "batch": 2}
    try:
        assert worker.ask({**job, "case": {**case, "batch": "no number"}}, 60)["not_run"]
        worker._process.kill()
        assert "the process ended" in worker.ask({**job, "case": case}, 60)["not_run"]
        assert worker.ask({**job, "case": case}, 60) == {}
    finally:
        worker.stop()


def group(title, case, **seconds):
    """A group as in the JSON; a trailing underscore marks contenders that missed the tolerance."""
    rows = [
        {
            "contender": name.rstrip("_"), "seconds": [time], "examples": case["batch"],
            "error": 1.0 if name.endswith("_") else 0.0, "stopped_after": None, "not_run": None,
        }
        for name, time in seconds.items()
    ]  # fmt: skip
    return {"kind": title.split(":")[0], "title": title, "case": case, "measurements": rows}


def test_a_page_says_where_another_is_faster(load):
    case = {"tol": 0.1, "labels": 4, "batch": 1}
    faster = group("entropic: one", case, wassloss=3.0, GEMM=2.0, POT_=1.0)
    slower = group("entropic: two", case, wassloss=1.0, GEMM=2.0)
    lines = load("summaries").losses({"groups": [slower, faster]})
    assert lines[2:] == ["| one | 3.00 s | GEMM 2.00 s | 1.5 × |"]


def test_the_largest_step_is_between_neighbours(load):
    groups = [
        group("entropic", {"dtype": "float32", "batch": 2, "support": support}, wassloss=time)
        for support, time in ((1, 1.0), (2, 1.5), (8, 4.0), (4, 1.6))
    ]
    lines = load("summaries").support_table({"groups": groups})
    assert lines[-1] == "| largest step | **2.5 × (4 to 8)** |"


def test_goals_are_read_from_the_groups_of_their_suite(load):
    goals = load("goals")
    groups = []
    for kind, case, contenders in goals.cases():
        rows = group(f"{kind}: {case}", {"batch": case.batch}, **{c.name: 2e-3 for c in contenders})
        groups.append(rows)
    for device in ("cpu", "cuda"):
        rows = goals.rows({"device": device, "groups": groups})
        assert not [work for work, *_, measured in rows if measured == "not measured"]
    sparse = goals.rows({"device": "cuda", "groups": groups})[0]
    assert sparse[-1].startswith("2 / 2 ms")
    alone = replace(goals.SPARSE, batch=100)
    assert goals.ratio({"groups": groups}, "entropic", alone, goals.LOSS, goals.OURS) == "1 ×"
    assert goals.rows({"device": "cuda", "groups": []})[0][-1] == "not measured"


@pytest.fixture
def benchmark_tables():
    path = FOLDER.parent / "docs" / "benchmark_tables.py"
    spec = importlib.util.spec_from_file_location("benchmark_tables", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_pages_have_the_numbers_of_the_benchmarks(benchmark_tables):
    for page in benchmark_tables.PAGES:
        text, folder = page.read_text(), benchmark_tables.HERE / "benchmarks"
        wanted = benchmark_tables.written(text, folder, benchmark_tables.below_of(page))
        assert wanted == text, (
            f"the JSON behind {page.name} has changed: python docs/benchmark_tables.py --write"
        )


def test_a_page_says_how_to_measure_what_is_missing(benchmark_tables, tmp_path):
    lines = benchmark_tables.table("points", ["cuda-points"], tmp_path, "")
    wanted = "python benchmarks/run.py --suite points --device cuda"
    assert lines[0] == f"Not measured yet: `{wanted}`."


COMMITTED = FOLDER.parent / "docs" / "benchmarks"


def test_committed_pictures_are_those_of_their_records(load):
    image = pytest.importorskip("matplotlib.image")
    plots, heads = load("plots"), load("heads")

    def read(drawn):
        return image.imread(io.BytesIO(drawn))[..., :3]

    drawn = {"heads.png": heads.draw(json.loads((COMMITTED / "heads.json").read_text()))}
    for page in COMMITTED.glob("c*.md"):
        record = json.loads(page.with_suffix(".json").read_text())
        for each in plots.pictures(record):
            name = f"{page.stem}-{each.name}.png"
            if (COMMITTED / name).exists():
                drawn[name] = plots.draw(record, each)
    assert set(drawn) == {path.name for path in COMMITTED.glob("*.png")}
    for name, found in drawn.items():
        expected = read((COMMITTED / name).read_bytes())
        # Fonts and palettes differ slightly between versions; other times would move a line.
        assert float(np.abs(read(found) - expected).mean()) < 0.003, name
