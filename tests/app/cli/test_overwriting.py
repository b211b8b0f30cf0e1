"""What commands replace: what they wrote themselves, and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import wassloss as wl
from tests.app.cli.commands import failed, ok

pytestmark = pytest.mark.filterwarnings("default::wassloss.data.DataWarning")
WORDS = ("--metric", "ordinal", "--jobs", 1)


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("table") / "data.csv"
    rows = [f"{i * 37 % 60 / 20:.3f},{i * 37 % 60 // 20}" for i in range(60)]
    path.write_text("\n".join(["x,label", *rows]))
    return path


@pytest.fixture(scope="module")
def model(table: Path) -> Path:
    data = wl.data.read(table)
    path = table.with_name("model.safetensors")
    wl.WassersteinClassifier("ordinal").fit(data.features, data.y).save(path)
    return path


FOREIGN = {  # what others keep under these names
    "model.safetensors": b'\x40\0\0\0\0\0\0\0{"weight":{"dtype":"F32","shape":[1],"data',
    "comparison.json": b'{"rows": 3}\n',
    "report.html": b"<!doctype html><title>Quarterly report</title>",
    "config.json": b'{"architectures": ["BertModel"]}',
    "scores.json": b'{"games": 3}\n',
    "log.jsonl": b'{"time": 3}\n',
}


def refused(path: Path, *words: object) -> None:
    """A command that names a file and leaves it, and all others, as they are."""
    before = {each: each.read_bytes() for each in path.parent.iterdir()}
    said = failed(*words)
    assert f"{path} would be replaced, but is not " in said
    assert "written by wassloss: move it away, or choose another name" in said
    assert {each: each.read_bytes() for each in path.parent.iterdir()} == before


@pytest.mark.parametrize("name", ["model.safetensors", "comparison.json", "report.html"])
def test_compare_replaces_nothing_of_others(name: str, table: Path, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(FOREIGN[name])
    refused(tmp_path / name, "compare", table, *WORDS, "--out", tmp_path)
    refused(tmp_path / name, "compare", table, *WORDS, "--out", tmp_path, "--overwrite")


def test_compare_replaces_a_comparison_if_it_is_told_to(table: Path, tmp_path: Path) -> None:
    words = ("compare", table, *WORDS, "--out", tmp_path)
    (tmp_path / "notes.txt").write_text("mine")
    ok(*words)
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    assert f"{tmp_path} holds a model already: choose another directory" in failed(*words)
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before
    ok(*words, "--model", "mlp", "--overwrite")
    after = {path: path.read_bytes() for path in tmp_path.iterdir()}
    changed = {path.name for path in after if after[path] != before[path]}
    assert changed == {"model.safetensors", "comparison.json", "report.html"}


@pytest.mark.parametrize("name", ["config.json", "scores.json", "log.jsonl"])
@pytest.mark.parametrize("more", [(), ("--resume",)], ids=["new", "resumed"])
def test_train_replaces_nothing_of_others(
    name: str, more: tuple[str, ...], table: Path, tmp_path: Path
) -> None:
    (tmp_path / name).write_bytes(FOREIGN[name])
    words = ("train", table, "--metric", "ordinal", "--out", tmp_path, *more)
    if more and name == "config.json":
        assert "is not the configuration of a run" in failed(*words)
        assert (tmp_path / name).read_bytes() == FOREIGN[name]
    else:
        refused(tmp_path / name, *words)


def test_train_begins_again_where_a_run_had_only_begun(table: Path, tmp_path: Path) -> None:
    words = ("train", table, "--metric", "ordinal", "--test", 0.2, "--out", tmp_path)
    ok(*words)
    (tmp_path / "model.safetensors").unlink()  # a run without checkpoints, killed at its end
    ok(*words)
    assert wl.load(tmp_path).n_features_in_ == 1


Words = Callable[[Path, Path, Path], tuple[object, ...]]
OUTPUTS: dict[str, tuple[str, Words]] = {
    "report": ("page.html", lambda m, t, out: ("report", m, "--data", t, "--out", out)),
    "predict": ("answers.csv", lambda m, t, out: ("predict", m, t, "--out", out)),
    "predict parquet": ("answers.parquet", lambda m, t, out: ("predict", m, t, "--out", out)),
    "export": ("model.onnx", lambda m, _, out: ("export", m, "--onnx", out)),
    "metric build": (
        "metric.npz",
        lambda _, t, out: ("metric", "build", "--tree", t.with_name("tree.csv"), "--out", out),
    ),
}


@pytest.mark.parametrize("command", OUTPUTS)
def test_a_file_of_the_users_own_is_kept(
    command: str, table: Path, model: Path, tmp_path: Path
) -> None:
    """And one that the command wrote before, or that is empty, is replaced."""
    if command == "export":
        pytest.importorskip("onnx")
    new = tmp_path / "new.csv"
    new.write_text("x,label\n0.11,0\n2.31,2\n1.01,1\n")
    (tmp_path / "tree.csv").write_text("name,parent\ncat,animal\nrose,plant\n")
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
