"""The commands of the pages run as they stand, with fewer steps."""

import re
import shlex
from pathlib import Path

import pytest
import torch

import wassloss as wl
from tests.cli.commands import ok, saved, wassloss

ROOT = Path(__file__).parents[2]


def commands(page: str) -> list[list[str]]:
    """What follows `wassloss` on each line of a console block."""
    blocks = re.findall(r"```console\n(.*?)```", (ROOT / page).read_text(), flags=re.DOTALL)
    lines = [line.removeprefix("$ ") for block in blocks for line in block.splitlines()]
    return [shlex.split(line)[1:] for line in lines if line.startswith("wassloss ")]


def write_wine() -> None:
    """The table that `compare` is shown on, and more of its kind."""
    lines = [
        f"{i % 7 + i / 100},{('old', 'new')[i % 2]},{('poor', 'fair', 'good')[i % 7 // 3]}"
        for i in range(60)
    ]
    for name in ("wine.csv", "more.csv"):
        Path(name).write_text("\n".join(["acid,cellar,grade", *lines]) + "\n")


def test_the_page_of_the_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_wine()
    text = (ROOT / "docs/cli.md").read_text()
    (table,) = re.findall(r"```text\n(name,.*?)```", text, flags=re.DOTALL)
    Path("taxonomy.csv").write_text(table)
    found = commands("docs/cli.md")
    assert len(found) >= 9
    for words in found:
        if words[:2] == ["train", "nowhere.csv"]:
            result = wassloss(*words)
            assert result.exit_code == 1
            assert result.stderr in text
            continue
        ok(*words, *(["--steps", 30] if words[0] == "train" else []))
    assert Path("report.html").exists()
    assert "Tree(3 of 6 nodes): taxonomy.npz. Look at it with" in text


def test_the_readme(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    paths = [("animal", "dog"), ("animal", "cat"), ("plant", "rose")]
    wl.ground.Tree.from_paths(paths).save("taxonomy.npz")
    x = torch.randn(60, 3)
    data = wl.data.Dataset(x, x.argmax(1), label_names=("cat", "dog", "rose"))
    saved(data, Path("data.csv"))
    saved(data, Path("new.csv"))
    found = commands("README.md")
    write_wine()
    assert [words[0] for words in found] == [
        *("compare", "predict", "train", "train", "report", "predict")
    ]
    for words in found:
        ok(*words, *(["--steps", 30] if words[0] == "train" else []))


def test_the_page_on_choosing_shows_what_the_command_prints() -> None:
    text = (ROOT / "docs/choosing.md").read_text()
    (words,) = commands("docs/choosing.md")
    assert words[:3] == ["metric", "show", "clipart"]
    (shown,) = re.findall(r"```text\n(.*?)```", text, flags=re.DOTALL)
    printed = [line.rstrip() for line in ok(*words).stdout.splitlines()]
    assert printed == shown.splitlines()
