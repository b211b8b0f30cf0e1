"""Check the table of what works where: a sample of its cells in every run, all in `make slow`."""

from __future__ import annotations

import random
from functools import partial

import pytest
import torch

from tests.works.cells import LOSSES, MODES, Cell, cells, eager, given, maker, outcome, walk
from tests.works.page import PAGE, page
from tests.works.table import KNOWN_WRONG, REFUSED, line_of

SHARE = 8  # cells per loss and mode
CHEAP = [mode for mode in MODES if mode != "torch.compile"]  # see tests/losses/test_compile.py
quiet = pytest.mark.filterwarnings("ignore:There is a performance drop")  # of torch.vmap


def check(cell: Cell) -> str:
    """Describe what is wrong with a cell; empty if it is right."""
    if line_of(cell, KNOWN_WRONG) is not None:
        return ""
    became, refused = outcome(cell), line_of(cell, REFUSED)
    if refused is None:
        return "" if became == "right" else f"{cell}: {became}"
    right = became.startswith("refused") and refused.error in became
    return "" if right else f"{cell}: expected {refused.error!r}: {became}"


@quiet
@pytest.mark.parametrize("mode", CHEAP)
@pytest.mark.parametrize("loss", LOSSES)
def test_a_share_of_the_cells(loss: str, mode: str) -> None:
    wrong = [line for cell in walk(loss, mode, SHARE) if (line := check(cell))]
    assert not wrong, "\n".join(wrong)


@quiet
@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("loss", LOSSES)
def test_every_cell(loss: str, mode: str) -> None:
    wrong = [line for cell in walk(loss, mode) if (line := check(cell))]
    assert not wrong, "\n".join(wrong)


@quiet
@pytest.mark.parametrize("line", KNOWN_WRONG, ids=lambda line: line.words)
def test_what_is_known_to_be_wrong_still_is(line) -> None:
    assert line.example is not None
    assert line.covers(line.example)
    assert outcome(line.example).startswith("wrong"), (
        f"right by now; delete the line {line.words!r}"
    )


@pytest.mark.parametrize("line", [*REFUSED, *KNOWN_WRONG], ids=lambda line: line.words)
def test_every_line_is_about_some_cell(line) -> None:
    assert any(line.covers(cell) for cell in cells())


# Every cell is compared with one in double precision, which must be right itself. Left out: ten
# iterations do not converge, and exact transport has kinks at these masses.
SMOOTH = sorted(LOSSES.keys() - {"WassersteinLoss.as_in_paper", "wasserstein, exact"})


@pytest.mark.parametrize("loss", SMOOTH)
def test_gradients_in_double_precision_are_differences(loss: str) -> None:
    chosen = [
        cell
        for cell in cells([loss], ["eager"])
        if cell[3:] == ("float64", "contiguous", "eager")
        if line_of(cell, REFUSED) is None
    ]
    learned = [cell for cell in chosen if cell.metric == "learned"]
    wrong = []
    for cell in [*random.Random(loss).sample(chosen, min(6, len(chosen))), *learned]:
        # The median of a learned metric counts as a constant.
        own = cell.metric == "learned" and not loss.startswith("wasserstein")
        made = partial(maker(cell), **({"normalize_cost": False} if own else {}))
        read = given(LOSSES[loss], cell)[1]
        found = eager(made, read)
        generator = torch.Generator().manual_seed(3)
        steps = [1e-5 * torch.randn(read.x.shape, generator=generator, dtype=torch.float64)]
        if LOSSES[loss].takes == "masses" and "relaxed" not in loss:  # along the simplex
            steps[0] -= steps[0].mean(1, keepdim=True)
        slopes = [float((found.gradient * steps[0]).sum())]
        if found.metric is not None:
            step = 1e-5 * torch.rand(found.metric.shape, generator=generator, dtype=torch.float64)
            steps.append((step + step.T).fill_diagonal_(0.0))
            slopes.append(float((found.metric * steps[1]).sum()))
        for i, slope in enumerate(slopes):
            ends = []
            for sign in (1, -1):
                with torch.no_grad():
                    loss_fn, _ = made(sign * steps[1] if i == 1 else None)
                    x = read.x + sign * steps[0] if i == 0 else read.x
                    ends.append(float((loss_fn(x, read.target) * read.cotangent).sum()))
            difference = (ends[0] - ends[1]) / 2
            if abs(difference - slope) > 1e-4 * abs(slope) + 1e-9:
                wrong.append(f"{cell}, {'metric' if i else 'input'}: {slope:g}, not {difference:g}")
    assert not wrong, "\n".join(wrong)


def test_the_page_is_fresh() -> None:
    if not PAGE.parent.exists():  # an sdist has no pages
        return
    assert PAGE.read_text(encoding="utf-8") == page(), "run `python -m tests.works.page`"
