"""Requirements of an installation: only the core, unless an extra is named."""

import importlib.metadata
import re
from pathlib import Path

import pytest

from tests.packaging.smoke import CORE

ROOT = Path(__file__).parents[2]


@pytest.fixture
def project() -> dict:
    tomllib = pytest.importorskip("tomllib", reason="needs Python 3.11: tomllib")
    return tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def name_of(requirement: str) -> str:
    return re.split(r"[^\w-]", requirement)[0].lower()


def test_the_core_is_six_packages(project: dict) -> None:
    assert {name_of(need) for need in project["dependencies"]} == CORE
    needs = importlib.metadata.requires("wassloss") or []
    assert {name_of(need) for need in needs if "extra ==" not in need} == CORE


def test_the_oldest_constraints_are_the_lower_bounds(project: dict) -> None:
    extras = project["optional-dependencies"]
    wanted = [*project["dependencies"]]
    for extra in ("data", "plots", "cli"):
        wanted += extras[extra]
    bounds = dict(re.match(r"([\w-]+)>=([\d.]+)", need).groups() for need in wanted if ">=" in need)
    lines = (ROOT / "constraints-oldest.txt").read_text().splitlines()
    pins = dict(line.split("==") for line in lines if not line.startswith("#"))
    assert pins.keys() == bounds.keys()
    for name, pin in pins.items():
        # 4.0 equals 4.0.0; if a first release was withdrawn, the next one counts.
        assert (pin + ".").startswith(bounds[name] + "."), f"{name}: {pin}, not {bounds[name]}"


def test_every_dependency_has_a_reason(project: dict) -> None:
    page = (ROOT / "docs/dependencies.md").read_text().lower()
    for extra, needs in {"": project["dependencies"], **project["optional-dependencies"]}.items():
        for need in needs:
            if not need.startswith("wassloss["):
                assert name_of(need) in page, f"{need} of {extra or 'the core'}"
