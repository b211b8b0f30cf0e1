"""The demo at a small size; `make demo` runs it in full."""

from pathlib import Path

from tests.app.cli.commands import ok


def test_quick_demo(tmp_path: Path) -> None:
    out = tmp_path / "demo"
    out.mkdir()
    (out / "report.html").write_text("<!doctype html>\n<title>wassloss: an earlier one")
    text = ok("demo", "--quick", "--seeds", 2, "--out", out).stdout
    assert "these are not results" in text
    assert f"Report: {out / 'report.html'}" in text
    for name in ("accuracy ↑", "mean distance ↓", "grave mistakes ↓", "neg. log-likelihood ↓"):
        assert name in text
    assert text.count("cross-entropy says") == 10  # five mistakes of each kind
    assert [path.name for path in out.iterdir()] == ["report.html"]
    page = (out / "report.html").read_text()
    assert page.index("the mean distance from the truth is") < page.index("<svg")
    assert "these are not results" in page
