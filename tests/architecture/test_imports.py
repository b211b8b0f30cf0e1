"""Packages import one another in one direction only; imports inside functions hide no cycle."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import wassloss
from tests.architecture.public import not_public, running

SOURCE = Path(__file__).parents[2] / "src" / "wassloss"

# From the bottom up, as in docs/developers/architecture.md: a package imports only packages above
# it in this list.
ROOMS = (
    "files",
    "_memory",
    "_checks",
    "native",
    "_config",
    "kernels",
    "sets",
    "ground",
    "targets",
    "transport",
    "losses",
    "language",
    "boosting",
    "scores",
    "decisions",
    "models",
    "datasets",
    "estimators",
    "lightning",
    "app",
)


def room_of(module: str) -> str | None:
    """The package of a dotted module name; None for wassloss itself."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else None


def imported_modules(path: Path) -> Iterator[tuple[str, int]]:
    """Yield every module of wassloss that a file imports, anywhere in the file, with its line."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} has a relative import in line {node.lineno}"
            module = node.module or ""
            # `from wassloss import ground` imports a package, `from wassloss.ground import Tree`
            # does not.
            names = [f"{module}.{a.name}" if module == "wassloss" else module for a in node.names]
        else:
            continue
        yield from ((name, node.lineno) for name in names if name.split(".")[0] == "wassloss")


def python_files() -> list[Path]:
    return sorted(path for path in SOURCE.rglob("*.py") if path != SOURCE / "__init__.py")


def room_of_file(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def test_every_package_is_in_the_list() -> None:
    assert {room_of_file(path) for path in python_files()} == set(ROOMS)


@pytest.mark.parametrize("room", ROOMS)
def test_imports_point_down(room: str) -> None:
    allowed = ROOMS[: ROOMS.index(room) + 1]
    wrong = [
        f"{path.relative_to(SOURCE)}:{line} imports {module}"
        for path in python_files()
        if room_of_file(path) == room
        for module, line in imported_modules(path)
        # `from wassloss import SparseTarget` is the package's own.
        if (found := room_of(module)) in ROOMS and found not in allowed
    ]
    assert not wrong, "\n".join(wrong)


def test_the_application_imports_public_names_alone() -> None:
    """As whoever writes another application could."""
    wrong = {}
    for path in sorted((SOURCE / "app").rglob("*.py")):
        found = not_public(path.read_text(encoding="utf-8"), own="wassloss.app")
        if found:
            wrong[str(path.relative_to(SOURCE))] = found
    assert not wrong


def test_the_library_does_not_import_the_application() -> None:
    """Except for `compare` and `load`, which the package finds when they are first used."""
    wrong = [
        f"{path.relative_to(SOURCE)}:{line} imports {module}"
        for path in python_files()
        if room_of_file(path) != "app"
        for module, line in imported_modules(path)
        if room_of(module) == "app"
    ]
    assert not wrong
    names = {name for name, module in wassloss._MODULE_OF.items() if module.startswith("app")}
    assert names == {"compare", "load"}


def module_graph() -> dict[str, set[str]]:
    """The imports of each module, at the top of files and inside functions."""
    files = {
        ".".join(("wassloss", *p.relative_to(SOURCE).with_suffix("").parts)): p
        for p in python_files()
    }
    files = {name.removesuffix(".__init__"): path for name, path in files.items()}
    graph: dict[str, set[str]] = {}
    for name, path in files.items():
        graph[name] = set()
        for node in running(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "wassloss":
                # `from wassloss.a import b` imports the module a.b if there is one, else a.
                for alias in node.names:
                    inner = f"{node.module}.{alias.name}"
                    graph[name].add(inner if inner in files else str(node.module))
        graph[name] &= files.keys() - {name}
    return graph


def cycle_in(graph: dict[str, set[str]]) -> list[str] | None:
    done: set[str] = set()

    def visit(node: str, path: list[str]) -> list[str] | None:
        if node in path:
            return [*path[path.index(node) :], node]
        if node in done:
            return None
        for other in sorted(graph.get(node, ())):
            if found := visit(other, [*path, node]):
                return found
        done.add(node)
        return None

    return next((found for node in sorted(graph) if (found := visit(node, []))), None)


def test_a_cycle_is_found() -> None:
    assert cycle_in({"a": {"b"}, "b": {"c"}, "c": {"b"}}) == ["b", "c", "b"]
    assert cycle_in({"a": {"b", "c"}, "b": {"c"}, "c": set()}) is None


def test_no_module_imports_itself_through_others() -> None:
    cycle = cycle_in(module_graph())
    assert cycle is None, " -> ".join(cycle or [])
