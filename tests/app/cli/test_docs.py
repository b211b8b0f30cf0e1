"""Run the commands of the pages as they are, with faster settings."""

import re
import shlex
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import wassloss as wl
from tests.app.cli.commands import ok, saved, wassloss

ROOT = Path(__file__).parents[3]
FASTER = {"train": ("--tol", 0.5), "compare": ("--jobs", 1)}  # than as they stand


def blocks(page: str) -> list[tuple[str, str]]:
    """Yield the language and the text of each block."""
    return re.findall(r"```(\w+)\n(.*?)```", (ROOT / page).read_text(), flags=re.DOTALL)


def words(block: str) -> list[list[str]]:
    """The words after `wassloss` on each line of a console block."""
    lines = (line.removeprefix("$ ") for line in block.splitlines())
    return [shlex.split(line)[1:] for line in lines if line.startswith("wassloss ")]


def commands(page: str) -> list[list[str]]:
    """The commands of all console blocks."""
    return [each for kind, text in blocks(page) if kind == "console" for each in words(text)]


@pytest.mark.filterwarnings(
    "default::wassloss.app._messages.DataWarning",
    "ignore:The inplace keyword",  # of Dask, in what newer releases of pandas deprecate
)
@pytest.mark.parametrize(
    ("page", "made"),
    [("tables", ["answers.csv"]), ("networks", []), ("serving", ["graded", "graded-by-dask"])],
)
def test_guides_of_code_and_commands(
    page: str, made: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, object] = {"__name__": "a page"}
    for kind, text in blocks(f"docs/guides/{page}.md"):
        if kind == "python":
            for needed in re.findall(r"^(?:import|from) (dask|onnxruntime|pyarrow)", text, re.M):
                pytest.importorskip(needed)
            exec(text.replace(" 1200)", " 240)"), namespace)  # rows
        for command in words(text) if kind == "console" else ():
            ok(*command, *FASTER.get(command[0], ()))
    check_answers(made)


def check_answers(made: list[str]) -> None:
    """Check that files exist, and that written predictions agree."""
    assert all(Path(name).exists() for name in made)
    if "graded" in made:
        ds = pytest.importorskip("pyarrow.dataset")
        found = [
            ds.dataset(name, format="parquet", partitioning="hive").to_table(["bottle", "grade"])
            for name in made
        ]
        first, second = (table.sort_by("bottle") for table in found)
        assert first.num_rows == 300
        assert first.equals(second)


def write_wine() -> None:
    """Write the table with which `compare` is demonstrated, and new rows."""
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
    for command in found:
        if command[:2] == ["train", "nowhere.csv"]:
            result = wassloss(*command)
            assert result.exit_code == 1
            assert result.stderr in text
            continue
        ok(*command, *FASTER.get(command[0], ()))
    assert Path("report.html").exists()
    shown = ok("metric", "show", "taxonomy.csv", "--near", "dog").stdout
    assert shown.split("\n\nDistances")[0] in text


def test_the_readme(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    paths = [("animal", "dog"), ("animal", "cat"), ("plant", "rose")]
    wl.ground.Tree.from_paths(paths).save("taxonomy.npz")
    x = np.random.default_rng(0).normal(size=(60, 3))
    data = pd.DataFrame(x, columns=list("abc"))
    data["label"] = np.array(["cat", "dog", "rose"])[x.argmax(1)]
    saved(data, Path("data.csv"))
    saved(data, Path("new.csv"))
    found = commands("README.md")
    write_wine()
    assert [command[0] for command in found] == [
        *("compare", "predict", "train", "train", "report", "predict")
    ]
    for command in found:
        ok(*command, *FASTER.get(command[0], ()))


def test_the_page_on_choosing_shows_what_the_command_prints() -> None:
    text = (ROOT / "docs/choosing.md").read_text()
    (command,) = commands("docs/choosing.md")
    assert command[:3] == ["metric", "show", "clipart"]
    (shown,) = re.findall(r"```text\n(.*?)```", text, flags=re.DOTALL)
    printed = [line.rstrip() for line in ok(*command).stdout.splitlines()]
    assert printed == shown.splitlines()
