"""A release: one version everywhere, a README for the index, a recipe for conda."""

import re
import runpy
from pathlib import Path

import pytest

import wassloss as wl

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_all_speak_of_one_version() -> None:
    cited = re.search(r"^version: (\S+)$", (ROOT / "CITATION.cff").read_text(), re.MULTILINE)
    released = re.findall(r"^## (\d\S*)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    recipe = re.search(r'version: "(\S+)"', (ROOT / "conda/recipe.yaml").read_text())
    assert [cited[1], released[0], recipe[1]] == [wl.__version__] * 3


@pytest.mark.parametrize("address", ["", "https://example.org/us/wassloss"])
def test_links_of_the_readme_work_on_a_package_index(address: str) -> None:
    for_index = runpy.run_path(str(ROOT / "scripts/readme.py"))["for_index"]
    text = for_index(README, address, "1.2")
    links = re.findall(r"\]\(([^)]+)\)|(?:src|srcset)=\"([^\"]+)\"", text)
    assert all((a or b).startswith("https://") for a, b in links)
    assert ("docs/figures/effect.svg" in text) == bool(address)
    if address:
        assert f"[the evidence]({address}/blob/v1.2/docs/defaults.md)" in text
        assert f'src="{address}/raw/v1.2/docs/figures/effect.svg"' in text
    else:
        assert "the evidence" in text


def test_the_recipe_needs_what_the_package_needs() -> None:
    tomllib = pytest.importorskip("tomllib", reason="needs Python 3.11: tomllib")
    yaml = pytest.importorskip("yaml")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    recipe = yaml.safe_load((ROOT / "conda/recipe.yaml").read_text())
    needed = {re.sub(r"\s|;.*", "", need).lower() for need in project["dependencies"]}
    needed = {need.replace("torch>", "pytorch>") for need in needed}
    given = {need.replace(" ", "") for need in recipe["requirements"]["run"]}
    assert given - {f"python{project['requires-python']}"} == needed
    assert set(recipe["about"]["license_file"]) == set(project["license-files"])


def test_the_recipe_renders() -> None:
    rattler = pytest.importorskip("rattler_build")
    recipe = rattler.Stage0Recipe.from_file(ROOT / "conda/recipe.yaml")
    variant = recipe.render()[0]
    assert str(variant.recipe.package.version) == wl.__version__
