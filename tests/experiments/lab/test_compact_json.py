"""Results are stored in small files, and read back as they were computed."""

import json
import math
from pathlib import Path

import pytest

from experiments.lab.compact_json import WIDTH, rounded, write_json

ROOT = Path(__file__).parents[3]
VALUE = {
    "scores": {f"family {i}": [0.1 * i + j / 7 for j in range(40)] for i in range(3)},
    "rows": [{"name": f"Küche {i}", "seconds": 1 / (i + 3), "right": True} for i in range(9)],
    "table": [[1, 2, 3]] * 60,
    "words": ["a long word that fills the line"] * 20,
    "nothing": [[], {}, None, ""],
    "many digits": 12345678,
}


def test_round_trip(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    write_json(path, VALUE, digits=None)
    assert json.loads(path.read_text(encoding="utf-8")) == VALUE
    write_json(path, VALUE)
    found = json.loads(path.read_text(encoding="utf-8"))
    assert found == rounded(VALUE, 8) != VALUE
    assert found["many digits"] == 12345678  # counts and seeds are exact


def test_a_list_of_numbers_is_one_line_and_a_small_record_too(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    write_json(path, VALUE)
    lines = path.read_text(encoding="utf-8").splitlines()
    assert sum('"family ' in line and line.endswith(("]", "],")) for line in lines) == 3
    assert sum("Küche" in line and line.endswith(("}", "},")) for line in lines) == 9
    assert lines.count("  [1, 2, 3],") == 59
    assert all(len(line) <= WIDTH for line in lines if "family" not in line and "word" not in line)


@pytest.mark.parametrize("key", ["settings", "chosen"])
def test_settings_keep_their_digits(tmp_path: Path, key: str) -> None:
    path = tmp_path / "a.json"
    write_json(path, {"found": {key: {"a": {"rate": 1 / 3}}, "cost": 1 / 3}})
    found = json.loads(path.read_text(encoding="utf-8"))["found"]
    assert found == {key: {"a": {"rate": 1 / 3}}, "cost": 0.33333333}


def test_what_is_not_finite_is_written_only_on_demand(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    with pytest.raises(ValueError, match="JSON"):
        write_json(path, [math.inf])
    assert not list(tmp_path.iterdir())
    write_json(path, [math.inf, math.nan], allow_nan=True)
    assert math.isnan(json.loads(path.read_text())[1])


FOLDERS = [ROOT / "docs" / name for name in ("results", "benchmarks", "figures")]
COMMITTED = sorted(path for folder in FOLDERS for path in folder.rglob("*.json"))


def test_committed_results_are_compact(tmp_path: Path) -> None:
    """Each is as `write_json` writes it, with its own number of digits."""
    for path in COMMITTED:
        value = json.loads(path.read_text(encoding="utf-8"))
        write_json(tmp_path / "a.json", value, allow_nan=path.parent.name == "benchmarks")
        written = (tmp_path / "a.json").read_text(encoding="utf-8")
        assert written == path.read_text(encoding="utf-8"), path


def test_committed_figures_are_small() -> None:
    sizes = {path: path.stat().st_size for folder in FOLDERS for path in folder.rglob("*.png")}
    assert sizes
    assert {path: size for path, size in sizes.items() if size > 200_000} == {}
