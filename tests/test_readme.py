"""Every Python block of the README and the guides runs, in order, as a newcomer would paste it."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def run_blocks(page: str) -> int:
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(), flags=re.DOTALL)
    namespace: dict[str, object] = {}
    for block in blocks:
        exec(block, namespace)
    return len(blocks)


def test_readme_blocks_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # one block saves a file
    assert run_blocks("README.md") >= 6
    assert (tmp_path / "taxonomy.npz").exists()


def test_scores_blocks_run() -> None:
    pytest.importorskip("torchmetrics")
    assert run_blocks("docs/scores.md") == 2
