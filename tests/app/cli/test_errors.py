"""What goes wrong: one line that says what to do, an exit code, and nothing lost."""

import re
import signal
import subprocess
import sys
import time
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
    opened,
    options_of,
    process,
    saved,
    tagged,
    unknown_options,
)

QUICK = ("--solver", "adam", "--max-iter", 7, "--batch-size", 20)  # 42 steps


@pytest.fixture
def metric(tmp_path: Path) -> Path:
    METRIC.save(tmp_path / "metric.npz")
    return tmp_path / "metric.npz"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return saved(tagged(), tmp_path / "data.parquet")


@pytest.fixture
def model(data: Path, metric: Path, tmp_path: Path) -> Path:
    ok("train", data, "--metric", metric, "--out", tmp_path / "m.wassloss", *QUICK)
    return tmp_path / "m.wassloss"


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
        "unknown label": (
            "unknown.csv",
            "line 3: 'goood' is not one of the 5 labels; did you mean",
        ),
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
    out = tmp_path / "m.wassloss"
    assert expected in failed("train", tmp_path / name, "--metric", metric, "--out", out)
    assert not out.exists()


def test_parquet_that_cannot_be_used(metric: Path, tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    folder = tmp_path / "shards"
    folder.mkdir()
    whole = saved(tagged(), folder / "a.parquet")
    good = whole.read_bytes()
    whole.write_bytes(good[:-20])
    said = failed("train", folder, "--metric", metric, "--out", tmp_path / "m.wassloss")
    assert "shards cannot be read as data: " in said
    assert "a.parquet" in said
    whole.write_bytes(good)
    wl.ground.Ordinal(4).save(tmp_path / "four.npz")
    words = ("--order", "awful,bad,fair,good,superb", "--out", tmp_path / "m.wassloss")
    said = failed("train", folder, "--metric", tmp_path / "four.npz", *words)
    assert "must have 4" in said
    saved(graded(names=NAMES[::-1]), folder / "b.parquet")
    said = failed("train", folder, "--metric", metric, "--out", tmp_path / "m.wassloss")
    assert "b.parquet cannot be read as data: it lacks the columns 'labels', 'weights'" in said


@pytest.mark.parametrize("suffix", ["csv", "folder"])
def test_features_that_float32_cannot_hold(
    suffix: str, model: Path, metric: Path, tmp_path: Path
) -> None:
    """In one line that says where, whichever command reads them."""
    large = tagged(parts=False)
    large["x1"] = large["x1"].astype(float)
    large.loc[2, "x1"] = 1e200
    path = tmp_path / f"large.{suffix}"
    if suffix == "folder":
        path.mkdir()
        saved(large, path / "a.parquet")
    else:
        saved(large, path)
    expected = r"fits? (torch\.)?float32, got '?1(\.\d+)?e\+200"
    for words in (
        ("train", path, "--metric", metric, "--out", tmp_path / "large.wassloss", *QUICK),
        ("evaluate", model, path),
        ("predict", model, path),
    ):
        said = failed(*words)
        assert re.search(expected, said), said
        assert ("line 4" if suffix == "csv" else "row 2") + ", column 'x1'" in said


def test_metrics_that_cannot_be_used(data: Path, tmp_path: Path) -> None:
    out = tmp_path / "m.wassloss"
    assert "has no ground metric of its own: pass metric" in failed("train", data, "--out", out)
    said = failed("train", data, "--metric", tmp_path / "none.npz", "--out", out)
    assert "none.npz: no such file" in said
    (tmp_path / "junk.npz").write_text("junk")
    said = failed("train", data, "--metric", tmp_path / "junk.npz", "--out", out)
    assert "is not a saved ground metric" in said


def test_an_order_of_labels_is_never_guessed(tmp_path: Path) -> None:
    table = saved(graded(), tmp_path / "data.csv")
    out = tmp_path / "m.wassloss"
    said = failed("train", table, "--metric", "ordinal", "--out", out)
    assert "the order of the labels is unknown" in said
    wl.ground.Ordinal(5).save(tmp_path / "unnamed.npz")
    said = failed("train", table, "--metric", tmp_path / "unnamed.npz", "--out", out)
    assert "the order of the labels is unknown" in said
    ok(
        *("train", table, "--metric", "ordinal", "--order", "superb,good,fair,bad,awful"),
        *("--out", out, *QUICK),
    )
    assert opened(out).labels == ("superb", "good", "fair", "bad", "awful")


# --- usage ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("trian",), "No such command 'trian'"),
        (("train",), "Missing argument"),
        (("train", "clipart", "--learning-rate", "fast"), "Invalid value for '--learning-rate'"),
        (("train", "clipart", "--hidden-layer-sizes", "a"), "--hidden-layer-sizes must be numbers"),
        (("train", "clipart", "--seed", -1), "Invalid value for '--seed'"),
        (("train", "clipart", "--resume"), "No such option: --resume"),
        (("evaluate",), "Missing argument"),
        (("metric", "build"), "No such command 'build'"),
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


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("--learning-rate", -1), "learning_rate must be"),
        (("--max-iter", 0), "max_iter must be"),
        (("--alpha", -1), "alpha must be"),
        (("--test", 1), "test must be at least 0 and less than 1, got 1"),
        (("--device", "abacus"), "device must be available to torch"),
    ],
)
def test_parameters_that_cannot_be(
    words: tuple[Any, ...], expected: str, data: Path, metric: Path, tmp_path: Path
) -> None:
    out = tmp_path / "m.wassloss"
    assert expected in failed("train", data, "--metric", metric, "--out", out, *words)
    assert not out.exists()


