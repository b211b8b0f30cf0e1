"""Rooms import one another in one direction only, and no import inside a function hides a cycle."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src" / "wassloss"

# From the bottom up: a room imports only rooms that stand before it, as docs/architecture.md draws
# them.
ROOMS = (
    "_files",
    "_sealed",
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
    "data",
    "training",
    "estimators",
    "runs",
    "report",
    "demo",
    "cli",
)


def room_of(module: str) -> str | None:
    """The room of a dotted module name; None for the package itself."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else None


def imported_modules(path: Path) -> Iterator[tuple[str, int]]:
    """Every module of ours that a file imports, wherever in the file, with its line."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} has a relative import in line {node.lineno}"
            module = node.module or ""
            # `from wassloss import ground` imports a room, `from wassloss.ground import Tree` not.
            names = [f"{module}.{a.name}" if module == "wassloss" else module for a in node.names]
        else:
            continue
        yield from ((name, node.lineno) for name in names if name.split(".")[0] == "wassloss")


def python_files() -> list[Path]:
    return sorted(path for path in SOURCE.rglob("*.py") if path != SOURCE / "__init__.py")


def room_of_file(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def test_every_room_is_in_the_list() -> None:
    assert {room_of_file(path) for path in python_files()} == set(ROOMS)


@pytest.mark.parametrize("room", ROOMS)
def test_imports_point_down(room: str) -> None:
    allowed = ROOMS[: ROOMS.index(room) + 1]
    wrong = [
        f"{path.relative_to(SOURCE)}:{line} imports {module}"
        for path in python_files()
        if room_of_file(path) == room
        for module, line in imported_modules(path)
        # `from wassloss import __version__` is the package's own.
        if (found := room_of(module)) is not None
        and not found.startswith("__")
        and found not in allowed
    ]
    assert not wrong, "\n".join(wrong)


def module_graph() -> dict[str, set[str]]:
    """Which module imports which, at the top of files and inside functions."""
    files = {
        ".".join(("wassloss", *p.relative_to(SOURCE).with_suffix("").parts)): p
        for p in python_files()
    }
    files = {name.removesuffix(".__init__"): path for name, path in files.items()}
    graph: dict[str, set[str]] = {}
    for name, path in files.items():
        graph[name] = set()
        for node in _running(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "wassloss":
                # `from wassloss.a import b` imports the module a.b if there is one, else a.
                for alias in node.names:
                    inner = f"{node.module}.{alias.name}"
                    graph[name].add(inner if inner in files else str(node.module))
        graph[name] &= files.keys() - {name}
    return graph


def _running(tree: ast.Module) -> Iterator[ast.AST]:
    """All nodes that run, which leaves out imports for annotations alone."""
    waiting: list[ast.AST] = [tree]
    while waiting:
        node = waiting.pop()
        yield node
        if not (isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"):
            waiting += ast.iter_child_nodes(node)


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
