"""Requirements of the workflows exist, and third parties cannot change what they run."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))
pytestmark = pytest.mark.skipif(not WORKFLOWS, reason="not in the sdist")


def test_every_extra_and_group_that_is_installed_exists() -> None:
    tomllib = pytest.importorskip("tomllib", reason="needs Python 3.11: tomllib")
    given = tomllib.loads((ROOT / "pyproject.toml").read_text())
    known = given["project"]["optional-dependencies"].keys() | given["dependency-groups"].keys()
    for path in [*WORKFLOWS, ROOT / "Makefile", ROOT / ".readthedocs.yaml"]:
        if path.name == "publish.yml":
            continue
        found = re.findall(r"(?:\.whl\)|'\.)\[([\w,-]+)\]|--group ([\w-]+)", path.read_text())
        asked = {name for names in found for name in "".join(names).split(",")}
        assert asked, path.name
        assert asked <= known, path.name


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
