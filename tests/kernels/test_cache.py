"""Compiled code is found again, wherever it could be written; nothing about it is an error."""

import logging
import os
import pickle
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("numba")

from wassloss.kernels.numba import cache
from wassloss.kernels.numba.vectorized import kept_on_disk

ROOT = Path(__file__).parents[2]


def doubled(x: float) -> float:
    return 2 * x


def hits(made: Any) -> int:
    return sum(made.stats.cache_hits.values())


@pytest.fixture
def places(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Make these the directories to look in, as in a new process."""

    def use(*directories: Path) -> None:
        monkeypatch.setattr(cache, "directories", lambda: iter(directories))
        cache.announce.cache_clear()

    return use


def test_found_again(tmp_path: Path, places: Callable[..., None]) -> None:
    places(tmp_path / "new" / "kernels")
    first, second = kept_on_disk(doubled), kept_on_disk(doubled)
    assert (first(1.5), hits(first)) == (3.0, 0)
    assert (second(1.5), hits(second)) == (3.0, 1)
    assert second(3) == 6  # for these types it was not compiled yet
    assert hits(second) == 1


def test_the_next_directory_is_used_where_one_cannot_be_written_to(
    tmp_path: Path, places: Callable[..., None]
) -> None:
    (tmp_path / "file").touch()  # not a directory, for root can write to any of those
    places(tmp_path / "file" / "kernels", tmp_path / "kernels")
    assert kept_on_disk(doubled)(1.5) == 3.0
    assert len(list((tmp_path / "kernels").iterdir())) == 2
    again = kept_on_disk(doubled)
    assert (again(1.5), hits(again)) == (3.0, 1)


def test_what_was_compiled_before_is_read_where_it_cannot_be_written(
    tmp_path: Path, places: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    places(tmp_path)
    assert kept_on_disk(doubled)(1.5) == 3.0

    def refuse(*_: object, **__: object) -> None:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(cache.IndexDataCacheFile, "save", refuse)
    monkeypatch.setattr(Path, "mkdir", refuse)
    again = kept_on_disk(doubled)
    assert (again(1.5), hits(again)) == (3.0, 1)


def test_no_directory_at_all_is_no_error(tmp_path: Path, places: Callable[..., None]) -> None:
    (tmp_path / "file").touch()
    for directories in ([], [tmp_path / "file" / "kernels"]):
        places(*directories)
        assert kept_on_disk(doubled)(1.5) == 3.0


@pytest.mark.parametrize("content", [b"", b"cut off", pickle.dumps("another version")])
def test_a_damaged_file_is_written_again(
    tmp_path: Path, places: Callable[..., None], content: bytes
) -> None:
    places(tmp_path)
    assert kept_on_disk(doubled)(1.5) == 3.0
    for path in tmp_path.glob("*.nbc"):
        path.write_bytes(content)
    again = kept_on_disk(doubled)
    assert (again(1.5), hits(again)) == (3.0, 0)
    for path in tmp_path.glob("*.nbi"):
        path.write_bytes(content)
    assert kept_on_disk(doubled)(1.5) == 3.0


def test_changed_sources_are_compiled_again(
    tmp_path: Path, places: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    places(tmp_path)
    assert kept_on_disk(doubled)(1.5) == 3.0
    monkeypatch.setattr(cache, "version", lambda: "another")
    again = kept_on_disk(doubled)
    assert (again(1.5), hits(again)) == (3.0, 0)


def test_it_is_said_once_when_something_is_compiled(
    tmp_path: Path, places: Callable[..., None], caplog: pytest.LogCaptureFixture
) -> None:
    places(tmp_path)
    caplog.set_level(logging.INFO, "wassloss")
    kernel = kept_on_disk(doubled)
    assert kernel(1.5) == kernel(3) / 2
    assert len(caplog.records) == 1
    cache.announce.cache_clear()
    assert kept_on_disk(doubled)(1.5) == 3.0
    assert len(caplog.records) == 1  # it was on disk


@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo-terminal")
def test_an_installation_that_is_read_only(tmp_path: Path) -> None:
    import pty

    site, home = tmp_path / "site", tmp_path / "home"
    skip = shutil.ignore_patterns("__pycache__", "clipart*", "*.csv")
    shutil.copytree(ROOT / "src", site, ignore=skip)
    (site / "wassloss/kernels/numba/__pycache__").touch()  # cannot be a directory, even for root
    home.mkdir()
    paths = os.pathsep.join([str(site), os.environ.get("PYTHONPATH", "")])
    environment = {
        key: value
        for key, value in os.environ.items()
        if key not in ("NUMBA_CACHE_DIR", "XDG_CACHE_HOME")
    } | {"HOME": str(home), "PYTHONPATH": paths}
    program = (
        "from wassloss.kernels.numba.vectorized import kept_on_disk\n"
        "def doubled(x): return 2 * x\n"
        "doubled = kept_on_disk(doubled)\n"
        "assert doubled(1.5) == 3\n"
        "print(sum(doubled.stats.cache_hits.values()))"
    )
    for expected_hits, expected_lines in (("0", 1), ("1", 0)):
        reader, writer = pty.openpty()
        done = subprocess.run(
            [sys.executable, "-B", "-c", program],
            env=environment, stdout=subprocess.PIPE, stderr=writer, text=True, check=True,
        )  # fmt: skip
        os.write(writer, b"end\n")
        said = ""
        while not said.endswith("end\r\n"):
            said += os.read(reader, 4096).decode()
        os.close(reader)
        os.close(writer)
        assert done.stdout.strip() == expected_hits
        assert said.count("wassloss: compiling") == said.count("\n") - 1 == expected_lines
    assert len(list(home.rglob("*.nbc"))) == 1
