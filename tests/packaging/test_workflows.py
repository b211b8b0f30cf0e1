"""Requirements of the workflows exist, and third parties cannot change what they run."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))
pytestmark = pytest.mark.skipif(not WORKFLOWS, reason="not in the sdist")


def test_every_extra_that_is_installed_exists() -> None:
    tomllib = pytest.importorskip("tomllib", reason="needs Python 3.11: tomllib")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    asked = {}
    for path in [*WORKFLOWS, ROOT / "Makefile", ROOT / ".readthedocs.yaml"]:
        found = re.findall(
            r"(?:-e\s*['\"]?\.|extra_requirements:\s*)\[([\w, -]+)\]", path.read_text()
        )
        asked[path.name] = {name.strip() for names in found for name in names.split(",")}
    assert asked["ci.yml"]
    for name, extras in asked.items():
        assert extras <= project["optional-dependencies"].keys(), name


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_actions_of_others_are_pinned_and_no_credentials_stay(path: Path) -> None:
    yaml = pytest.importorskip("yaml")
    for job in yaml.safe_load(path.read_text())["jobs"].values():
        for step in job["steps"]:
            action = step.get("uses", "")
            if action and not action.startswith("actions/"):
                assert re.search(r"@[0-9a-f]{40}$", action), action
            if action.startswith("actions/checkout"):
                assert step["with"]["persist-credentials"] is False
