"""Output where the encoding lacks some of our characters: they are spelled, and nothing fails."""

from __future__ import annotations

import codecs
import sys

_SPELLED = {
    "±": "+-",
    "−": "-",
    "–": "-",
    "…": "...",
    "×": "x",
    "·": "*",
    "≤": "<=",
    "≥": ">=",
    "∞": "inf",
    "²": "^2",
    "½": "1/2 ",
    "‖": "||",
    "↑": "^",
    "↓": "v",
    "→": "->",
    "█": "#",
    "✓": "yes",
    "“": '"',
    "”": '"',
    "’": "'",
    "α": "alpha",
    "γ": "gamma",
    "δ": "delta",
    "ε": "eps",
    "θ": "theta",
    "κ": "kappa",
    "λ": "lambda",
    "Σ": "sum ",
}


def spell_what_is_missing() -> None:
    """Let standard output and error spell characters that their encoding lacks."""
    _set_errors("wassloss.spelled")


def escape_what_is_missing() -> None:
    """Let them escape such characters instead, by their code: for data, which must not change."""
    _set_errors("backslashreplace")


def say(text: str, err: bool = False) -> None:
    """Print a line in the encoding that was asked for, where `typer.echo` turns ASCII to UTF-8."""
    stream = sys.stderr if err else sys.stdout
    stream.write(f"{text}\n")
    stream.flush()


def _set_errors(handler: str) -> None:
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)  # a caller may have put others there
        if reconfigure is not None:
            reconfigure(errors=handler)


def _spelled(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    missing = error.object[error.start : error.end]
    escaped = (c.encode("ascii", "backslashreplace").decode() for c in missing)
    spelled = (_SPELLED.get(c, other) for c, other in zip(missing, escaped, strict=True))
    return "".join(spelled), error.end


codecs.register_error("wassloss.spelled", _spelled)
