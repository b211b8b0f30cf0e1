"""The same seed on the same machine gives the same bits, with one CPU thread or two."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.datasets import load_iris

import wassloss as wl
from tests.generators import random_masses, random_metric

LABELS, BATCH = 60, 40


@pytest.fixture(params=[1, 2], ids=["one thread", "two threads"], autouse=True)
def threads(request: pytest.FixtureRequest) -> Iterator[int]:
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield request.param
    torch.set_num_threads(before)


def loss_and_gradient(loss_fn: torch.nn.Module, target: Any) -> Callable[[], list[torch.Tensor]]:
    def once() -> list[torch.Tensor]:
        torch.manual_seed(1)
        x = torch.randn(BATCH, LABELS, requires_grad=True)
        value = loss_fn(x, target)
        value.backward()
        return [value.detach(), x.grad]

    return once


def balanced(**keywords: Any) -> wl.WassersteinLoss:
    return wl.WassersteinLoss(
        random_metric(LABELS), kl_weight=0.1, **keywords, normalize_cost=False
    )


def few() -> wl.SparseTarget:
    weights, indices = random_masses(BATCH, LABELS, 4, seed=2).float().topk(4)
    return wl.SparseTarget(indices, weights / weights.sum(1, keepdim=True))


def fitted(hidden: tuple[int, ...]) -> list[torch.Tensor]:
    x, y = load_iris(return_X_y=True)
    solver = "adam" if hidden else "auto"
    model = wl.WassersteinClassifier(
        "ordinal",
        hidden_layer_sizes=hidden,
        solver=solver,
        max_iter=5 if hidden else 500,
        random_state=0,
    )
    return [torch.from_numpy(model.fit(x, y).predict_proba(x))]


def scored() -> list[torch.Tensor]:
    p, metric = random_masses(BATCH, LABELS, seed=3), random_metric(LABELS)
    target = few()
    return [
        wl.scores.top_k_cost(p, target, metric, k=3),
        wl.scores.distance_at_k(p, target, metric),
        wl.scores.mean_wasserstein(p, target, metric),
        wl.scores.ranking_auc(p, target),
        wl.decisions.least_cost_labels(p, metric, 3),
    ]


CASES: dict[str, Callable[[], list[torch.Tensor]]] = {
    "class ids": loss_and_gradient(balanced(), torch.arange(BATCH)),
    "a few labels": loss_and_gradient(balanced(), few()),
    "dense": loss_and_gradient(balanced(), random_masses(BATCH, LABELS, seed=4).float()),
    "exact": loss_and_gradient(balanced(epsilon=0), random_masses(BATCH, LABELS, seed=4).float()),
    "debiased": loss_and_gradient(balanced(debiased=True), few()),
    "relaxed": loss_and_gradient(
        wl.RelaxedWassersteinLoss(random_metric(LABELS), normalize_cost=False), few()
    ),
    "estimator": lambda: fitted(()),
    "perceptron": lambda: fitted((8,)),
    "scores": scored,
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.filterwarnings("ignore::wassloss.estimators.FitWarning")
def test_the_same_bits_again(case: str) -> None:
    first, second = CASES[case](), CASES[case]()
    for one, other in zip(first, second, strict=True):
        np.testing.assert_array_equal(np.asarray(one), np.asarray(other))


@pytest.mark.parametrize("case", ["class ids", "a few labels"])
def test_threads_share_examples_not_sums(case: str) -> None:
    """The compiled losses give the same bits whatever the number of threads."""
    several = CASES[case]()
    torch.set_num_threads(1)
    for one, other in zip(several, CASES[case](), strict=True):
        assert torch.equal(one, other)
