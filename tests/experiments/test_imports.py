"""The experiments use only public names of the package, as a user would."""

import ast
from pathlib import Path

from tests.architecture.public import not_public

ROOT = Path(__file__).parents[2]
FILES = sorted((ROOT / "experiments").rglob("*.py"))


def test_only_public_names_are_imported() -> None:
    found = {path: not_public(path.read_text(encoding="utf-8")) for path in FILES}
    assert not {path: names for path, names in found.items() if names}


def test_private_names_are_found() -> None:
    source = "from wassloss._checks import x\nfrom wassloss.files import nope\nwl.files._x.y"
    found = not_public(source)
    assert {"wassloss._checks.x", "wassloss.files.nope", "wl.files._x"} <= set(found)


def test_the_package_imports_no_experiment() -> None:
    wrong = []
    for path in sorted((ROOT / "src").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            modules = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            modules += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            wrong += [path for module in modules if module.split(".")[0] == "experiments"]
    assert not wrong
