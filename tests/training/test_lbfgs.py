"""Full-batch L-BFGS against scikit-learn, and as the limit of small steps."""

import math
import re

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from torch import nn

from tests.training.problems import grades, linear, same, tags, wasserstein
from wassloss.training import DivergedError, TrainingPlan, train, train_full_batch


@pytest.mark.parametrize("decay", [0.001, 0.1])
def test_cross_entropy_reaches_the_optimum_of_scikit_learn(decay: float) -> None:
    x, y = grades()
    model = linear().double()
    report = train_full_batch(
        model, nn.CrossEntropyLoss(), (x.double(), y), weight_decay=decay, tol=1e-8
    )
    # C Σ loss + ½‖w‖² is the mean loss + ½ decay ‖w‖², where C = 1 / (n decay)
    other = LogisticRegression(C=1 / (decay * len(x)), tol=1e-8, max_iter=10_000)
    other.fit(x.numpy().astype(np.float64), y.numpy())
    assert report.converged
    assert report.gradient < 1e-7
    np.testing.assert_allclose(model.linear.weight.detach(), other.coef_, atol=1e-4)
    probabilities = model(x.double()).softmax(1).detach()
    expected = other.predict_proba(x.numpy().astype(np.float64))
    np.testing.assert_allclose(probabilities, expected, atol=1e-5)


def test_small_steps_end_where_l_bfgs_does() -> None:
    x, y = tags(60)
    full, stepped = linear(), linear()
    train_full_batch(full, wasserstein(), (x, y), weight_decay=0.02)
    plan = TrainingPlan(steps=800, batch_size=60, learning_rate=0.3, weight_decay=0.02)
    train(stepped, wasserstein(), (x, y), plan)
    torch.testing.assert_close(stepped.state_dict(), full.state_dict(), rtol=1e-2, atol=2e-3)


def test_it_is_deterministic_and_reports() -> None:
    one, other = linear(), linear()
    report = train_full_batch(one, wasserstein(), tags(), weight_decay=0.02)
    assert report == train_full_batch(other, wasserstein(), tags(), weight_decay=0.02)
    assert same(one, other)
    assert str(report).startswith(f"L-BFGS converged: after {report.iterations} iterations")
    penalty = 0.01 * one.linear.weight.square().sum().item()
    x, y = tags()
    assert report.objective == pytest.approx(wasserstein()(one(x), y).item() + penalty, rel=1e-5)


def test_giving_up_is_said_with_advice() -> None:
    report = train_full_batch(linear(), wasserstein(), tags(), max_iterations=2)
    assert not report.converged
    assert re.search(r"did not converge .*raise max_iterations", str(report))
    assert report.iterations == 2


def test_bad_input() -> None:
    x, y = grades()
    with pytest.raises(TypeError, match=r"data must hold tensors, .* got tuple"):
        train_full_batch(linear(), nn.CrossEntropyLoss(), [(x, y), (x, y)])
    with pytest.raises(ValueError, match="max_iterations must be at least 1, got 0"):
        train_full_batch(linear(), nn.CrossEntropyLoss(), (x, y), max_iterations=0)
    with pytest.raises(ValueError, match="model must have parameters to train"):
        train_full_batch(nn.Identity(), nn.CrossEntropyLoss(), (x, y))
    with pytest.raises(DivergedError, match="the loss is nan in L-BFGS"):
        train_full_batch(linear(), lambda h, y: h.sum() * math.nan, (x, y))
