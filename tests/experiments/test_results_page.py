"""The committed results: read, drawn and told from their JSON alone."""

import runpy
from pathlib import Path

import pytest

from experiments.run import load_results

pytest.importorskip("matplotlib")
DOCS = Path(__file__).parents[2] / "docs"


def test_the_results_page_says_what_its_json_says() -> None:
    module = runpy.run_path(str(DOCS / "results_page.py"))
    assert module["page"]() == (DOCS / "results" / "README.md").read_text(encoding="utf-8")


def test_every_result_has_its_figures() -> None:
    results = load_results(DOCS / "results")
    assert {"lattice", "relaxed", "mnist", "bound", "frontier"} <= set(results)
    for name in results:
        assert list((DOCS / "results").glob(f"{name}-*.png")), name
