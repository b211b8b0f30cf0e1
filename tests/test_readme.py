"""The code blocks of the pages run as they stand."""

import re
import warnings
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize(
    ("page", "blocks", "made"),
    [
        ("README.md", 7, "taxonomy.npz"),
        ("docs/choosing.md", 1, None),
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
    if page == "docs/scores.md":
        pytest.importorskip("torchmetrics")
    monkeypatch.chdir(tmp_path)  # some blocks save files
    found = re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(), flags=re.DOTALL)
    assert len(found) >= blocks
    namespace: dict[str, object] = {}
    with warnings.catch_warnings():  # a page may show how to set a filter
        for block in found:
            exec(block, namespace)
    if made is not None:
        assert (tmp_path / made).exists()
