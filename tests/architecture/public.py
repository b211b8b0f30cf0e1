"""What a file imports of wassloss that is not public."""

import ast
import importlib
from collections.abc import Iterator


def not_public(source: str, own: str = "") -> list[str]:
    """The private names of wassloss in a file; those of its own package may be private."""
    found = []
    for node in running(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "wassloss":
            if own and f"{node.module}.".startswith(f"{own}."):
                continue
            offered = getattr(importlib.import_module(str(node.module)), "__all__", ())
            private = any(part.startswith("_") for part in str(node.module).split("."))
            names = [alias.name for alias in node.names if alias.name != "__version__"]
            found += [f"{node.module}.{n}" for n in names if private or n not in offered]
        elif isinstance(node, ast.Import):
            found += [a.name for a in node.names if a.name.startswith("wassloss.")]
        elif isinstance(node, ast.Attribute):
            path = dotted(node)
            if path is not None and path[0] in ("wl", "wassloss"):
                private = any(part.startswith("_") for part in path) and path[1] != "__version__"
                found += [".".join(path)] if private else []
    return found


def running(tree: ast.Module) -> Iterator[ast.AST]:
    """All nodes that run, which leaves out imports for annotations alone."""
    waiting: list[ast.AST] = [tree]
    while waiting:
        node = waiting.pop()
        yield node
        if not (isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"):
            waiting += ast.iter_child_nodes(node)


def dotted(node: ast.expr) -> list[str] | None:
    """The names of ``a.b.c``; None for anything else."""
    if isinstance(node, ast.Name):
        return [node.id]
    if isinstance(node, ast.Attribute):
        before = dotted(node.value)
        return None if before is None else [*before, node.attr]
    return None
