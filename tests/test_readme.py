"""The code blocks of the pages run as they stand."""

import re
import warnings
from pathlib import Path

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
        ("docs/guides/learned-metric.md", 1, None),
        ("docs/guides/noise.md", 2, None),
        ("docs/guides/ordered.md", 2, None),
        ("docs/guides/segmentation.md", 2, None),
        ("docs/guides/tags.md", 3, None),
        ("docs/index.md", 1, None),
        ("docs/scores.md", 2, None),
        ("docs/status.md", 2, None),
        ("docs/tour.md", 5, None),
        ("docs/training.md", 2, "study"),
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
