"""Every file of a run has a checksum that every read verifies; after a crash, a run can resume."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from wassloss.training import load_checkpoint, read_log

import wassloss as wl
from tests.problems import same
from tests.runs.files import STEPS, data_file, trained
from wassloss.runs.directory import open_run

pytest.importorskip("lightning_fabric")
pytest.importorskip("safetensors")

FILES = [
    "config.json",
    "model.safetensors",
    "scores.json",
    "log.jsonl",
]
PLACES = 400  # number of positions per file at which a bit is flipped


@pytest.fixture
def run(tmp_path: Path) -> Path:
    data_file(tmp_path)
    trained(tmp_path, tmp_path / "run")
    return tmp_path / "run"


def test_a_run_describes_itself(run: Path) -> None:
    config = json.loads((run / "config.json").read_text())
    assert config["task"]["data"] == str(run.parent / "data.parquet")
    assert config["params"]["solver"] == "adam"
    assert config["metric"] == "Ordinal(5)"
    assert {"wassloss", "torch", "numpy", "python", "platform"} == config["versions"].keys()
    # Every file has a checksum: those of the run here, those of a checkpoint in its state.
    written = {path.name for path in run.iterdir()} - {".wassloss.lock"}
    checkpoints = {name for name in written if name.startswith("checkpoint-")}
    assert {*config["files"], "config.json"} | checkpoints == written == set(FILES) | checkpoints
    assert len(checkpoints) == 2


def flipped(file: Path, read: Callable[[], object], places: int = PLACES) -> list[str]:
    """The errors for one file with a bit flipped at random positions, one at a time."""
    whole = file.read_bytes()
    rng = np.random.default_rng(0)
    chosen = rng.choice(len(whole), size=min(len(whole), places), replace=False)
    said = []
    for at in sorted({0, len(whole) - 1, *chosen.tolist()}):
        changed = bytearray(whole)
        changed[at] ^= 1 << int(rng.integers(8))
        file.write_bytes(changed)
        with pytest.raises(ValueError, match=file.name) as caught:
            read()
        said.append(str(caught.value))
    file.write_bytes(whole)
    read()
    return said


@pytest.mark.parametrize("name", FILES)
def test_one_flipped_bit_anywhere_is_refused(run: Path, name: str) -> None:
    for message in flipped(run / name, lambda: open_run(run)):
        assert str(run / name) in message
        assert "restore it" in message or "delete it" in message
        assert "\n" not in message


def test_one_flipped_bit_anywhere_in_a_checkpoint_is_refused(run: Path) -> None:
    for checkpoint in run.glob("checkpoint-*"):
        flipped(checkpoint, lambda path=checkpoint: load_checkpoint(path))  # type: ignore[misc]


def test_what_to_do_about_damage(run: Path, tmp_path: Path) -> None:
    """The advice of the errors works."""
    expected = open_run(run)
    for name in ("scores.json", "log.jsonl", "model.safetensors"):
        content = (run / name).read_bytes()
        (run / name).write_bytes(content[:-1])
        with pytest.raises(ValueError, match=r"is damaged, .*delete it"):
            open_run(run)
        (run / name).unlink()
        if name != "model.safetensors":
            assert same(open_run(run).model.model_, expected.model.model_)
    with pytest.raises(ValueError, match=r"stopped before its end: `wassloss train .*--resume`"):
        open_run(run)
    trained(tmp_path, run, resume=True)
    assert same(open_run(run).model.model_, expected.model.model_)
    assert {"model.safetensors", "scores.json"} <= {path.name for path in run.iterdir()}


def test_a_log_that_changes_after_a_run_was_opened_is_refused(run: Path) -> None:
    opened = open_run(run)
    assert [record.step for record in opened.log()] == [10, 20, STEPS]
    (run / "log.jsonl").write_text((run / "log.jsonl").read_text().replace("10", "11"))
    with pytest.raises(ValueError, match=r"log\.jsonl is damaged"):
        opened.log()


@pytest.mark.parametrize("name", ["config.json", "log.jsonl"])
def test_a_damaged_run_does_not_go_on(run: Path, name: str, tmp_path: Path) -> None:
    """Otherwise it would end with new checksums of damaged files."""
    content = bytearray((run / name).read_bytes())
    content[len(content) // 2] ^= 1
    (run / name).write_bytes(content)
    before = {path.name: path.read_bytes() for path in run.iterdir() if path.is_file()}
    with pytest.raises(ValueError, match=name):
        trained(tmp_path, run, resume=True)
    assert before == {path.name: path.read_bytes() for path in run.iterdir() if path.is_file()}


def test_a_run_without_sums_is_refused(run: Path) -> None:
    config = json.loads((run / "config.json").read_text())
    del config["sha256"]
    (run / "config.json").write_text(json.dumps(config))
    with pytest.raises(ValueError, match="it is not as it was written; restore it"):
        wl.load(run)


# --- crashes -------------------------------------------------------------------------------------


def die_at(count: int, where: Any, name: str, patch: pytest.MonkeyPatch) -> None:
    """End this process at the given call of a function, like a kill: no finally, no flush."""
    original: Callable[..., Any] = getattr(where, name)
    calls = 0

    def deadly(*arguments: Any, **keywords: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == count:
            os._exit(9)
        return original(*arguments, **keywords)

    patch.setattr(where, name, deadly)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs POSIX: kills a child process")
@pytest.mark.usefixtures("one_thread")
@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")
@pytest.mark.parametrize(
    ("where", "name"),
    [
        (os, "replace"),
        (os, "fsync"),
        pytest.param(Path, "unlink", marks=pytest.mark.slow),  # similar to before the next file
    ],
)
@pytest.mark.parametrize(
    "begun", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["new", "finished before"]
)
def test_killed_between_any_two_files(
    begun: bool, where: Any, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run resumes and ends with the same result."""
    data_file(tmp_path)
    whole = tmp_path / "whole"
    trained(tmp_path, whole)
    expected = open_run(whole)
    count = 0
    while True:
        count += 1
        run = tmp_path / f"killed-{count}"
        if begun:
            shutil.copytree(whole, run)
        child = os.fork()
        if child == 0:
            try:
                die_at(count, where, name, monkeypatch)
                trained(tmp_path, run, resume=begun)
                os._exit(0)
            finally:
                os._exit(1)
        _, status = os.waitpid(child, 0)
        code = os.waitstatus_to_exitcode(status)
        assert code in (0, 9)
        trained(tmp_path, run, resume=True)
        opened = open_run(run)
        assert same(opened.model.model_, expected.model.model_)
        ours, theirs = (
            [(r.step, r.loss, r.score, r.learning_rate) for r in read_log(path)]
            for path in (run, whole)
        )
        assert ours == theirs
        scores = [json.loads((path / "scores.json").read_text())["parts"] for path in (run, whole)]
        assert scores[0] == scores[1]
        shutil.rmtree(run)
        if code == 0:
            break
    assert count > 3
