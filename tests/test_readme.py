"""The code blocks of the pages run as they stand."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize(
    ("page", "blocks", "made"),
    [
        ("README.md", 7, "taxonomy.npz"),
        ("docs/estimators.md", 4, "grades.model"),
        ("docs/scores.md", 2, None),
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
    for block in found:
        exec(block, namespace)
    if made is not None:
        assert (tmp_path / made).exists()
