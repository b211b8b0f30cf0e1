"""The code blocks of the pages run as they are."""

import functools
import importlib.util
import json
import re
import runpy
import warnings
from pathlib import Path
from statistics import fmean
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[1]
NEEDS = {"docs/data.md": ("skrub",), "docs/scores.md": ("torchmetrics",)}  # beyond the core


@pytest.mark.parametrize(
    ("page", "blocks", "made"),
    [
        ("README.md", 7, "taxonomy.npz"),
        ("docs/choosing.md", 1, None),
        ("docs/data.md", 3, "pets.csv"),
        ("docs/estimators.md", 4, "grades.model"),
        ("docs/guides/coarse-labels.md", 5, None),
        ("docs/guides/counts.md", 2, None),
        ("docs/guides/devices.md", 1, None),
        ("docs/guides/hierarchies.md", 3, None),
        ("docs/guides/language-models.md", 2, None),
        ("docs/guides/learned-metric.md", 1, None),
        ("docs/guides/noise.md", 2, None),
        ("docs/guides/numbers.md", 3, None),
        ("docs/guides/ordered.md", 2, None),
        ("docs/guides/segmentation.md", 2, None),
        ("docs/guides/tags.md", 5, None),
        ("docs/guides/your-own-model.md", 7, None),
        ("docs/index.md", 1, None),
        ("docs/scores.md", 2, None),
        ("docs/status.md", 2, None),
        ("docs/tour.md", 5, None),
        ("docs/training.md", 5, None),
    ],
)
# Of Lightning, about loaders as small as these, and of torch, about itself.
@pytest.mark.filterwarnings("ignore:The '.*_dataloader' does not have many workers")
@pytest.mark.filterwarnings("ignore:The number of training batches")
@pytest.mark.filterwarnings("ignore:.isinstance.treespec, LeafSpec")
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
            exec(block.replace("n_jobs=2", "n_jobs=1"), namespace)  # tests fill the cores
    if made is not None:
        assert (tmp_path / made).exists()


PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]


def anchors(page: Path) -> set[str]:
    """The anchors of the headings, as a code host creates them."""
    prose = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
    headings = re.findall(r"^#+ (.*)$", prose, flags=re.MULTILINE)
    return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere_on_a_code_host(page: Path) -> None:
    prose = re.sub(r"```.*?```|`[^`\n]*`", "", page.read_text(), flags=re.DOTALL)
    for link in re.findall(r"\]\(([^)\s]+)\)", prose):
        if link.startswith("http"):
            continue
        path, _, anchor = link.partition("#")
        target = page.parent / path if path else page
        assert target.exists(), f"{page}: {link}"
        assert not anchor or anchor in anchors(target), f"{page}: {link}"


def test_no_two_pages_have_one_title() -> None:
    titles = [
        re.search(r"^# (.*)$", page.read_text(), flags=re.MULTILINE)[1]
        for page in (ROOT / "docs").rglob("*.md")
    ]
    assert len(titles) == len(set(titles))


def test_dead_links_are_found(tmp_path: Path) -> None:
    check = runpy.run_path(str(ROOT / "docs" / "check_links.py"))["dead_links"]
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "index.html").write_text('<h1 id="top">A</h1><a href="../b.html#here">b</a>')
    (tmp_path / "b.html").write_text(
        '<p id="here"><a href="a/#top"></a><a href="#here"></a><a href="https://nowhere"></a>'
    )
    assert check(tmp_path) == []
    (tmp_path / "c.html").write_text(
        '<a href="b.html#there"></a><img src="no.png"><a href="#x"></a><a href="b.html"></a>'
    )
    assert check(tmp_path) == ["c.html: #x", "c.html: b.html#there", "c.html: no.png"]


@pytest.fixture
def readme_table() -> ModuleType:
    path = ROOT / "docs" / "readme_table.py"
    spec = importlib.util.spec_from_file_location("readme_table", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_readme_has_the_numbers_of_the_results(readme_table: ModuleType) -> None:
    text = (ROOT / "README.md").read_text()
    assert readme_table.tables(text) == text, (
        "the JSON behind the README's tables has changed: python docs/readme_table.py --write"
    )


def test_the_readme_is_short() -> None:
    before = (ROOT / "README.md").read_text().partition("## Reference")[0]
    prose = re.sub(
        r"```.*?```|<!--.*?-->|<picture>.*?</picture>|\]\(.*?\)", "", before, flags=re.DOTALL
    )
    assert len(re.findall(r"\S*[^\W\d_]\S*", prose)) <= 700  # numbers in tables are not words


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
        measured("POT loop", 4.0, 5e-6),  # within the tolerance in ℓ2
        measured("POT batch", 1.0, 0.1),  # faster, but above the tolerance
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


def test_gains_are_medians_over_sets(readme_table: ModuleType) -> None:
    def trained(distance: float, right: float, milliseconds: float) -> dict:
        scores = {
            "ce": {"distance": [2.0, 4.0], "right": [0.5]},
            "w": {"distance": [distance], "right": [right]},
            "least cost: w": {"distance": [9.0], "least cost: distance": [1.5], "right": [0.1]},
        }
        took = {"ce": 2.0, "w": milliseconds, "least cost: w": milliseconds}
        return {"kind": "ordered", "scores": scores, "milliseconds": took}

    found = {"a": trained(2.7, 0.6, 3.0), "b": trained(3.0, 0.5, 0.0), "c": trained(1.5, 0.4, 5.0)}
    median = functools.partial(readme_table.over_sets, found, ("ordered",))
    assert median("w", readme_table.relative("distance"), "{:+.1f} %") == "-10.0 %"
    assert median("least cost: w", readme_table.relative("distance"), "{:+.0f}") == "-50"
    assert median("w", readme_table.more_right, "{:+.1f}") == "+0.0"
    assert median("w", readme_table.step, "{:.1f}") == "2.0"  # among those with times
    assert median("w", readme_table.relative("nll"), "{:+.1f}") == ""
    assert readme_table.over_sets(found, ("taxonomy",), "w", readme_table.more_right, "{}") == ""


def test_the_picture_has_the_numbers_of_the_results() -> None:
    pytest.importorskip("matplotlib")
    draw = runpy.run_path(str(ROOT / "docs" / "figures" / "draw.py"))
    found = json.loads((ROOT / "docs/results/networks.json").read_text())["found"]
    for suffix in draw["THEMES"]:
        picture = (ROOT / f"docs/figures/effect{suffix}.svg").read_text()
        for title, (part, sets) in draw["EFFECT"].items():
            assert title in picture
            for name, words in sets.items():
                assert words.replace("'", "&#x27;") in picture or words in picture
                ridge = draw["changes"](part, name).get("ridge regression, rounded", 0.0)
                assert ridge < draw["FARTHEST"] or f"+{ridge:.0f} %" in picture
    for name, of in found["untouched"].items():
        if of["kind"] == "taxonomy":  # all are shown
            assert name in draw["EFFECT"]["Networks on taxonomies, nothing tuned"][1]
            ce, w = (fmean(of["scores"][loss]["distance"]) for loss in ("ce", "default"))
            changed = draw["changes"]("untouched", name)["Wasserstein"]
            assert changed == pytest.approx(100 * (w / ce - 1))
    networks = {name: of for name, of in found["tuned"].items() if not name.endswith("-linear")}
    ordered = {name for name, of in networks.items() if of["kind"] == "ordered"}
    assert ordered == set(draw["EFFECT"]["Ordered labels, all tuned alike"][1])
