"""Every Python block of the README and the guides runs, in order, as a newcomer would paste it."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize(
    ("page", "blocks", "made"), [("README.md", 5, "taxonomy.npz"), ("docs/training.md", 1, "run")]
)
def test_blocks_run(
    page: str, blocks: int, made: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # some blocks save files
    found = re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(), flags=re.DOTALL)
    assert len(found) >= blocks
    namespace: dict[str, object] = {}
    for block in found:
        exec(block, namespace)
    assert (tmp_path / made).exists()
