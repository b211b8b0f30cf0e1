"""`wasserstein` and `solve` with random inputs, checked by an independent oracle."""

import math
from typing import Any

import hypothesis.extra.numpy as hnp
import hypothesis.strategies as st
import numpy as np
import torch
from hypothesis import event, given

import wassloss as wl
from tests.fuzz.cases import FORMS, in_form, metrics, unit_of, weights
from tests.fuzz.outcome import outcome, too_much
from tests.fuzz.reference import bounds, dense
from tests.fuzz.test_losses import EPSILONS, slack_of

MASSES = [1.0, 1e-3, 1e3, 1e-30, 1e30]


@given(st.data())
def test_distances(data: st.DataObject) -> None:
    """Distances between measures of any mass, with their plans."""
    metric = data.draw(metrics(), "metric")
    batch = data.draw(st.integers(0, 3), "batch")
    dtype = data.draw(st.sampled_from([torch.float32, torch.float64]), "dtype")
    form = data.draw(st.sampled_from(FORMS), "form")
    mass = 1.0 if form == "ids" else data.draw(st.sampled_from(MASSES), "mass")
    h = torch.from_numpy(mass * data.draw(weights(metric.size, batch), "h")).to(dtype)
    y = mass * data.draw(weights(metric.size, batch), "y")
    target = in_form(y, form, dtype)
    epsilon = unit_of(metric) * data.draw(st.sampled_from(EPSILONS), "epsilon")
    regularizer = data.draw(st.sampled_from(["plan", "product"]), "regularizer")
    keywords: dict[str, Any] = {"epsilon": epsilon, "regularizer": regularizer}

    found = outcome(lambda: wl.wasserstein(h, target, metric, **keywords))
    solved = outcome(lambda: wl.solve(h, target, metric, **keywords))
    assert found.refusal == solved.refusal
    if found.answer is None:
        assert too_much(found.refusal), found.refusal
        return
    torch.testing.assert_close(found.answer, solved.answer.value, rtol=1e-5, atol=1e-30)
    assert all(part.isfinite().all() for part in (solved.answer.f, solved.answer.g))
    truth, cost = dense(target, metric.size), metric.cost().double().numpy()
    for b, value in enumerate(found.answer.tolist()):
        known = bounds(h[b].double().numpy(), truth[b], cost, epsilon, regularizer=regularizer)
        event(f"bounds are tight: {known.tight}")
        slack = slack_of(known.size, dtype, unit_of(metric))
        assert math.isfinite(value)
        assert found.doubtful or known.low - slack <= value <= known.high + slack
    if not solved.doubtful:
        plan = solved.answer.plan()
        tolerance = 1e-3 if dtype == torch.float32 else 1e-6
        for marginal, wanted in ((2, h.double().numpy()), (1, truth)):
            off = abs(plan.double().sum(marginal).numpy() - wanted).sum(1)
            assert (off <= tolerance * mass).all()


@given(st.data())
def test_debiased_distances(data: st.DataObject) -> None:
    """Non-negative, zero from a measure to itself, and the sum of the three parts."""
    metric = data.draw(metrics(tame=True), "metric")
    h = torch.from_numpy(data.draw(weights(metric.size, 2), "h"))
    y = torch.from_numpy(data.draw(weights(metric.size, 2), "y"))
    unit = unit_of(metric)
    epsilon = unit * data.draw(st.sampled_from(EPSILONS[2:]), "epsilon")
    found = outcome(lambda: wl.wasserstein(h, y, metric, epsilon=epsilon, debiased=True))
    itself = outcome(lambda: wl.wasserstein(h, h, metric, epsilon=epsilon, debiased=True))
    if found.answer is None:
        assert too_much(found.refusal), found.refusal
        return
    slack = 1e-6 * (unit + epsilon)
    assert found.answer.isfinite().all()
    assert itself.doubtful or (itself.answer.abs() <= slack).all()
    if found.doubtful:
        return
    cost = metric.cost().double().numpy()

    def entropic(one: np.ndarray, other: np.ndarray) -> float:
        return bounds(one, other, cost, epsilon, regularizer="product").high

    for a, b, value in zip(h.numpy(), y.numpy(), found.answer.tolist(), strict=True):
        expected = entropic(a, b) - (entropic(a, a) + entropic(b, b)) / 2
        assert abs(value - expected) <= slack


anything = st.one_of(
    st.floats(width=32),
    st.floats(),
    st.integers(-(2**70), 2**70),
    st.sampled_from(["", "plan", None, True, (), (1.0, 2.0), [1.0], {}, 1j, float("nan"), 5e-324]),
)


@given(st.data())
def test_senseless_arguments(data: st.DataObject) -> None:
    """Any argument gives an answer, or an error that names the problem."""
    labels = data.draw(st.integers(1, 4))
    shape = data.draw(hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4))
    number = st.one_of(st.floats(-2, 2), st.sampled_from([math.nan, math.inf, -math.inf, 1e38]))
    h = torch.from_numpy(data.draw(hnp.arrays(np.float64, shape, elements=number)))
    h = h.to(data.draw(st.sampled_from([torch.float32, torch.float64, torch.long, torch.bool])))
    other = data.draw(hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4))
    y: Any = torch.from_numpy(data.draw(hnp.arrays(np.float64, other, elements=number)))
    y = data.draw(st.sampled_from([y, y.nan_to_num(0, 0, 0).long(), y.tolist(), y > 0, None]))
    if isinstance(y, torch.Tensor) and data.draw(st.booleans()):
        y = wl.SparseTarget(torch.zeros(other, dtype=torch.long), y)
    metric: Any = wl.ground.Ordinal(labels)
    if data.draw(st.booleans()):
        metric = data.draw(st.sampled_from([h, labels, None, "ordinal", torch.zeros(2, 3)]))
    names = [
        "epsilon",
        "gamma",
        "tol",
        "max_iterations",
        "scaling_iterations",
        "regularizer",
        "debiased",
    ]
    chosen = data.draw(st.lists(st.sampled_from(names), unique=True, max_size=2))
    keywords = {name: data.draw(anything, name) for name in chosen}
    if isinstance(keywords.get("scaling_iterations"), int):
        keywords["scaling_iterations"] %= 50  # many iterations are slow, but not invalid
    found = outcome(lambda: wl.wasserstein(h, y, metric, **keywords))
    assert found.answer is None or found.doubtful or found.answer.isfinite().all()

    def loss() -> torch.Tensor:
        fixed = {name: value for name, value in keywords.items() if name != "gamma"}
        return wl.WassersteinLoss(metric, **{"kl_weight": 0.0, **fixed}, normalize_cost=False)(h, y)

    found = outcome(loss)
    assert found.answer is None or found.doubtful or not found.answer.isnan() or not h.numel()
