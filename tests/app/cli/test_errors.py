"""What goes wrong: one line that says what to do, an exit code, and nothing lost."""

import dataclasses
import re
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import pytest

import wassloss as wl
from tests.app.cli.commands import (
    METRIC,
    NAMES,
    failed,
    graded,
    ok,
    options_of,
    process,
    same_weights,
    saved,
    tagged,
    unknown_options,
    wassloss,
)
from wassloss.runs.directory import open_run
from wassloss.training import load_checkpoint

QUICK = (  # 42 steps
    *("--solver", "adam", "--max-iter", 7, "--batch-size", 20, "--checkpoint-every", 10),
)


@pytest.fixture
def metric(tmp_path: Path) -> Path:
    METRIC.save(tmp_path / "metric.npz")
    return tmp_path / "metric.npz"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return saved(tagged(), tmp_path / "data.parquet")


@pytest.fixture
def run(data: Path, metric: Path, tmp_path: Path) -> Path:
    ok("train", data, "--metric", metric, "--out", tmp_path / "run", *QUICK)
    return tmp_path / "run"


# --- data ----------------------------------------------------------------------------------------


def bad_files(folder: Path) -> dict[str, tuple[str, str]]:
    """By case: a file, and what the error says."""
    (folder / "columns.csv").write_text("a,b\n1,2\n")
    (folder / "inf.csv").write_text("a,label\n1,good\ninf,bad\n")
    (folder / "empty.csv").write_text("a,label\n")
    (folder / "unknown.csv").write_text("a,label\n1,good\n2,goood\n")
    (folder / "cut.parquet").write_bytes(b"PAR1")
    (folder / "folder").mkdir()
    return {
        "missing": ("nowhere.csv", "nowhere.csv: no such file"),
        "format": ("data.xlsx", "must end in one of"),
        "columns": ("columns.csv", "it lacks a column 'label' or 'labels'; it has 'a', 'b'"),
        "infinite csv": ("inf.csv", "line 3, column 'a': expected a finite number"),
        "empty csv": ("empty.csv", "it has a header and no rows"),
        "unknown label": ("unknown.csv", "line 3: 'goood' is none of the 5 labels; did you mean"),
        "cut short": ("cut.parquet", "cut.parquet cannot be read as data: "),
        "empty folder": ("folder", "it is a folder without Parquet files"),
    }


@pytest.mark.parametrize(
    "case",
    [
        "missing",
        "format",
        "columns",
        "infinite csv",
        "empty csv",
        "unknown label",
        "cut short",
        "empty folder",
    ],
)
def test_data_that_cannot_be_used(case: str, metric: Path, tmp_path: Path) -> None:
    name, expected = bad_files(tmp_path)[case]
    out = tmp_path / "run"
    assert expected in failed("train", tmp_path / name, "--metric", metric, "--out", out)
    assert not out.exists()


