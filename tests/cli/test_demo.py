"""The demo, in the small; `make demo` runs it in the large."""

from pathlib import Path

from tests.cli.commands import ok


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
