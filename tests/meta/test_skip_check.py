"""Unexpected skips fail a run, in one process and in several."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests import expected_skips

ROOT = Path(__file__).parents[2]
CONFTEST = """
from tests import expected_skips
pytest_plugins = ["tests.skip_check"]
expected_skips.FLOORS = {"full": 2, "core": 2}
true = expected_skips.Expected("no sun", "needs the sun", lambda _: True, 1)
false = expected_skips.Expected("no moon", "needs the moon", lambda _: False, 9)
expected_skips.EXPECTED = [true, false]
"""
TWO = "def test_one(): ...\ndef test_two(): ...\n"
Run = Callable[..., tuple[int, str]]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "pytest.ini").write_text("[pytest]\ntestpaths = .\n")
    (tmp_path / "test_two.py").write_text(TWO)

    def run(files: dict[str, str], *options: str) -> tuple[int, str]:
        for name, text in files.items():
            (tmp_path / f"test_{name}.py").write_text(text)
        path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-p", "xdist", *options],
            cwd=tmp_path,
            env=os.environ | {"PYTHONPATH": path, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
            capture_output=True,
            text=True,
            check=False,
        )
        return done.returncode, done.stdout + done.stderr

    return run


processes = pytest.mark.parametrize("processes", [(), ("-n2",)], ids=["one process", "two"])


def skipped(reason: str) -> str:
    return f"import pytest\ndef test_three(): pytest.skip({reason!r})\n"


UNEXPECTED = {
    "untrue": skipped("needs the moon"),
    "unlisted": skipped("a reason that is on no list"),
    "xfail": "import pytest\n@pytest.mark.xfail\ndef test_three(): assert 0\n",
    "no_cases": "import pytest\n@pytest.mark.parametrize('x', [])\ndef test_three(x): ...\n",
    "fixture": "import pytest\n@pytest.fixture\ndef f(): pytest.skip('odd')\ndef test_x(f): ...\n",
    "unittest": "from unittest import *\nclass T(TestCase):\n  def test_x(s): s.skipTest('odd')\n",
}
UNEXPECTED_MODULES = {
    "module": "import pytest\npytest.skip('odd', allow_module_level=True)\n",
    "importing": "import pytest\npytest.importorskip('json.no_such_module')\n",
}


@processes
def test_an_expected_skip_passes(processes: tuple[str, ...], run: Run) -> None:
    code, printed = run({"three": skipped("needs the sun, at noon")}, *processes)
    assert code == 0, printed
    assert "2 tests ran (whole suite: at least 2); skipped: 1 no sun" in printed


@processes
def test_any_other_skip_fails(processes: tuple[str, ...], run: Run) -> None:
    code, printed = run(UNEXPECTED, *processes)
    assert code == 1, printed
    for name in UNEXPECTED:
        assert re.search(rf"test_{name}\.py::\S+ was skipped", printed), printed


@processes
def test_a_module_that_is_skipped_or_has_no_tests_fails(
    processes: tuple[str, ...], run: Run
) -> None:
    code, printed = run(UNEXPECTED_MODULES | {"empty": "def helper(): ...\n"}, *processes)
    assert code not in (0, 5), printed
    assert "test_empty.py has no tests" in printed
    for name in UNEXPECTED_MODULES:
        assert f"test_{name}.py was skipped" in printed


@processes
def test_counts_of_the_whole_suite(processes: tuple[str, ...], run: Run) -> None:
    both = skipped("needs the sun") + "def test_four(): pytest.skip('needs the sun')\n"
    code, printed = run({"more": both, "two": "def test_one(): ...\n"}, *processes)
    assert code == 1, printed
    assert "FAILED: 2 tests were skipped (no sun), expected at most 1" in printed
    assert "FAILED: 1 tests ran, expected at least 2" in printed


@pytest.mark.parametrize("part", [("test_two.py",), ("-k", "one"), ("--deselect", "test_x.py")])
def test_a_part_of_the_suite_has_no_floor(part: tuple[str, ...], run: Run) -> None:
    code, printed = run({"two": "def test_one(): ...\n"}, *part)
    assert code == 0, printed


def test_missing_packages_and_data_are_expected_reasons(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    absent, present = "tqdm", "typer"
    monkeypatch.setattr(expected_skips, "installed", lambda name: name != absent)
    (tmp_path / "mnist").mkdir()
    monkeypatch.setenv("WASSLOSS_DATA", str(tmp_path))
    assert expected_skips.expected(f"needs {absent}")
    assert expected_skips.expected(f"needs {present}, {absent}: pip install {absent}")
    assert expected_skips.expected(f"could not import '{absent}.auto': No module named '{absent}'")
    assert expected_skips.expected("glove and mnist is not in $WASSLOSS_DATA")
    assert expected_skips.expected("$WASSLOSS_DATA/glove/words.txt is not there")
    assert not expected_skips.expected(f"needs {present}")
    assert not expected_skips.expected("needs tqmd")
    assert not expected_skips.expected(
        "could not import 'wassloss.x': No module named 'wassloss.x'"
    )
    assert not expected_skips.expected("mnist is not in $WASSLOSS_DATA")
    assert not expected_skips.expected("$WASSLOSS_DATA/mnist is not there")
