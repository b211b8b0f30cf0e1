"""Check an answer: values by bounds, gradients as far as they are determined."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

import wassloss as wl
from tests.fuzz.long.answers import Answer, answer
from tests.fuzz.long.entropic import Problem
from tests.fuzz.long.tally import Tally
from tests.fuzz.long.ways import Outcome, WrongAnswerError, check_refusal
from tests.oracles import INF, Array

MOST_ARGUED = 16  # gradients per batch that are checked by solving nearby problems


@dataclass(frozen=True)
class Precision:
    """The precision to expect of a call in a dtype; it computes in single precision or better."""

    value: float  # relative error of the value
    tol: float  # marginal error at which a solve stops
    eps: float
    tiny: float
    most: float
    out_eps: float  # of the dtype of gradients
    out_most: float
    out_tiny: float


def precision_of(dtype: torch.dtype) -> Precision:
    double = dtype == torch.float64
    inner, outer = torch.finfo(torch.float64 if double else torch.float32), torch.finfo(dtype)
    return Precision(
        value=1e-7 if double else 2e-5,
        tol=1e-8 if double else 1e-5,
        eps=inner.eps,
        tiny=inner.tiny,
        most=inner.max,
        out_eps=outer.eps,
        out_most=outer.max,
        out_tiny=float(outer.smallest_normal),
    )


def as_array(x: Tensor) -> Array:
    return x.detach().double().numpy()


def judge(what: str, wrong: Array, outcome: Outcome, details: dict[str, Array]) -> None:
    """Raise for the first wrong example, if more are wrong than a warning reported."""
    count = int(wrong.sum())
    if count <= outcome.doubtful:
        return
    example = int(wrong.argmax())
    shown = ", ".join(f"{name} {_shown(part[example])}" for name, part in details.items())
    doubt = f" ({outcome.doubtful} warned about)" if outcome.doubtful else ""
    raise WrongAnswerError(
        f"{what} wrong in {count} of {len(wrong)} examples{doubt}: {shown}", example
    )


def _shown(x: Array) -> str:
    with np.printoptions(precision=9, threshold=50, linewidth=10**6):
        return np.array2string(np.asarray(x))


def slack_of(size: Array, precision: Precision, unit: float) -> Array:
    """The rounding error of a sum of this size, or of the least mass at the largest cost."""
    return precision.value * size + 100 * precision.tiny * (1 + unit)


def metric_rounding(a: Answer, metric: wl.ground.GroundMetric, precision: Precision) -> Array:
    """The effect of the metric's own rounding on a value or slope, `(batch,)`.

    The length of a path may round differently in reverse. A closed form computes costs from
    distances in a dtype that may be wider than the metric's; in a tree, it also moves the rounding
    errors of masses along edges above all labels.
    """
    p, eps = a.problem, torch.finfo(metric.dtype).eps
    mass, largest = np.maximum(*(m.sum(1) for m in a.masses)), p.cost.max(initial=0.0)
    rounding = np.zeros_like(mass)
    if metric.is_distance:
        rounding = rounding + 2 * abs(p.cost - p.cost.T).max(initial=0.0) * mass
    if metric.power not in (0, 1, 2):  # the last digit depends on the position in a row
        rounding = rounding + 4 * eps * largest * mass
    if p.epsilon == 0:
        rounding = rounding + 4 * eps * (1 + metric.power) * a.size
        if isinstance(metric, wl.ground.Tree):
            length = float(metric.edge_length.sum()) / metric.scale
            rounding = rounding + 10 * precision.eps * length * mass
    return rounding


def wrong_values(values: Array, low: Array, high: Array, slack: Array) -> Array:
    """Which values are out of bounds, including NaN and infinities."""
    return ~((low - slack <= values) & (values <= high + slack) & np.isfinite(values))


def tangent(slope: Array, h: Array) -> Array:
    """Convert a derivative in `log h` to one in logits with softmax `h`; along it for any mass."""
    return slope - h * (slope.sum(1, keepdims=True) / h.sum(1, keepdims=True))


def determined(a: Answer, precision: Precision) -> Array:
    """For which examples the solver's tolerance determines the gradients, `(batch,)`."""
    return _marginal_error(a, precision) <= a.firm


def _marginal_error(a: Answer, precision: Precision) -> Array:
    return a.moved * (3 * precision.tol + 100 * precision.eps)


