"""The demo, in the small; `make demo` runs it in the large."""

from pathlib import Path

import numpy as np
import pytest

from tests.cli.commands import ok
from wassloss.demo import _difference
from wassloss.runs import ExampleScores


def test_quick_demo(tmp_path: Path) -> None:
    out = tmp_path / "demo"
    text = ok("demo", "--quick", "--seeds", 2, "--out", out).stdout
    assert "these are not results" in text
    assert f"Report: {out / 'report.html'}" in text
    for name in ("top1_cost ↓", "top10_cost ↓", "auc ↑", "mass_distance ↓"):
        assert name in text
    assert {path.name for path in out.iterdir()} == {
        *("kl-0", "kl-1", "wasserstein-0", "wasserstein-1", "report.html")
    }
    assert "KL alone against W + α KL" in (out / "report.html").read_text()
    ok("demo", "--quick", "--seeds", 1, "--out", out)  # again, over its own runs


def test_the_interval_covers_examples_and_seeds() -> None:
    """Simulated: differences of known mean, with noise of examples and of seeds."""
    generator = np.random.default_rng(0)
    truth, covered, runs, seeds, n = 0.1, 0, 300, 8, 60
    for _ in range(runs):
        shared = generator.normal(size=n)
        first, second = [], []
        for _ in range(seeds):
            own = truth + 0.1 * generator.normal() + shared + 0.3 * generator.normal(size=n)
            first.append(ExampleScores(np.zeros((n, 1)), {"auc": np.zeros(n)}))
            second.append(ExampleScores(np.zeros((n, 1)), {"auc": own}))
        gap = _difference(first, second, "auc", None)
        covered += gap.low <= truth <= gap.high
    assert covered / runs == pytest.approx(0.95, abs=0.035)
