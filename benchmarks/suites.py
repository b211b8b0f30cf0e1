"""The cases and contenders of each suite."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import entropic
import exact
import goals
import training
from contenders import OURS, Contender
from problems import MANY_DIMENSIONS, WORD_VECTORS, Case

HEADLINE = Case()
SINGLE = replace(HEADLINE, dtype="float32", tol=1e-5)
SUPPORTS = (1, 2, 4, 8, 12, 16, 20, 24, 32, 48, 64, 128)  # and all labels
POINTS = (1000, 3000, 10_000, 30_000, 50_000)


@dataclass(frozen=True)
class Group:
    """One case and its contenders; times are relative to the first."""

    kind: str
    case: Case
    contenders: tuple[Contender, ...]

    @property
    def title(self) -> str:
        return f"{self.kind}: {self.case}"

    def on(self, device: str) -> list[Contender]:
        """The contenders that can solve the case on a device."""
        return [c for c in self.contenders if c.suits(self.case) and c.device in (None, device)]


def quick() -> Iterator[Group]:
    yield _entropic(HEADLINE)
    yield _entropic(replace(HEADLINE, labels=100))
    yield from _others()


def reference() -> Iterator[Group]:
    """The cases quoted in the documentation, the sparse ones in two precisions and batch sizes."""
    yield _entropic(SINGLE)
    yield _entropic(replace(SINGLE, batch=1024))
    yield _many_labels()
    yield from _others()
    dense = replace(HEADLINE, support=HEADLINE.labels, dimensions=MANY_DIMENSIONS)
    yield _entropic(replace(dense, dtype="float32", tol=1e-5, epsilon=0.1))
    yield _entropic(dense)
    yield _entropic(HEADLINE)
    yield _entropic(replace(SINGLE, dimensions=MANY_DIMENSIONS))
    yield _entropic(replace(SINGLE, labels=10_000))


def full() -> Iterator[Group]:
    """Variations of the headline case, one quantity at a time."""
    yield from growth()
    yield from _others()
    yield _many_labels()
    yield _entropic(SINGLE)
    yield _entropic(replace(HEADLINE, support=HEADLINE.labels, epsilon=0.1))
    yield _entropic(replace(HEADLINE, labels=100, support=100))
    yield _entropic(replace(HEADLINE, dimensions=MANY_DIMENSIONS))


def growth() -> Iterator[Group]:
    """The cases of the pictures over K, B, s and 1/ε."""
    yield _entropic(HEADLINE)
    for labels in (100, 10_000, 100_000):
        yield _entropic(replace(HEADLINE, labels=labels))
    for batch in (10, 1000):
        yield _entropic(replace(HEADLINE, batch=batch))
    for support in (1, 20, HEADLINE.labels):
        yield _entropic(replace(HEADLINE, support=support))
    for epsilon in (0.1, 0.002):
        yield _entropic(replace(HEADLINE, epsilon=epsilon))


def points() -> Iterator[Group]:
    """One pair of dense measures on many points, the case that point-cloud solvers are made for."""
    # An error that single precision reaches for all sizes and both strengths.
    one = replace(HEADLINE, batch=1, dtype="float32", tol=1e-4)
    for epsilon in (0.1, 0.01):
        for labels in POINTS:
            for dimensions in (3, 64):
                sizes = {"labels": labels, "support": labels, "dimensions": dimensions}
                case = replace(one, epsilon=epsilon, **sizes)
                yield Group("entropic", case, tuple(_of_points(labels)))


def _of_points(labels: int) -> Iterator[Contender]:
    """Batched calls for few points, dense costs for more, and point-cloud solvers for all."""
    for contender in entropic.CONTENDERS:
        name = contender.name
        few = "solve_batch" in name or "vmap" in name
        some = few or "loop" in name or "GEMM" in name
        if "gradient" not in name and labels <= (3000 if few else 10_000 if some else labels):
            yield contender


def support() -> Iterator[Group]:
    """Ours alone over the number of target labels; its time should grow without a jump."""
    ours = tuple(c for c in entropic.CONTENDERS if c.name.startswith(f"{OURS}, loss"))
    for case in (SINGLE, HEADLINE):
        for batch in (100, 1024):
            for labels in (*SUPPORTS, HEADLINE.labels):
                yield Group("entropic", replace(case, batch=batch, support=labels), ours)


def goal_groups() -> Iterator[Group]:
    """The cases of the performance goals."""
    for kind, case, contenders in goals.cases():
        yield Group(kind, case, contenders)


SUITES: dict[str, Callable[[], Iterator[Group]]] = {
    "quick": quick,
    "reference": reference,
    "full": full,
    "growth": growth,
    "points": points,
    "support": support,
    "goals": goal_groups,
}
OF_THEIR_OWN = {"points", "support", "goals"}  # suites with files of their own
SECONDS = {  # per contender, by default
    "quick": 10.0,
    "reference": 60.0,
    "full": 60.0,
    "growth": 60.0,
    "points": 20.0,
    "support": 10.0,
    "goals": 20.0,
}


def tiny(group: Group) -> Group:
    """The same group at a small size, for a test run."""
    case = group.case
    labels = 16 if case.labels <= 1000 else 24
    support = labels if case.dense else min(case.support, 6)
    small = replace(case, labels=labels, support=support, batch=min(case.batch, 3))
    return replace(group, case=replace(small, dimensions=min(case.dimensions, 8)))


def _others() -> Iterator[Group]:
    yield Group("exact", replace(HEADLINE, epsilon=0.0), exact.CONTENDERS)
    kind = f"{training.PASSES} × forward and backward"
    for batch in (SINGLE.batch, 1024):
        case = replace(SINGLE, batch=batch)
        yield from _each_way(f"{kind}, class ids", replace(case, support=1), training.ONE_HOT)
        yield from _each_way(f"{kind}, tags", case, training.TAGS)
    kind = f"{training.PASSES} training steps, linear model of {training.FEATURES} features"
    yield from _each_way(kind, SINGLE, training.STEP)
    yield from _each_way(kind, replace(SINGLE, epsilon=0.1), training.STEP)


def _each_way(kind: str, case: Case, ways: dict[str, training.Contenders]) -> Iterator[Group]:
    for way, contenders in ways.items():
        yield Group(kind + way, case, contenders)


def _many_labels() -> Group:
    case = replace(SINGLE, labels=100_000, batch=256, dimensions=WORD_VECTORS)
    kind = f"{training.PASSES} × forward and backward, tags"
    return Group(kind, case, training.MANY_LABELS)


def _entropic(case: Case) -> Group:
    return Group("entropic", case, entropic.CONTENDERS)
