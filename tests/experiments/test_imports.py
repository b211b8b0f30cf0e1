"""The experiments use only public names of the package, as a user would."""

import ast
import importlib
from pathlib import Path

ROOT = Path(__file__).parents[2]
FILES = sorted((ROOT / "experiments").rglob("*.py"))


def not_public(source: str) -> list[str]:
    """The private names of wassloss that a file imports."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "wassloss":
            offered = getattr(importlib.import_module(node.module), "__all__", ())
            private = any(part.startswith("_") for part in node.module.split("."))
            names = [alias.name for alias in node.names]
            found += [f"{node.module}.{n}" for n in names if private or n not in offered]
        elif isinstance(node, ast.Import):
            found += [a.name for a in node.names if a.name.startswith("wassloss.")]
        elif isinstance(node, ast.Attribute):
            path = dotted(node)
            if path is not None and path[0] in ("wl", "wassloss"):
                private = any(part.startswith("_") for part in path) and path[1] != "__version__"
                found += [".".join(path)] if private else []
    return found


def dotted(node: ast.expr) -> list[str] | None:
    """The names of ``a.b.c``; None for anything else."""
    if isinstance(node, ast.Name):
        return [node.id]
    if isinstance(node, ast.Attribute):
        before = dotted(node.value)
        return None if before is None else [*before, node.attr]
    return None


def test_only_public_names_are_imported() -> None:
    found = {path: not_public(path.read_text(encoding="utf-8")) for path in FILES}
    assert not {path: names for path, names in found.items() if names}


def test_private_names_are_found() -> None:
    source = "from wassloss._files import read_npz\nfrom wassloss.data import nope\nwl.data._x.y"
    found = not_public(source)
    assert {"wassloss._files.read_npz", "wassloss.data.nope", "wl.data._x"} <= set(found)


def test_the_package_imports_no_experiment() -> None:
    wrong = []
    for path in sorted((ROOT / "src").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            modules = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            modules += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            wrong += [path for module in modules if module.split(".")[0] == "experiments"]
    assert not wrong