def test_parquet_that_cannot_be_used(metric: Path, tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    folder = tmp_path / "shards"
    folder.mkdir()
    whole = saved(tagged(), folder / "a.parquet")
    good = whole.read_bytes()
    whole.write_bytes(good[:-20])
    said = failed("train", folder, "--metric", metric, "--out", tmp_path / "run")
    assert "shards cannot be read as data: " in said
    assert "a.parquet" in said
    whole.write_bytes(good)
    wl.ground.Ordinal(4).save(tmp_path / "four.npz")
    words = ("--order", "awful,bad,fair,good,superb", "--out", tmp_path / "run")
    said = failed("train", folder, "--metric", tmp_path / "four.npz", *words)
    assert "must have 4" in said
    saved(graded(names=NAMES[::-1]), folder / "b.parquet")
    said = failed("train", folder, "--metric", metric, "--out", tmp_path / "run")
    assert "b.parquet cannot be read as data: it lacks the columns 'labels', 'weights'" in said


@pytest.mark.filterwarnings("ignore:.* go by position")
@pytest.mark.parametrize("suffix", ["csv", "folder"])
def test_features_that_float32_cannot_hold(
    suffix: str, run: Path, metric: Path, tmp_path: Path
) -> None:
    """In one line that says where, whichever command reads them."""
    large = graded(parts=False)
    x = large.features.double()
    x[2, 1] = 1e200
    path = tmp_path / f"large.{suffix}"
    if suffix == "folder":
        pytest.importorskip("pyarrow")
        path.mkdir()
        saved(dataclasses.replace(large, features=x), path / "a.parquet")
    else:
        saved(dataclasses.replace(large, features=x), path)
    expected = r"fits? (torch\.)?float32, got '?1(\.\d+)?e\+200"
    for words in (
        ("train", path, "--metric", metric, "--out", tmp_path / "large-run", *QUICK),
        ("evaluate", run, path),
        ("predict", run, path),
    ):
        said = failed(*words)
        assert re.search(expected, said), said
        assert ("line 4" if suffix == "csv" else "row 2") + ", column 'x1'" in said


def test_metrics_that_cannot_be_used(data: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    assert "comes without a ground metric: pass metric" in failed("train", data, "--out", out)
    said = failed("train", data, "--metric", tmp_path / "none.npz", "--out", out)
    assert "none.npz: no such file" in said
    (tmp_path / "junk.npz").write_text("junk")
    said = failed("train", data, "--metric", tmp_path / "junk.npz", "--out", out)
    assert "is not a saved ground metric" in said


def test_an_order_of_labels_is_never_guessed(tmp_path: Path) -> None:
    table = saved(graded(), tmp_path / "data.csv")
    out = tmp_path / "run"
    said = failed("train", table, "--metric", "ordinal", "--out", out)
    assert "the order of the labels is not known" in said
    wl.ground.Ordinal(5).save(tmp_path / "unnamed.npz")
    said = failed("train", table, "--metric", tmp_path / "unnamed.npz", "--out", out)
    assert "the order of the labels is not known" in said
    ok(
        *("train", table, "--metric", "ordinal", "--order", "superb,good,fair,bad,awful"),
        *("--out", out, *QUICK),
    )
    assert open_run(out).labels == ("superb", "good", "fair", "bad", "awful")


# --- usage ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("trian",), "No such command 'trian'"),
        (("train",), "DATA is missing"),
        (("train", "clipart", "--learning-rate", "fast"), "Invalid value for '--learning-rate'"),
        (("train", "clipart", "--learning-rate", -1), "learning_rate must be"),
        (("train", "clipart", "--max-iter", 0), "max_iter must be"),
        (("train", "clipart", "--alpha", -1), "alpha must be"),
        (("train", "clipart", "--hidden-layer-sizes", "a"), "--hidden-layer-sizes must be numbers"),
        (("train", "clipart", "--test", 1), "test must be"),
        (("train", "clipart", "--device", "abacus"), "device must be one that torch has"),
        (("train", "clipart", "--seed", -1), "seed must be in 0..2**63 - 1, got -1"),
        (("train", "clipart", "--seed", 2**32), "seed must be in 0..2**32 - 1, as in scikit-lea"),
        (("evaluate",), "Missing argument"),
        (("metric", "build", "--out", "m.npz"), "one of --vectors, --tree, --matrix"),
        (("metric", "build", "--tree", "t.csv", "--out", "m.txt"), "--out must end in .npz"),
    ],
)
def test_wrong_usage(
    words: tuple[Any, ...], expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    said = failed(*words, code=2)
    assert expected in said
    assert "--help." in said
    assert not list(tmp_path.iterdir())


def test_options_that_need_another(data: Path, run: Path) -> None:
    assert "--top must be at most 5" in failed("predict", run, data, "--top", 6, code=2)
    assert "must end in .csv or .parquet" in failed("predict", run, data, "--out", "a.txt", code=2)
    assert "part must be one of the data's parts" in failed("evaluate", run, data, "--part", "x")


def test_a_run_that_diverged_at_once_may_be_tried_again(
    data: Path, metric: Path, tmp_path: Path
) -> None:
    command = ("train", data, "--metric", metric, "--out", tmp_path / "run", *QUICK)
    command += ("--solver", "sgd")
    assert "lower the learning rate" in failed(*command, "--learning-rate", 1e38)
    ok(*command, "--learning-rate", 0.1)


def test_a_run_is_not_overwritten(run: Path, data: Path, metric: Path) -> None:
    before = (run / "model.safetensors").read_bytes()
    said = failed("train", data, "--metric", metric, "--out", run, *QUICK)
    assert "holds a trained model already" in said
    assert "--resume" in said
    said = failed("train", data, "--out", run, "--resume", "--learning-rate", 0.5)
    assert "was trained with learning_rate None, and cannot be continued with 0.5" in said
    said = failed("train", "--out", run, "--resume", "--metric", "discrete")
    assert "was trained with metric" in said
    saved(tagged().take(slice(0, 150)), data)
    said = failed("train", "--out", run, "--resume")
    assert "its training data changed after it began" in said
    assert (run / "model.safetensors").read_bytes() == before


# --- advice --------------------------------------------------------------------------------------


def test_advice_is_checked_in_every_test() -> None:
    words = ["evaluate", "run", "--party", "x"]
    assert unknown_options("no such option --party, try --part or --help", words) == []
    assert unknown_options("pass --labels a,b or --json", words) == ["--labels"]
    assert unknown_options("try `wassloss train DATA --out x`", words) == []
    assert unknown_options("try `wassloss train --json x`", words) == ["--json"]
    assert "--tree" in options_of(["metric", "build", "--out", "m.npz"])


def test_advice_of_a_command_is_for_that_command(data: Path, run: Path, tmp_path: Path) -> None:
    """Where the same thing is missing, each command says what it takes itself."""
    everything = saved(tagged(parts=False), tmp_path / "everything.parquet")
    command = ("train", everything, "--metric", tmp_path / "metric.npz")
    ok(*command, "--out", tmp_path / "nothing-held-out", *QUICK)
    for words in (("evaluate",), ("report",)):
        said = failed(*words, tmp_path / "nothing-held-out")
        assert "no part 'test' or 'validation' that was held out: give other DATA" in said
    data.rename(tmp_path / "moved.parquet")
    for words in (("evaluate",), ("report",)):
        said = failed(*words, run)
        assert "data.parquet: no such file or directory" in said


# --- runs ----------------------------------------------------------------------------------------


def test_runs_that_cannot_be_read(run: Path, data: Path, tmp_path: Path) -> None:
    said = failed("evaluate", tmp_path / "nothing", data)
    assert "does not exist; `wassloss train DATA --out" in said
    assert "has no config.json" in failed("report", tmp_path)
    data.rename(tmp_path / "moved.parquet")
    assert "data.parquet: no such file" in failed("report", run)
    ok("report", run, "--data", tmp_path / "moved.parquet", "--out", tmp_path / "report.html")
    (tmp_path / "moved.parquet").rename(data)
    model = run / "model.safetensors"
    model.write_bytes(model.read_bytes()[:-10])
    assert "is damaged" in failed("evaluate", run)
    model.unlink()  # as the error advises
    assert "was stopped before its end: `wassloss train --out" in failed("evaluate", run)
    ok("train", "--out", run, "--resume")
    ok("evaluate", run)
    (run / "config.json").write_text('{"format": 1')
    assert "is not the configuration of a run" in failed("evaluate", run)


def test_a_checkpoint_cut_short_is_passed_over(run: Path, tmp_path: Path) -> None:
    whole = tmp_path / "whole"
    ok(
        "train",
        tmp_path / "data.parquet",
        "--metric",
        tmp_path / "metric.npz",
        "--out",
        whole,
        *QUICK,
    )
    newest = run / "checkpoint-00000042.safetensors"
    newest.write_bytes(newest.read_bytes()[:-10])
    (run / "model.safetensors").unlink()
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        result = wassloss("train", "--out", run, "--resume")
    assert result.exit_code == 0
    (said,) = result.stderr.splitlines()
    assert said.startswith("warning: ")
    assert said.endswith("continuing from checkpoint-00000040.safetensors")
    assert same_weights(run, whole)
    for path in run.glob("checkpoint-*"):
        path.write_bytes(b"")
    (run / "model.safetensors").unlink()
    assert "is not a valid checkpoint" in failed("train", "--out", run, "--resume")


def test_a_full_disk(data: Path, metric: Path, tmp_path: Path) -> None:
    """No file may grow beyond what a checkpoint takes, as on a disk that fills."""
    run, whole = tmp_path / "run", tmp_path / "whole"
    command = ("train", data, "--metric", metric, "--hidden-layer-sizes", 256, *QUICK)
    ok(*command, "--out", whole)
    resource = pytest.importorskip("resource", reason="needs POSIX: limits")
    _, hard = limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (24_000, hard))
        said = failed(*command, "--out", run)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert "cannot write the checkpoint of step 10" in said
    assert "free some space, then resume" in said
    assert [path.name for path in run.glob(".*")] == [".wassloss.lock"]  # nothing half-written
    ok("train", "--out", run, "--resume")
    assert same_weights(run, whole)

    page = tmp_path / "report.html"
    page.write_text("<!doctype html><title>wassloss: an earlier report")
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (24_000, hard))
        assert failed("report", run, "--out", page) == f"{page}: file too large"
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert page.read_text() == "<!doctype html><title>wassloss: an earlier report"


