"""The committed results: read, drawn and described from their JSON alone."""

import runpy
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest

from experiments.registry import EXPERIMENTS
from experiments.run import load_results
from tests.sampling import one_in

pytest.importorskip("matplotlib")
DOCS = Path(__file__).parents[2] / "docs"


def test_pages_say_what_the_json_says() -> None:
    module = runpy.run_path(str(DOCS / "results_page.py"))
    for path in module["PAGES"]:
        assert module["page"](path) == path.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", one_in(4, EXPERIMENTS))
def test_committed_results_draw_their_committed_figures(name: str) -> None:
    image = pytest.importorskip("matplotlib.image")
    folder = DOCS / "results"
    figures = EXPERIMENTS[name].draw(load_results(folder)[name])
    assert {f"{name}-{figure}.png" for figure in figures} == _figures_of(name)
    for figure, drawn in figures.items():
        file = BytesIO()
        drawn.savefig(file, dpi=130, format="png")
        file.seek(0)
        found, expected = image.imread(file), image.imread(folder / f"{name}-{figure}.png")
        assert found.shape == expected.shape
        # Fonts differ slightly between versions of matplotlib; a missing line changes ten times
        # more.
        assert float(np.abs(found - expected).mean()) < 0.01


def _figures_of(name: str) -> set[str]:
    others = [other for other in EXPERIMENTS if other.startswith(f"{name}-")]
    found = {path.name for path in (DOCS / "results").glob(f"{name}-*.png")}
    return {file for file in found if not any(file.startswith(f"{o}-") for o in others)}
