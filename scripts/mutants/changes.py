"""List every small change to a file: by the syntax tree in Python, by patterns in C++."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

OPERATORS: dict[type[ast.AST], tuple[str, str]] = {
    ast.Add: ("+", "-"), ast.Sub: ("-", "+"), ast.Mult: ("*", "/"), ast.Div: ("/", "*"),
    ast.Pow: ("**", "*"), ast.Lt: ("<", "<="), ast.LtE: ("<=", "<"), ast.Gt: (">", ">="),
    ast.GtE: (">=", ">"), ast.Eq: ("==", "!="), ast.NotEq: ("!=", "=="), ast.And: ("and", "or"),
    ast.Or: ("or", "and"), ast.Is: ("is", "is not"), ast.IsNot: ("is not", "is"),
}  # fmt: skip
CHECKS = re.compile(r"_?(check|refuse|explain)")
# Text for people, and code that only type checkers use.
UNSEEN = re.compile(r"TYPE_CHECKING|__repr__|extra_repr|__all__")
CPP = [  # clang-format puts spaces around operators, but not inside templates
    (r" \+ ", " - "), (r" - ", " + "), (r" \* ", " / "), (r" / ", " * "), (r" < ", " <= "),
    (r" > ", " >= "), (r" <= ", " < "), (r" >= ", " > "), (r" == ", " != "), (r" && ", " || "),
    (r" \|\| ", " && "), (r" \+= ", " -= "), (r" -= ", " += "), (r"\b0\.5\b", "0.25"),
    (r"\bstd::max\(", "std::min("), (r"\bstd::min\(", "std::max("), (r"(?<=[(,=] )-(?=\w)", ""),
]  # fmt: skip


@dataclass(frozen=True)
class Change:
    """A range of characters in a file, and their replacement."""

    path: str  # within the repository
    start: int
    end: int
    before: str
    after: str
    line: int

    @property
    def key(self) -> str:
        return f"{self.path}:{self.start}:{self.before}:{self.after}"

    def applied(self, text: str) -> str:
        if text[self.start : self.end] != self.before:
            raise ValueError(f"{self.path} has changed at line {self.line}")
        return text[: self.start] + self.after + text[self.end :]

    def __str__(self) -> str:
        before, after = (" ".join(part.split())[:60] for part in (self.before, self.after))
        return f"{self.path}:{self.line}: {before!r} -> {after!r}"


def changes(root: Path, path: str) -> list[Change]:
    """Return all changes to one file, in order."""
    text = (root / path).read_text(encoding="utf-8")
    spans = _python(text) if path.endswith(".py") else _cpp(text)
    found = {
        Change(path, start, end, text[start:end], after, 1 + text.count("\n", 0, start))
        for start, end, after in spans
    }
    made = sorted(found, key=lambda change: (change.start, change.end, change.after))
    return [change for change in made if _is_program(path, change.applied(text))]


def _is_program(path: str, text: str) -> bool:
    try:
        return not path.endswith(".py") or ast.parse(text) is not None
    except SyntaxError:
        return False


def _python(text: str) -> Iterator[tuple[int, int, str]]:
    starts = [0]
    for line in text.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    lines = text.splitlines(keepends=True)

    def place(line: int, column: int) -> int:  # columns count bytes
        return starts[line - 1] + len(lines[line - 1].encode()[:column].decode())

    def span(node: ast.AST) -> tuple[int, int]:
        first = place(node.lineno, node.col_offset)  # type: ignore[attr-defined]
        return first, place(node.end_lineno, node.end_col_offset)  # type: ignore[attr-defined]

    def source(node: ast.AST) -> str:
        start, end = span(node)
        return text[start:end]

    def swapped(left: ast.AST, operator: ast.AST, right: ast.AST) -> Iterator[tuple[int, int, str]]:
        if type(operator) in OPERATORS:
            old, new = OPERATORS[type(operator)]
            between = text[span(left)[1] : span(right)[0]]
            if between.count(old) == 1:
                at = span(left)[1] + between.index(old)
                yield at, at + len(old), new

    for node in _seen(ast.parse(text)):
        match node:
            case ast.BinOp(left=left, op=operator, right=right):
                yield from swapped(left, operator, right)
                if isinstance(operator, ast.Add | ast.Sub):  # drop one of the terms
                    yield (*span(node), source(left))
            case ast.Compare(left=left, ops=[operator], comparators=[right]):
                yield from swapped(left, operator, right)
            case ast.BoolOp(op=operator, values=values):
                for left, right in pairwise(values):
                    yield from swapped(left, operator, right)
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                yield (*span(node), source(operand))
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                yield (*span(node), f"({source(operand)})")
            case ast.Constant(value=bool(value)):
                yield (*span(node), str(not value))
            case ast.Constant(value=int(value)):
                yield (*span(node), str(value + 1))
            case ast.Constant(value=float(value)):
                yield (*span(node), repr(2 * value + 1e-3))
            case ast.Call(args=[first, second, *_]) if source(first) != source(second):
                between = text[span(first)[1] : span(second)[0]]
                yield span(first)[0], span(second)[1], source(second) + between + source(first)
            case ast.Expr(value=ast.Call(func=called)) if CHECKS.match(
                source(called).split(".")[-1]
            ):
                yield (*span(node), "pass")
            case ast.If(test=test, body=[ast.Raise()]):
                yield (*span(test), "False")


def _seen(tree: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes that compute, without annotations, error messages and representations."""
    for name, value in ast.iter_fields(tree):
        if name in ("annotation", "returns", "decorator_list", "type_params"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if not isinstance(child, ast.AST):
                continue
            if isinstance(child, ast.Raise | ast.JoinedStr | ast.Import | ast.ImportFrom):
                continue
            heading = ast.unparse(child).split("\n")[0] if isinstance(child, ast.stmt) else ""
            if UNSEEN.search(heading):
                continue
            yield child
            yield from _seen(child)


def _cpp(text: str) -> Iterator[tuple[int, int, str]]:
    code = re.sub(r'//.*|/\*.*?\*/|"[^"\n]*"|^#.*', lambda m: "~" * len(m[0]), text, flags=re.M)
    for pattern, after in CPP:
        for found in re.finditer(pattern, code):
            yield found.start(), found.end(), after