def test_options_that_need_another(data: Path, model: Path) -> None:
    assert "--top must be at most 5" in failed("predict", model, data, "--top", 6, code=2)
    said = failed("predict", model, data, "--out", "a.txt", code=2)
    assert "must end in .csv or .parquet" in said
    assert "part must be a part of the data (" in failed("evaluate", model, data, "--part", "x")


def test_a_fit_that_diverged_writes_nothing(data: Path, metric: Path, tmp_path: Path) -> None:
    command = ("train", data, "--metric", metric, "--out", tmp_path / "m.wassloss", *QUICK)
    command += ("--solver", "sgd")
    assert "lower the learning rate" in failed(*command, "--learning-rate", 1e38)
    assert not (tmp_path / "m.wassloss").exists()
    ok(*command, "--learning-rate", 0.1)


# --- advice --------------------------------------------------------------------------------------


def test_advice_is_checked_in_every_test() -> None:
    words = ["evaluate", "m.wassloss", "--party", "x"]
    assert unknown_options("no such option --party, try --part or --help", words) == []
    assert unknown_options("pass --labels a,b or --json", words) == ["--labels"]
    assert unknown_options("try `wassloss train DATA --out x`", words) == []
    assert unknown_options("try `wassloss train --json x`", words) == ["--json"]
    assert "--near" in options_of(["metric", "show", "m.npz"])


def test_advice_of_a_command_is_for_that_command(data: Path, model: Path, tmp_path: Path) -> None:
    """Where the same thing is missing, each command says what it takes itself."""
    everything = saved(tagged(parts=False), tmp_path / "everything.parquet")
    whole = tmp_path / "whole.wassloss"
    ok("train", everything, "--metric", tmp_path / "metric.npz", "--out", whole, *QUICK)
    for command in ("evaluate", "report"):
        assert "no held-out part 'test' or 'validation'" in failed(command, whole)
    data.rename(tmp_path / "moved.parquet")
    for command in ("evaluate", "report"):
        assert "data.parquet: no such file or directory" in failed(command, model)


# --- models --------------------------------------------------------------------------------------


def test_models_that_cannot_be_read(model: Path, data: Path, tmp_path: Path) -> None:
    assert "nothing.wassloss: no such file" in failed("evaluate", tmp_path / "nothing.wassloss")
    (tmp_path / "folder").mkdir()
    assert "folder" in failed("predict", tmp_path / "folder", data)
    data.rename(tmp_path / "moved.parquet")
    assert "data.parquet: no such file" in failed("report", model)
    ok("report", model, "--data", tmp_path / "moved.parquet", "--out", tmp_path / "report.html")
    whole = model.read_bytes()
    for broken in (whole[:-10], whole[:9000] + b"x" + whole[9001:], b"junk", b""):
        model.write_bytes(broken)
        for command in ("evaluate", "report", "predict", "export"):
            more = {"predict": [data], "export": ["--onnx", tmp_path / "m.onnx"]}.get(command, [])
            assert "m.wassloss" in failed(command, model, *more)


def test_a_full_disk(data: Path, model: Path, metric: Path, tmp_path: Path) -> None:
    """No file may grow beyond some size, as on a disk that fills; what was there stays."""
    resource = pytest.importorskip("resource", reason="needs POSIX: limits")
    page = tmp_path / "report.html"
    page.write_text("<!doctype html><title>wassloss: an earlier report")
    before = {path: path.read_bytes() for path in (model, page)}
    train = ("train", data, "--metric", metric, *QUICK)
    _, hard = limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))
        assert failed(*train, "--out", model, "--overwrite") == f"{model}: file too large"
        new = tmp_path / "new.wassloss"
        assert failed(*train, "--out", new) == f"{new}: file too large"
        assert failed("report", model, "--out", page) == f"{page}: file too large"
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert {path: path.read_bytes() for path in (model, page)} == before
    assert not [*tmp_path.glob(".*"), *tmp_path.glob("new*")]  # nothing half-written


# --- processes -----------------------------------------------------------------------------------


@pytest.mark.slow
def test_ctrl_c_leaves_nothing(data: Path, metric: Path, tmp_path: Path) -> None:
    out = tmp_path / "m.wassloss"
    command = ("train", data, "--metric", metric, "--hidden-layer-sizes", 64, "--solver", "adam")
    before = set(tmp_path.iterdir())
    started = process(*command, "--max-iter", 100_000, "--out", out)
    try:
        time.sleep(8)
        assert started.poll() is None, started.communicate()
        started.send_signal(signal.SIGINT)
        shown, said = started.communicate(timeout=30)
    finally:
        started.kill()
    assert (started.returncode, shown, said.splitlines()[-1]) == (130, "", "Interrupted.")
    assert set(tmp_path.iterdir()) == before


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
    assert done.stderr == 'wassloss: the command line needs pip install "wassloss[app]"\n'
