"""The gallery's examples run without warnings, and each ends with a picture."""

import os
import runpy
import subprocess
import sys
from pathlib import Path

import pytest
import torch

plt = pytest.importorskip("matplotlib.pyplot")

ROOT = Path(__file__).parents[1]
EXAMPLES = sorted((ROOT / "examples").glob("plot_*.py"))
CLAIM = "**Claim: "


def test_there_are_enough_to_look_at() -> None:
    assert len(EXAMPLES) >= 8


# `make docs` runs them all. Here the slow ones are marked.
LONG = {"plot_noisy_labels", "plot_segmentation", "plot_word_tags", "plot_ordered_labels"}


@pytest.mark.parametrize(
    "example",
    [
        pytest.param(path, marks=[pytest.mark.slow] if path.stem in LONG else [])
        for path in EXAMPLES
    ],
    ids=lambda path: path.stem,
)
def test_example(example: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if example.stem == "plot_boosting":
        pytest.importorskip("lightgbm")
    monkeypatch.setattr(plt, "show", lambda: None)
    plt.switch_backend("agg")
    threads = torch.get_num_threads()
    try:
        names = runpy.run_path(str(example))
        assert CLAIM in names["__doc__"]  # one claim per page, at the top
        assert len(plt.get_fignums()) == 1
        plt.gcf().canvas.draw()
    finally:
        plt.close("all")
        torch.set_num_threads(threads)


def draw_module() -> dict[str, object]:
    return runpy.run_path(str(ROOT / "docs" / "figures" / "draw.py"))


def test_the_drawing_shows_every_room() -> None:
    drawn = {name for rooms, *_ in draw_module()["ROOMS"] for name in rooms.split(", ")}
    source = ROOT / "src" / "wassloss"
    packages = {path.parent.name for path in source.glob("*/__init__.py")}
    assert packages <= drawn
    for name in drawn:
        assert (source / name).is_dir() or (source / f"{name}.py").exists()


def test_drawings_are_those_of_their_sources(tmp_path: Path) -> None:
    # Compare only the words, because the bytes depend on matplotlib.
    page = ROOT / "docs" / "figures"
    drawn = (page / "speed.svg").read_text()
    module = draw_module()
    for contender, shown in module["CONTENDERS"].items():
        milliseconds = 1000 * module["timings"](module["SPEED_CASE"])[contender]
        text = f"{milliseconds:.3g} ms" if milliseconds < 1000 else f"{milliseconds / 1000:.2g} s"
        assert shown in drawn
        assert text in drawn
    for name, *_ in module["ROOMS"]:
        assert name in (page / "rooms.svg").read_text()


@pytest.mark.slow
def test_the_site_builds_without_a_warning(tmp_path: Path) -> None:
    pytest.importorskip("sphinx_gallery")
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q"]
    places = ["-d", str(tmp_path / "doctrees"), str(ROOT / "docs"), str(tmp_path / "site")]
    subprocess.run([*command, *places], check=True, env={**os.environ, "MPLBACKEND": "agg"})
    assert (tmp_path / "site" / "gallery" / "index.html").exists()
