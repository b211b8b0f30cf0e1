"""The library of the core: found or missing, its constants, and its instruction sets."""

import math
import os
import subprocess
import sys
from collections.abc import Iterator
from ctypes import c_double
from pathlib import Path

import pytest
import torch

from tests.evaluators import needs_native
from wassloss.kernels import newton_constants
from wassloss.native import library
from wassloss.transport import precision


@pytest.fixture
def fresh() -> Iterator[None]:
    """Unload the library before and after."""
    library.library.cache_clear()
    yield
    library.library.cache_clear()


@pytest.mark.usefixtures("fresh")
def test_without_the_library(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(library, "PATH", tmp_path / "_core.so")
    assert not library.available()
    assert library.instructions() is None


@pytest.mark.usefixtures("fresh")
def test_a_damaged_library_is_none(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "_core.so").write_bytes(b"not a library")
    monkeypatch.setattr(library, "PATH", tmp_path / "_core.so")
    assert not library.available()


@needs_native
@pytest.mark.usefixtures("fresh")
def test_a_library_for_other_records_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(library, "ABI", library.ABI + 1)
    assert not library.available()


@needs_native
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_constants_are_those_of_python(dtype: torch.dtype) -> None:
    values = (c_double * 13)()
    found = library.library()
    assert found is not None
    found.wassloss_constants(dtype == torch.float64, values)
    names = (
        "FIRST_EXPONENT", "STAGE_FACTOR", "STAGE_TOLERANCE", "LAST_STAGE_TOLERANCE",
        "SUFFICIENT_INCREASE", "SHRINK", "SMALLEST_STEP", "RIDGE", "LONGEST_STEP",
    )  # fmt: skip
    expected = [
        precision.smallest_mass(dtype),
        precision.lowest_log_mass(dtype),
        precision.negligible_exponent(dtype),
        newton_constants.NO_LOG_MASS,
        *(getattr(newton_constants, name) for name in names),
    ]
    assert list(values) == pytest.approx(expected, rel=1e-14, abs=0)


PROGRAM = """
import torch
torch.set_num_threads(1)
from tests.native.test_threads import batch, run
from wassloss.native.library import instructions
print(instructions())
for dtype in (torch.float32, torch.float64):
    print(*run(1, dtype, slice(0, 20)).double().flatten().tolist())
"""


@needs_native
@pytest.mark.parametrize("asked", ["baseline", "avx2", "avx512", ""])
def test_instruction_sets_agree(asked: str) -> None:
    environment = {**os.environ, "WASSLOSS_INSTRUCTIONS": asked}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    name, *lines = done.stdout.splitlines()
    if asked == "baseline":
        assert name == asked
    assert name in ("baseline", "avx2", "avx512")
    from tests.native.test_threads import run

    for line, dtype, close in zip(
        lines, (torch.float32, torch.float64), (1e-5, 1e-12), strict=True
    ):
        expected = run(1, dtype, slice(0, 20)).double().flatten().tolist()
        assert [float(x) for x in line.split()] == pytest.approx(expected, rel=close, abs=close)
    assert math.isfinite(expected[0])
