"""Tests and doctests of parts whose optional packages are not installed are skipped, by name.

Which skips are expected is in `tests/expected_skips.py`.
"""

from __future__ import annotations

import importlib.util
import os
import sys
import traceback
from collections.abc import Generator, Iterator
from typing import Any

import pytest
import torch

from tests.expected_skips import OPTIONAL

pytest_plugins = ["tests.skip_check"]

# Where there is no GPU, kernels are interpreted. Triton reads this where kernels are defined, those
# of its own library included, so it must be set before anything imports Triton.
if not torch.cuda.is_available() and os.environ.get("TRITON_INTERPRET") != "1":
    if "triton" in sys.modules:
        raise pytest.UsageError(
            "a plugin imported Triton before conftest.py: set TRITON_INTERPRET=1"
        )
    os.environ["TRITON_INTERPRET"] = "1"

# Files may be for this one alone, but no call may need it: everything has a version without.
ACCELERATORS = {"triton"}

# Programs that tests start, with words of their own.
collect_ignore = [
    "tests/app/cli/interrupted.py",
    "tests/app/cli/killed.py",
    "tests/kernels/late_run.py",
]


def missing_package(error: BaseException | None) -> str | None:
    """The optional package whose absence an error comes from, if any."""
    while error is not None:
        if isinstance(error, ModuleNotFoundError) and error.name is not None:
            package = error.name.split(".")[0]
            if package in OPTIONAL and importlib.util.find_spec(package) is None:
                return package
        if (of_doctest := getattr(error, "exc_info", None)) is not None:
            error = of_doctest[1]
        else:
            error = error.__cause__ or error.__context__
    return None


def _files_running(error: BaseException | None) -> set[str]:
    """The modules that were being imported when an error was raised."""
    files: set[str] = set()
    while error is not None:
        frames = traceback.extract_tb(error.__traceback__)
        files |= {frame.filename for frame in frames if frame.name == "<module>"}
        error = error.__cause__ or error.__context__
    return files


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector: pytest.Collector) -> Generator[None, Any, Any]:
    """Skip a file that cannot be imported without an optional package."""
    collect = collector.collect

    def collect_or_skip() -> Iterator[Any]:
        before = set(sys.modules)
        try:
            yield from collect()
        except (Exception, pytest.skip.Exception) as error:
            half_imported = _files_running(error)  # which pytest leaves behind
            for name in set(sys.modules) - before:
                if getattr(sys.modules[name], "__file__", None) in half_imported:
                    del sys.modules[name]
            package = missing_package(error)
            if package is None:
                raise
            pytest.skip(f"needs {package}", allow_module_level=True)

    collector.collect = collect_or_skip  # type: ignore[method-assign]
    return (yield)


def _skipping_what_is_not_installed() -> Generator[None, Any, Any]:
    try:
        return (yield)
    except Exception as error:
        failures = getattr(error, "failures", [error])  # a doctest has several
        packages = {missing_package(failure) for failure in failures} - {None} - ACCELERATORS
        if packages:
            pytest.skip(f"needs {', '.join(sorted(map(str, packages)))}")
        raise


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup() -> Generator[None, Any, Any]:
    """Skip a test whose fixtures need an optional package."""
    return (yield from _skipping_what_is_not_installed())


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Generator[None, Any, Any]:
    """Skip a test that needs an optional package."""
    return (yield from _skipping_what_is_not_installed())
