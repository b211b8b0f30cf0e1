"""`python -m tests.works.page` writes docs/what-works-where.md from the table."""

from __future__ import annotations

from pathlib import Path

from tests.works.cells import (
    COMPILED,
    DTYPES,
    LAYOUTS,
    LOSSES,
    METRICS,
    MODES,
    PRECISION,
    Cell,
    cells,
    walk,
)
from tests.works.table import KNOWN_WRONG, REFUSED, Line, line_of

PAGE = Path(__file__).parents[2] / "docs" / "what-works-where.md"
TEXT = """# What works where

Losses take every kind of metric, target, dtype and memory layout, in every mode of PyTorch below,
unless the table says otherwise. `make slow` checks {right} combinations: values and gradients
must equal those of the same call in double precision, on contiguous tensors, without a mode, to
the precision of the dtype. {refused} more must be refused with an error that names the reason,
and {wrong} are known to be wrong.

| | tested |
| --- | --- |
| metrics | {metrics} |
| targets | class ids, `SparseTarget`, dense weights, `torch.sparse` matrices, `SetTarget` |
| dtypes (largest error, of the largest entry) | {dtypes} |
| memory layouts, of predictions and targets | {layouts} |

Numbers refer to the notes below. A dash: PyTorch itself has no such call.

| loss | {modes} |
| --- |{rule}
{rows}

{notes}

Within `torch.compile`, solvers run outside of the graph; {compiled} combinations of each loss are
compiled. `torch.sparse` matrices cannot be passed through `torch.compile` or `torch.vmap`, nor a
`SetTarget` through `torch.vmap`. Left out is what a loss does not take by its nature: the head and
the number tokens have class ids alone, maps `(batch, labels, …)` are for modules, and sets for the
`WassersteinLoss`es with a closed form.

Made by `python -m tests.works.page` from `tests/works/table.py`; `make test` checks a share of it.
"""


def page() -> str:
    lines: list[Line] = []
    rows = []
    for loss in LOSSES:
        marks = [mark(list(cells([loss], [mode])), lines) for mode in MODES]
        rows.append(f"| `{loss}` | " + " | ".join(marks) + " |")
    notes = [note(i, line) for i, line in enumerate(lines, start=1)]
    return TEXT.format(
        **counts(),
        compiled=COMPILED,
        metrics=", ".join(METRICS),
        dtypes=", ".join(f"{name} ({PRECISION[name]:g})" for name in DTYPES),
        layouts=", ".join(LAYOUTS),
        modes=" | ".join(MODES),
        rule=" --- |" * len(MODES),
        rows="\n".join(rows),
        notes="\n".join(notes),
    )


def counts() -> dict[str, int]:
    """How many cells the whole walk finds right, refused, or leaves out."""
    walked = [cell for loss in LOSSES for mode in MODES for cell in walk(loss, mode)]
    wrong = {cell for cell in walked if line_of(cell, KNOWN_WRONG)}
    refused = {cell for cell in walked if line_of(cell, REFUSED)} - wrong
    right = len(walked) - len(refused) - len(wrong)
    return {"right": right, "refused": len(refused), "wrong": len(wrong)}


def mark(found: list[Cell], lines: list[Line]) -> str:
    """The notes on some cells; "right" where a part of them has none."""
    about: list[Line] = []
    free = False
    for cell in found:
        line = line_of(cell, KNOWN_WRONG) or line_of(cell, REFUSED)
        if line is None:
            free = True
        elif line not in about:
            about.append(line)
    lines += [line for line in about if line not in lines]
    numbers = ", ".join(str(1 + lines.index(line)) for line in about)
    words = ["right"] if free else []
    return " ".join([*words, f"({numbers})" if numbers else ""]).strip() or "–"


def note(number: int, line: Line) -> str:
    kind = f'refused: "… {line.error} …"' if line in REFUSED else "known to be wrong"
    where = [
        ", ".join(values) for name, values in line.where.items() if name not in ("loss", "mode")
    ]
    of = f" ({'; '.join(where)})" if where else ""
    return f"{number}. {line.words[0].upper()}{line.words[1:]}{of}; {kind}."


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
