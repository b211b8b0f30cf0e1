"""A command that is killed while it writes a model: the old file, the new one, or none."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import wassloss as wl
from tests.app.cli.commands import failed, ok

pytestmark = pytest.mark.skipif(os.name != "posix", reason="needs POSIX: signals")
PROGRAM = Path(__file__).with_name("killed.py")


@pytest.mark.parametrize(
    ("call", "when"),
    [
        pytest.param("fsync", "before", marks=pytest.mark.slow),
        ("replace", "before"),
        pytest.param("replace", "after", marks=pytest.mark.slow),
    ],
)
@pytest.mark.parametrize("old", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_train(call: str, when: str, old: bool, tmp_path: Path) -> None:
    data, out, whole = (tmp_path / name for name in ("x.csv", "m.wassloss", "whole.wassloss"))
    data.write_text("\n".join(["x,label", *(f"{i * 7 % 30},{i * 7 % 30 > 14}" for i in range(30))]))
    train = ("train", data, "--metric", "discrete", "--tol", 0.1, "--out")
    if old:
        ok(*train, out, "--kl-weight", 3)
    before = out.read_bytes() if old else None
    ok(*train, whole)
    command = [sys.executable, PROGRAM, call, when, *map(str, (*train, out, "--overwrite"))]
    done = subprocess.run(command, capture_output=True, timeout=100, check=False)
    assert done.returncode == -signal.SIGKILL
    if when == "after":
        assert out.read_bytes() == whole.read_bytes()
        wl.load(out)
        assert "already holds a model" in failed(*train, out)
    else:
        assert (out.read_bytes() if out.exists() else None) == before
    ok(*train, out, "--overwrite")
    assert out.read_bytes() == whole.read_bytes()