# --- processes -----------------------------------------------------------------------------------


@pytest.mark.slow
def test_ctrl_c_leaves_a_run_that_goes_on(data: Path, metric: Path, tmp_path: Path) -> None:
    run, whole = tmp_path / "run", tmp_path / "whole"
    # KL, for Numba's code rounds differently in the process that compiled it than from its cache.
    command = ("train", data, "--metric", metric, "--hidden-layer-sizes", 16)
    command += ("--transport-weight", 0, "--batch-size", 20, "--checkpoint-every", 100_000)
    started = process(*command, "--max-iter", 2000, "--out", run)
    try:
        log = run / "log.jsonl"
        deadline = time.monotonic() + 60
        while not log.exists() or log.stat().st_size < 500:
            assert started.poll() is None, started.communicate()
            assert time.monotonic() < deadline
            time.sleep(0.02)
        started.send_signal(signal.SIGINT)
        _, said = started.communicate(timeout=30)
    finally:
        started.kill()
    assert started.returncode == 130
    steps = load_checkpoint(run).step
    assert said == (
        f"Interrupted, saved after {steps} steps; go on with: wassloss train --out {run} --resume\n"
    )
    assert not (run / "model.safetensors").exists()
    again = process("train", "--out", run, "--resume")
    _, said = again.communicate(timeout=200)
    assert again.returncode == 0, said
    ok(*command, "--max-iter", 2000, "--out", whole)
    assert same_weights(run, whole)


@pytest.mark.slow
def test_errors_have_no_traceback(tmp_path: Path) -> None:
    plain = process("evaluate", tmp_path / "none")
    said = plain.communicate(timeout=60)[1]
    assert plain.returncode == 1
    assert len(said.splitlines()) == 1


def test_a_hint_where_the_extra_is_missing() -> None:
    code = "import sys; sys.modules['typer'] = None\nfrom wassloss.app.cli import main\nmain()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr == 'wassloss: the command line needs pip install "wassloss[cli]"\n'
