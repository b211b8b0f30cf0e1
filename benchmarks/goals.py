"""Performance goals of the project: rows of work, figure before, goal and measured figure.

The problems here are harder than the benchmark's own, because their distances are not squared.
Pairs of point clouds are the exception, because other libraries support only squared distances.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import entropic
import training
from contenders import GRAPH, OURS, Contender
from problems import MANY_DIMENSIONS, Case

SPARSE = Case(dtype="float32", tol=1e-5, power=1)
DENSE = replace(SPARSE, support=SPARSE.labels, epsilon=0.1)
POINTS = Case(
    labels=10_000, support=10_000, epsilon=0.1, batch=1, dtype="float32", tol=1e-4, dimensions=3
)
MANY = replace(SPARSE, labels=100_000, batch=256, dimensions=MANY_DIMENSIONS)
CPU = Case()
BATCHES = (100, 1024)
LOSS, IN_GRAPH = f"{OURS}, loss and gradient", f"{OURS}, loss and gradient, {GRAPH}"
CLASS_IDS = f"{training.PASSES} × forward and backward, class ids"
TAGS = f"{training.PASSES} × forward and backward, tags"
BY_HAND = "POT sinkhorn, loop, support only"
TORCH_ALONE = f"{OURS}, without Numba"
OTT = "OTT vmap, kernel, support only"

Case_ = tuple[str, Case, tuple[Contender, ...]]
Results = dict[str, Any]


def cases() -> Iterator[Case_]:
    """Yield kinds, cases and contenders, the fastest first."""
    named = {c.name: c for c in entropic.CONTENDERS}
    ours = tuple(named[name] for name in (OURS, LOSS, IN_GRAPH))
    for support in (5, 20):
        for batch in BATCHES:
            case = replace(SPARSE, support=support, batch=batch)
            yield "entropic", case, on_gpu((*ours, named[OTT]) if support == 5 else ours)
    for batch in BATCHES:
        case = replace(SPARSE, batch=batch)
        for way, contenders in training.TAGS.items():
            yield TAGS + way, case, contenders
        for way, contenders in training.ONE_HOT.items():
            yield CLASS_IDS + way, replace(case, support=1), contenders
    for dimensions in (2, MANY_DIMENSIONS):
        case = replace(DENSE, dimensions=dimensions)
        yield "entropic", case, on_gpu((*ours, named["GEMM Sinkhorn (float64)"]))
    for dimensions in (3, 64):
        peers = tuple(c for name, c in named.items() if "Flash" in name)
        yield "entropic", replace(POINTS, dimensions=dimensions), on_gpu((named[OURS], *peers))
    yield CLASS_IDS, replace(MANY, support=1), on_gpu(training.ONE_HOT[""])
    yield TAGS, MANY, on_gpu(training.MANY_LABELS)
    torch_alone = partial(entropic.wassloss, compiled=False)
    without = replace(named[OURS], name=TORCH_ALONE, prepare=torch_alone)
    loops = (named["POT sinkhorn, loop"], named[BY_HAND])
    on_cpu = tuple(replace(c, device="cpu") for c in (named[OURS], without, *loops))
    yield "entropic", CPU, on_cpu


def on_gpu(contenders: tuple[Contender, ...]) -> tuple[Contender, ...]:
    return tuple(replace(c, device="cuda") for c in contenders)


@dataclass(frozen=True)
class Goal:
    """One row of the table; `measured` formats its figures, or returns None if there are none."""

    work: str
    before: str
    goal: str
    measured: Callable[[Results], str | None]
    device: str | None = "cuda"  # None: any


def seconds(results: Results, kind: str, case: Case, contender: str) -> float | None:
    """The median time of a contender, if it was measured and reached the tolerance."""
    wanted = f"{kind}: {case}"
    for group in results["groups"]:
        if group["title"] != wanted:
            continue
        for row in group["measurements"]:
            if row["contender"] == contender and row["seconds"] and not row["stopped_after"]:
                return statistics.median(row["seconds"])
    return None


def milliseconds(results: Results, *asked: tuple[str, Case, str], passes: int = 1) -> str | None:
    found = [seconds(results, *one) for one in asked]
    if all(x is None for x in found):
        return None
    shown = ["not reached" if x is None else f"{1e3 * x / passes:.3g}" for x in found]
    return " / ".join(shown) + " ms"


def ratio(results: Results, kind: str, case: Case, over: str, under: str) -> str | None:
    """The time of one contender relative to another."""
    above, below = (seconds(results, kind, case, name) for name in (over, under))
    if above is None or below is None:
        return None
    times = above / below
    return f"{times:.3g} ×" if times < 1000 else f"{times:.0f} ×"


def _sparse(results: Results, support: int) -> str | None:
    sizes = [replace(SPARSE, support=support, batch=batch) for batch in BATCHES]
    own = milliseconds(results, *(("entropic", case, IN_GRAPH) for case in sizes))
    peer = milliseconds(results, *(("entropic", case, OTT) for case in sizes))
    return own and (own + (f" (OTT, support picked by hand, {peer})" if peer else ""))


def _over_cross_entropy(results: Results, kind: str, case: Case, batches: tuple[int, ...]) -> str:
    found = []
    for batch in batches:
        sized = replace(case, batch=batch)
        for way in ("", f", {GRAPH}"):
            names = "WassersteinLoss", training.BASELINE
            one = ratio(results, kind + way, sized, *names)
            if one:
                found.append(f"{one} at B={batch}{' in a graph' if way else ''}")
    return ", ".join(found)


def _dense(results: Results) -> str | None:
    found = []
    for dimensions in (2, MANY_DIMENSIONS):
        case = replace(DENSE, dimensions=dimensions)
        asked = [("entropic", case, name) for name in (LOSS, IN_GRAPH, OURS)]
        shown = milliseconds(results, *asked)
        if shown:
            found.append(f"{shown} in {dimensions} dimensions")
    return "; ".join(found)


def _points(results: Results) -> str:
    found = []
    for dimensions in (3, 64):
        case = replace(POINTS, dimensions=dimensions)
        over = ratio(results, "entropic", case, OURS, "FlashSinkhorn")
        own = milliseconds(results, ("entropic", case, OURS))
        if own:
            found.append(f"{own}, {over or 'FlashSinkhorn not run'} in {dimensions} dimensions")
    return "; ".join(found)


def _many_labels(results: Results) -> str | None:
    ids, tags = (CLASS_IDS, replace(MANY, support=1)), (TAGS, MANY)
    asked = (*ids, "WassersteinLoss"), (*tags, "WassersteinLoss + 0.1 KL")
    own = milliseconds(results, *asked, passes=training.PASSES)
    peer = milliseconds(results, (*ids, training.BASELINE), passes=training.PASSES)
    return own and f"{own} (cross-entropy {peer})"


def _on_cpu(results: Results) -> str:
    found = []
    for name, text in ((OURS, "with Numba"), (TORCH_ALONE, "without")):
        loop, by_hand = (
            ratio(results, "entropic", CPU, peer, name) for peer in ("POT sinkhorn, loop", BY_HAND)
        )
        if loop or by_hand:
            found.append(f"{text} {loop or 'not run'} and {by_hand or 'not run'}")
    return "; ".join(found)


GOALS = (
    Goal(
        "5 labels per target, K=1000 ε=0.02 float32, loss and gradient in a CUDA graph, "
        "B=100 / 1024",
        "0.17 / 0.63 ms (OTT 400 / 4300 ms)",
        "0.10 / 0.35 ms",
        partial(_sparse, support=5),
    ),
    Goal("the same with 20 labels", "4.5 / 9.5 ms", "0.5 / 2 ms", partial(_sparse, support=20)),
    Goal(
        "5 labels, launched from Python, over `CrossEntropyLoss`",
        "3 to 5 ×",
        "2 ×",
        partial(_over_cross_entropy, kind=TAGS, case=SPARSE, batches=BATCHES),
        device=None,
    ),
    Goal(
        "class ids, launched from Python, over `CrossEntropyLoss`, B=1024",
        "3 × (graph: 0.95 ×)",
        "1.5 ×",
        partial(
            _over_cross_entropy,
            kind=CLASS_IDS,
            case=replace(SPARSE, support=1),
            batches=BATCHES[1:],
        ),
        device=None,
    ),
    Goal(
        "dense targets, K=1000 B=100 ε=0.1 float32: loss and gradient launched / in a graph / "
        "`wl.solve`",
        "4 to 25 ms launched",
        "2.5 / 1.2 ms",
        _dense,
    ),
    Goal(
        "dense, one pair of 10 000 points: `wl.solve`, over FlashSinkhorn at the same error",
        "not measured",
        "1 ×",
        _points,
    ),
    Goal(
        "K=100 000 B=256, 50 dimensions, loss and gradient: class ids / 5 labels",
        "1.9 / 3.1 ms (cross-entropy 0.37 ms)",
        "0.9 / 1.7 ms",
        _many_labels,
    ),
    Goal(
        "K=1000 B=100 s=5 ε=0.02 float64: POT's loop, and the same with the support picked by "
        "hand, over `wl.solve`",
        "with Numba 840 × and 93 ×; without 194 × and 22 ×",
        "those with Numba, without extras",
        _on_cpu,
        device="cpu",
    ),
)


def rows(results: Results) -> list[tuple[str, str, str, str]]:
    """Work, figure before, goal and measured figure, for the device of the results."""
    return [
        (goal.work, goal.before, goal.goal, goal.measured(results) or "not measured")
        for goal in GOALS
        if goal.device in (None, results["device"])
    ]
