"""Scores and decisions with random inputs: in range, and equal for every form of target."""

import hypothesis.strategies as st
import numpy as np
import torch
from hypothesis import given

import wassloss as wl
from tests.fuzz.cases import in_form, metrics, weights
from tests.fuzz.outcome import outcome

FORMS = ["dense", "sparse", "coo", "csr"]


@given(st.data())
def test_scores(data: st.DataObject) -> None:
    metric = data.draw(metrics(), "metric")
    batch = data.draw(st.integers(1, 3), "batch")
    dtype = data.draw(st.sampled_from([torch.float32, torch.float64]), "dtype")
    p = torch.from_numpy(data.draw(weights(metric.size, batch), "p")).to(dtype)
    y = data.draw(weights(metric.size, batch), "y")
    k = data.draw(st.integers(1, metric.size), "k")
    largest = float(metric.distance_columns(np.arange(metric.size)).max())

    def scores(form: str) -> list[torch.Tensor]:
        target = in_form(y, form, dtype)
        return [
            wl.scores.top_k_cost(p, target, metric, k),
            wl.scores.distance_at_k(p, target, metric),
            wl.scores.mean_wasserstein(p, target, metric),
            wl.scores.accuracy(p, target),
            wl.scores.precision_at_k(p, target, k),
            wl.scores.recall_at_k(p, target, k),
        ]

    first = outcome(lambda: scores("dense"))
    assert first.answer is not None, first.refusal
    for value, most in zip(first.answer, [largest] * 3 + [1.0] * 3, strict=True):
        assert 0 <= float(value) <= most * (1 + 1e-5) + 1e-30
    for form in FORMS[1:]:
        again = outcome(lambda form=form: scores(form)).answer
        torch.testing.assert_close(again, first.answer, rtol=1e-5, atol=1e-5 * largest + 1e-30)


@given(st.data())
def test_decisions(data: st.DataObject) -> None:
    """The label of least expected cost, compared with exhaustive search."""
    metric = data.draw(metrics(), "metric")
    p = torch.from_numpy(data.draw(weights(metric.size, 3), "p"))
    k = data.draw(st.integers(1, metric.size), "k")
    cost = metric.cost().double()
    found = outcome(lambda: wl.decisions.least_cost_label(p, metric))
    several = outcome(lambda: wl.decisions.least_cost_labels(p, metric, k))
    if not cost.isfinite().all():
        return
    expected = p @ cost
    chosen = expected.gather(1, found.answer.unsqueeze(1)).squeeze(1)
    assert (chosen <= expected.amin(1) * (1 + 1e-5) + 1e-6 * cost.max()).all()
    assert several.answer.shape == (3, k)
    assert all(len(set(row)) == k for row in several.answer.tolist())
