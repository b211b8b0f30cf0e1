"""Tests and doctests of parts whose optional packages are not installed are skipped, by name."""

from __future__ import annotations

import importlib.util
import sys
import traceback
from collections.abc import Generator, Iterator
from typing import Any

import pytest

# What the extras of pyproject.toml bring, as it is imported. Anything else that is missing is an
# error: a mistyped import must not pass for an optional package.
OPTIONAL = {
    "accelerate", "cvxpy", "distributed", "gensim", "lightning", "lightning_fabric", "matplotlib",
    "ntloss", "numba", "onnx", "onnxruntime", "onnxscript", "pandas", "PIL", "pooch", "pyarrow",
    "rich", "safetensors", "torchmetrics", "tqdm", "transformers", "triton", "trl", "typer",
}  # fmt: skip
# Files may be for these alone, but no call may need them: everything has a version without.
ACCELERATORS = {"numba", "triton"}

# Programs that tests start, with words of their own.
collect_ignore = [
    "tests/cli/interrupted.py",
    "tests/faults/killed_train.py",
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
        except Exception as error:
            package = missing_package(error)
            if package is None:
                raise
            half_imported = _files_running(error)  # which pytest leaves behind
            for name in set(sys.modules) - before:
                if getattr(sys.modules[name], "__file__", None) in half_imported:
                    del sys.modules[name]
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
