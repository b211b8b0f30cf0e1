"""The code blocks of the pages run as they stand."""

import functools
import importlib.util
import json
import re
import runpy
import warnings
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[1]
NEEDS = {"docs/data.md": ("pyarrow",), "docs/scores.md": ("torchmetrics",)}  # beyond wassloss[test]


@pytest.mark.parametrize(
    ("page", "blocks", "made"),
    [
        ("README.md", 7, "taxonomy.npz"),
        ("docs/choosing.md", 1, None),
        ("docs/data.md", 2, "clipart.parquet"),
        ("docs/estimators.md", 4, "grades.model"),
        ("docs/guides/counts.md", 2, None),
        ("docs/guides/devices.md", 1, None),
        ("docs/guides/hierarchies.md", 3, None),
        ("docs/guides/language-models.md", 2, None),
        ("docs/guides/learned-metric.md", 1, None),
        ("docs/guides/noise.md", 2, None),
        ("docs/guides/numbers.md", 2, None),
        ("docs/guides/ordered.md", 2, None),
        ("docs/guides/segmentation.md", 2, None),
        ("docs/guides/tags.md", 5, None),
        ("docs/index.md", 1, None),
        ("docs/scores.md", 2, None),
        ("docs/status.md", 2, None),
        ("docs/tour.md", 5, None),
        ("docs/training.md", 1, None),
    ],
)
def test_blocks_run(
    page: str, blocks: int, made: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for needed in NEEDS.get(page, ()):
        pytest.importorskip(needed)
    monkeypatch.chdir(tmp_path)  # some blocks save files
    found = re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(), flags=re.DOTALL)
    assert len(found) >= blocks
    namespace: dict[str, object] = {}
    with warnings.catch_warnings():  # a page may show how to set a filter
        for block in found:
            exec(block, namespace)
    if made is not None:
        assert (tmp_path / made).exists()


PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere_on_a_code_host(page: Path) -> None:
    prose = re.sub(r"```.*?```|`[^`\n]*`", "", page.read_text(), flags=re.DOTALL)
    for link in re.findall(r"\]\(([^)\s]+)\)", prose):
        if not link.startswith(("http", "#")):
            assert (page.parent / link.partition("#")[0]).exists(), f"{page}: {link}"


@pytest.fixture
def readme_table() -> ModuleType:
    path = ROOT / "docs" / "readme_table.py"
    spec = importlib.util.spec_from_file_location("readme_table", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_readme_has_the_ratios_of_the_benchmarks(readme_table: ModuleType) -> None:
    text = (ROOT / "README.md").read_text()
    assert readme_table.readme_with(readme_table.table(), text) == text, (
        "the JSON behind the README's table has changed: python docs/readme_table.py --write"
    )


def test_ratios_are_those_of_medians_at_the_tolerance(readme_table: ModuleType) -> None:
    def measured(name: str, seconds: float, error: float, stopped: int | None = None) -> dict:
        return {
            "contender": name,
            "seconds": [seconds, 9.0, 0.0],
            "error": error,
            "stopped_after": stopped,
        }

    rows = [
        measured("wassloss", 0.01, 1e-7),
        measured("POT loop", 4.0, 5e-6),  # within the tolerance of ℓ2
        measured("POT batch", 1.0, 0.1),  # quicker, but not there
        measured("POT loop, support only", 0.5, 1e-7),
        measured("OTT vmap", 2.0, 0.1, stopped=10),
        measured("GeomLoss", 1.0, 0.1),
    ]
    case = {"tol": 1e-6, "labels": 100}
    results = {
        "limits": {"seconds": 2.5},
        "groups": [{"title": "solve", "case": case, "measurements": rows}],
    }
    times = functools.partial(readme_table.times, results, "solve")
    assert times("POT", by_hand=False) == "400 ×"
    assert times("POT", by_hand=True) == "50 ×"
    assert times("OTT", by_hand=False) == "not in 2.5 s"
    assert times("GeomLoss", by_hand=False) == "not reached"
    assert readme_table.mean_distance([[1, 1, 0], [0, 1, 1]]) == 1.0


def test_the_readme_names_the_shares_of_its_picture() -> None:
    pytest.importorskip("matplotlib")
    draw = runpy.run_path(str(ROOT / "docs" / "figures" / "draw.py"))
    off_by = json.loads((ROOT / "docs/figures/alternatives.json").read_text())["off_by"]
    picture = (ROOT / "docs/figures/effect.svg").read_text()
    for name in ("cross-entropy", "label smoothing", "squared EMD", "Wasserstein"):
        assert name in picture
        for share in draw["shares"](off_by[name]):
            assert f"{share:.0f} %" in picture
    worst = {name: draw["shares"](counts)[-1] for name, counts in off_by.items()}
    said = (
        f"{worst['cross-entropy']:.0f} % to {worst['Wasserstein']:.0f} %",
        f"{worst['cross-entropy, best bet']:.0f} % and {worst['Wasserstein, best bet']:.0f} %",
    )
    table = runpy.run_path(str(ROOT / "docs" / "readme_table.py"))
    bets = [f"{name}, best bet" for name in ("cross-entropy", "Wasserstein")]
    said += (
        " and ".join(f"{table['mean_distance'](off_by[bet]):.2f}" for bet in bets) + " grades",
    )
    prose = " ".join((ROOT / "README.md").read_text().split())
    for words in said:
        assert words in prose
