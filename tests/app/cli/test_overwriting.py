"""Commands replace only files that they wrote themselves."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.app.cli.commands import failed, ok

WORDS = ("--metric", "ordinal", "--jobs", 1)


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("table") / "data.csv"
    rows = [f"{i * 37 % 60 / 20:.3f},{i * 37 % 60 // 20}" for i in range(60)]
    path.write_text("\n".join(["x,label", *rows]))
    return path


@pytest.fixture(scope="module")
def model(table: Path) -> Path:
    path = table.with_name("model.wassloss")
    ok("train", table, "--metric", "ordinal", "--out", path)
    return path


FOREIGN = {  # what others keep under these names
    "model.wassloss": b'\x40\0\0\0\0\0\0\0{"weight":{"dtype":"F32","shape":[1],"data',
    "comparison.json": b'{"rows": 3}\n',
    "report.html": b"<!doctype html><title>Quarterly report</title>",
}


def refused(path: Path, *words: object) -> None:
    """Run a command that must name a file and leave it, and all others, unchanged."""
    before = {each: each.read_bytes() for each in path.parent.iterdir()}
    said = failed(*words)
    assert f"{path} exists and is not " in said
    assert "written by wassloss: move it away, or choose another name" in said
    assert {each: each.read_bytes() for each in path.parent.iterdir()} == before


@pytest.mark.parametrize("name", FOREIGN)
def test_compare_replaces_nothing_of_others(name: str, table: Path, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(FOREIGN[name])
    refused(tmp_path / name, "compare", table, *WORDS, "--out", tmp_path)
    refused(tmp_path / name, "compare", table, *WORDS, "--out", tmp_path, "--overwrite")


def test_compare_replaces_a_comparison_if_it_is_told_to(table: Path, tmp_path: Path) -> None:
    words = ("compare", table, *WORDS, "--out", tmp_path)
    (tmp_path / "notes.txt").write_text("mine")
    ok(*words)
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    assert f"{tmp_path / 'model.wassloss'} already holds a model: choose another name" in failed(
        *words
    )
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before
    ok(*words, "--seed", 1, "--overwrite")
    after = {path: path.read_bytes() for path in tmp_path.iterdir()}
    changed = {path.name for path in after if after[path] != before[path]}
    assert changed == set(FOREIGN)


def test_train_replaces_nothing_of_others(table: Path, tmp_path: Path) -> None:
    out = tmp_path / "model.wassloss"
    out.write_bytes(FOREIGN["model.wassloss"])
    for more in ((), ("--overwrite",)):
        refused(out, "train", table, "--metric", "ordinal", "--out", out, *more)


def test_train_replaces_a_model_if_it_is_told_to(table: Path, tmp_path: Path) -> None:
    out = tmp_path / "model.wassloss"
    words = ("train", table, "--metric", "ordinal", "--out", out)
    ok(*words)
    before = out.read_bytes()
    assert f"{out} already holds a model: choose another name with --out" in failed(*words)
    assert out.read_bytes() == before
    ok(*words, "--kl-weight", 2, "--overwrite")
    assert out.read_bytes() != before


Words = Callable[[Path, Path, Path], tuple[object, ...]]
OUTPUTS: dict[str, tuple[str, Words]] = {
    "report": ("page.html", lambda m, t, out: ("report", m, "--data", t, "--out", out)),
    "predict": ("answers.csv", lambda m, t, out: ("predict", m, t, "--out", out)),
    "predict parquet": ("answers.parquet", lambda m, t, out: ("predict", m, t, "--out", out)),
    "export": ("model.onnx", lambda m, _, out: ("export", m, "--onnx", out)),
}


@pytest.mark.parametrize("command", OUTPUTS)
def test_a_file_of_the_users_own_is_kept(
    command: str, table: Path, model: Path, tmp_path: Path
) -> None:
    """A file that the command wrote before, or that is empty, is replaced."""
    if command == "export":
        pytest.importorskip("onnx")
    new = tmp_path / "new.csv"
    new.write_text("x,label\n0.11,0\n2.31,2\n1.01,1\n")
    name, words = OUTPUTS[command]
    out = tmp_path / name
    for content in (b"my own notes", table.read_bytes(), model.read_bytes()):
        out.write_bytes(content)
        refused(out, *words(model, new, out))
    out.write_bytes(b"")
    ok(*words(model, new, out))
    written = out.read_bytes()
    ok(*words(model, new, out))
    assert len(out.read_bytes()) == len(written) > 0


def test_predict_does_not_replace_what_it_reads(table: Path, model: Path, tmp_path: Path) -> None:
    data = tmp_path / "data.csv"
    data.write_bytes(table.read_bytes())
    refused(data, "predict", model, data, "--out", data)