def wrong_slopes(
    found: Array,
    a: Answer,
    precision: Precision,
    *,
    rounding: Array,
    tangential: bool,
    side: int = 0,
) -> Array:
    """Which gradients in the logs of a side's masses cannot be right, `(batch,)`.

    Potentials are poorly determined where the plan decouples. Where the implicit function theorem
    applies, a gradient must be within what the solver's tolerance allows; elsewhere it must still
    be a subgradient of a convex function, which never predicts more than the actual value.

    Args:
        found: `(batch, labels)`.
        a: the right answer.
        precision: of the dtype of the computation.
        rounding: further errors, `(batch, labels)`.
        tangential: whether gradients are along the simplex: in logits, or up to a constant.
        side: 0 for the prediction, 1 for the target.
    """
    mass = a.masses[side]
    expected = tangent(a.slopes[side], mass) if tangential else a.slopes[side]
    marginal = _marginal_error(a, precision)
    with np.errstate(invalid="ignore"):
        allowed = 4 * a.wobbles[side] * marginal[:, None] + 200 * precision.eps * a.size[:, None]
        # Potentials are centred over all labels, including those with almost no mass.
        farthest = a.problem.cost.max(initial=0) - a.problem.epsilon * np.log(precision.tiny)
        centred = 4 * precision.eps * farthest * mass
        allowed = allowed + centred + rounding
        allowed = allowed + 100 * precision.tiny * (1 + a.problem.cost.max(initial=0))
        off = ~(abs(found - expected) <= allowed)
    off &= ~(abs(expected) > 0.1 * precision.out_most)  # overflows the gradient's dtype
    rows = off.any(1)
    soft = np.flatnonzero(rows & ~determined(a, precision) & np.isfinite(found).all(1))
    rows[soft] = False
    argued = soft[:MOST_ARGUED]
    if len(argued):
        apart = found[argued] - expected[argued]
        rows[argued] = _promises_too_much(
            found[argued], apart, a, argued, precision, tangential, side
        )
    return rows


def _promises_too_much(
    found: Array,
    apart: Array,
    a: Answer,
    rows: Array,
    precision: Precision,
    tangential: bool,
    side: int,
) -> Array:
    """Whether the value is below its prediction, in the direction of the largest discrepancy."""
    p, mass = a.problem.take(rows), a.masses[side][rows]
    direction = np.sign(apart)
    if tangential:
        direction = direction - (mass * direction).sum(1, keepdims=True) / mass.sum(
            1, keepdims=True
        )
    direction = direction / np.maximum(abs(direction).max(1, keepdims=True), 1e-300)
    slack = 10 * precision.tol * a.size[rows]
    too_much = np.zeros(len(rows), dtype=bool)
    for length in (0.9, 0.1):
        step = np.log1p(length * direction)
        moved = replace(p, log_h=p.log_h + step) if side == 0 else replace(p, log_y=p.log_y + step)
        promised = (found * length * direction).sum(1)
        too_much |= a.low[rows] + promised - slack > answer(moved).high
    return too_much


def costs_of(metric: wl.ground.GroundMetric) -> Array:
    """Costs from every label (rows) to every target (columns)."""
    return as_array(metric.cost_columns(np.arange(metric.size))).T


def problem(
    log_h: Array,
    y: Array,
    cost: Array,
    epsilon: float,
    precision: Precision,
    *,
    gamma: tuple[float, float] = (INF, INF),
    product: bool = False,
) -> Problem:
    """The problem, with masses below the smallest normal number raised to it."""
    least = np.e * precision.tiny
    y = np.where((y > 0) & (y < least), least, y)
    with np.errstate(divide="ignore"):
        return Problem(log_h, np.log(y), cost, epsilon, gamma, product)


def refused(outcome: Outcome, p: Problem, precision: Precision) -> Tally:
    """Count a refused batch, if the refusal is justified."""
    batch, strengths = len(p.log_h), [x for x in (p.epsilon, *p.gamma) if x < INF]
    too_much = not max(1e3 * p.cost.max(initial=0.0), *strengths) < precision.most
    if not too_much:
        too_much = 1e3 * answer(p).size.max(initial=0.0) > precision.most
    check_refusal(outcome.refusal, too_much, strengths, precision.most)
    return Tally(batch, refused=batch)
