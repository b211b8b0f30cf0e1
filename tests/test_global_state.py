"""No package of the library changes global state of the process."""

from __future__ import annotations

import locale
import logging
import os
import random
import signal
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import wassloss as wl
from tests.app.cli.commands import wassloss
from tests.app.report.reports import report
from wassloss.app.report import write_report

X = np.random.default_rng(0).normal(size=(80, 3))
Y = np.digitize(X[:, 0], [-0.5, 0.5])


def state() -> dict[str, Any]:
    """All global state that a library could change."""
    import matplotlib

    return {
        "warnings": [*warnings.filters],
        "showwarning": warnings.showwarning,
        "dtype": torch.get_default_dtype(),
        "device": torch.get_default_device(),
        "threads": torch.get_num_threads(),
        "gradients": torch.is_grad_enabled(),
        "deterministic": torch.are_deterministic_algorithms_enabled(),
        "precision": torch.get_float32_matmul_precision(),
        "torch's generator": torch.get_rng_state().tolist(),
        "NumPy's generator": repr(np.random.get_state()),  # noqa: NPY002
        "Python's generator": random.getstate(),
        "NumPy's errors": np.geterr(),
        "NumPy's printing": np.get_printoptions(),
        "figures": dict(matplotlib.rcParams),
        "environment": dict(os.environ),
        "locale": locale.setlocale(locale.LC_ALL),
        "signals": {n: signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM)},
        "logging": (logging.root.level, [*logging.root.handlers], logging.raiseExceptions),
        "folder": Path.cwd(),
        "path": [*sys.path],
        "recursion": sys.getrecursionlimit(),
        "streams": [(s, getattr(s, "errors", None)) for s in (sys.stdout, sys.stderr)],
        "excepthook": sys.excepthook,
    }


def losses() -> None:
    x = torch.zeros(4, 5, requires_grad=True)
    for metric in (wl.ground.Ordinal(5), wl.ground.Tree([-1, 0, 0, 1, 1], nodes=range(5))):
        for epsilon in (0.0, 0.2):
            loss_fn = wl.WassersteinLoss(metric, epsilon=epsilon)
            loss_fn(x, torch.tensor([0, 1, 2, 3])).backward()
            loss_fn(x, torch.full((4, 5), 0.2)).backward()
    matrix = wl.ground.Matrix(wl.ground.Grid((1, 5)).distance().square().sqrt())
    wl.wasserstein(torch.full((4, 5), 0.2), torch.eye(5)[:4], matrix, epsilon=0)
    wl.wasserstein(torch.full((4, 5), 0.2), torch.full((4, 5), 0.2).roll(1), matrix, epsilon=0.1)


def estimators() -> None:
    for words in ({}, {"solver": "adam", "max_iter": 2, "hidden_layer_sizes": (4,)}):
        model = wl.WassersteinClassifier("ordinal", random_state=0, **words).fit(X, Y)
        model.predict_proba(X)
    wl.WassersteinClassifierCV("ordinal", cv=2, alphas=[0.1, 1.0], random_state=0).fit(X, Y)


def comparison() -> None:
    wl.compare(X, Y, "ordinal")


def command_line(folder: Path, *words: object) -> None:
    data = folder / "data.csv"
    rows = (f"{a:.4f},{b:.4f},{y}" for (a, b, _), y in zip(X, Y, strict=True))
    data.write_text("\n".join(["a,b,label", *rows]))
    done = wassloss(*(data if word == "DATA" else word for word in words))
    assert done.exit_code == 0, done.output


CALLS: dict[str, Callable[[Path], None]] = {
    "losses": lambda _: losses(),
    "estimators": lambda _: estimators(),
    "comparison": lambda _: comparison(),
    "report": lambda folder: write_report(report(), folder / "report.html"),
    "compare": lambda folder: command_line(
        folder, "compare", "DATA", "--metric", "ordinal", "--jobs", 1, "--out", folder / "cmp"
    ),
    "train": lambda folder: command_line(
        folder, "train", "DATA", "--metric", "ordinal", "--tol", 0.1, "--out", folder / "run"
    ),
    "demo": lambda folder: command_line(
        folder, "demo", "--quick", "--seeds", 1, "--out", folder / "demo"
    ),
}


@pytest.mark.parametrize("name", CALLS)
def test_nothing_global_has_changed(name: str, tmp_path: Path) -> None:
    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        losses()  # triggers late imports, some of which set variables
        estimators()
        before = state()
        CALLS[name](tmp_path)
        after = state()
    finally:
        torch.set_num_threads(threads)
    assert {key for key in before if before[key] != after[key]} == set()


def test_no_generator_of_a_gpu_is_seeded(monkeypatch: pytest.MonkeyPatch) -> None:
    """It would not be restored: only the CPU's generator is."""

    def seeded(*_: object) -> None:
        raise AssertionError("the generators of all GPUs were seeded")

    monkeypatch.setattr("torch.cuda.manual_seed_all", seeded)
    words: dict[str, Any] = {"solver": "lbfgs", "max_iter": 500, "tol": 0.1}
    wl.WassersteinClassifier("ordinal", hidden_layer_sizes=(4,), **words).fit(X, Y)


def test_an_import_changes_nothing(tmp_path: Path) -> None:
    program = (
        "import os, sys, warnings, signal, logging, torch, numpy, sklearn, scipy, pyarrow\n"
        "import tests.test_global_state as t\n"
        "before = t.state()\n"
        "import importlib, wassloss\n"
        "for name in wassloss.__all__: getattr(wassloss, name)\n"
        "for name in ('app.report', 'app.model', 'app.cli.app'):\n"
        "    importlib.import_module('wassloss.' + name)\n"
        "after = t.state()\n"
        "print({k for k in before if before[k] != after[k]})\n"
    )
    import subprocess

    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "set()"
