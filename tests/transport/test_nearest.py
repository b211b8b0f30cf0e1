"""Transport to the nearest targets, compared with a convex solver, and as a limit."""

import math

import numpy as np
import pytest
import torch

import wassloss as wl
from tests.oracles import convex
from wassloss.losses.baselines import ExpectedCostLoss
from wassloss.scores import top_k_cost
from wassloss.transport import Newton, Status
from wassloss.transport.closed_forms import Nearest

F64 = torch.float64
K = 6
FREE = (math.inf, 0.0)
METRIC = wl.ground.Embedding(torch.randn(K, 3, generator=torch.Generator().manual_seed(0)).double())
TAGS = torch.tensor([[1, 0, 0, 2, 0, 0], [0, 0, 3, 0, 0, 1]], dtype=F64)
regularizers = pytest.mark.parametrize("regularizer", ["plan", "product"])


def predictions() -> torch.Tensor:
    return torch.randn(2, K, dtype=F64).softmax(1)


@regularizers
@pytest.mark.parametrize("gamma", [FREE, (0.7, 0.0)])
def test_value_and_plan_are_those_of_a_convex_solver(
    regularizer: str, gamma: tuple[float, float]
) -> None:
    h, y = predictions(), TAGS / TAGS.sum(1, keepdim=True)
    solution = wl.solve(h, y, METRIC, epsilon=0.3, gamma=gamma, regularizer=regularizer)
    assert solution.status is Status.EXACT
    plan = solution.plan().numpy()
    for i in range(2):
        there = (TAGS[i] > 0).numpy()  # the convex solver gets this restriction explicitly
        value, expected = convex(
            h[i].numpy(),
            y[i].numpy()[there],
            METRIC.cost().numpy()[:, there],
            0.3,
            gamma,
            regularizer,
        )
        assert solution.value[i].item() == pytest.approx(value, abs=1e-6)
        np.testing.assert_allclose(plan[i][:, there], expected, atol=1e-4)
        assert not plan[i][:, ~there].any()


@regularizers
def test_it_is_the_limit_of_relaxed_transport(regularizer: str) -> None:
    h, y = predictions(), TAGS / TAGS.sum(1, keepdim=True)
    keywords = {"epsilon": 0.3, "regularizer": regularizer}
    nearest = wl.wasserstein(h, y, METRIC, gamma=FREE, **keywords)
    gaps = [
        (wl.wasserstein(h, y, METRIC, gamma=(math.inf, gamma), **keywords) - nearest).abs().max()
        for gamma in (1e-1, 1e-3, 1e-5)
    ]
    assert gaps[0] > 1e-3  # not close at first
    assert gaps[2] < 1e-4
    assert gaps[0] > gaps[1] > gaps[2]


def test_without_an_entropy_it_is_the_cost_of_the_nearest_label() -> None:
    h = predictions()
    solution = wl.solve(h, TAGS, METRIC, gamma=FREE)
    nearest = torch.stack([METRIC.cost()[:, row > 0].min(1).values for row in TAGS])
    torch.testing.assert_close(solution.value, (h * nearest).sum(1))
    torch.testing.assert_close((solution.plan() * METRIC.cost()).sum((1, 2)), solution.value)
    torch.testing.assert_close(solution.plan().sum(2), h)
    # A prediction of one label costs what proposing it costs.
    for label in range(K):
        sure = torch.nn.functional.one_hot(torch.tensor([label] * 2), K).double()
        of_label = wl.wasserstein(sure, TAGS, METRIC, gamma=FREE)
        proposed = top_k_cost(sure, TAGS, METRIC, k=1, reduction="none")
        torch.testing.assert_close(of_label, proposed)


def test_it_leads_from_the_nearest_to_the_expected_cost() -> None:
    logits = torch.randn(2, K, dtype=F64)
    expected = ExpectedCostLoss(METRIC, reduction="none")(logits, TAGS)
    nearest = wl.wasserstein(logits.softmax(1), TAGS, METRIC, gamma=FREE)
    values = [
        wl.NearestWassersteinLoss(
            METRIC, epsilon=epsilon, reduction="none", kl_weight=0.0, normalize_cost=False
        )(logits, TAGS)
        for epsilon in (1e-4, 0.3, 1e5)
    ]
    torch.testing.assert_close(values[0], nearest, atol=1e-3, rtol=0)
    torch.testing.assert_close(values[2], expected, atol=1e-4, rtol=0)
    assert (values[0] < values[1]).all()
    assert (values[1] < values[2]).all()


@pytest.mark.parametrize("epsilon", [0.0, 0.3])
@regularizers
def test_labels_of_no_weight_are_no_targets(epsilon: float, regularizer: str) -> None:
    keywords = {"epsilon": epsilon, "gamma": FREE, "regularizer": regularizer}
    h, y = predictions(), TAGS / TAGS.sum(1, keepdim=True)
    dense = y.clone().requires_grad_()  # keeps a gradient for labels without mass
    sparse = wl.SparseTarget(torch.tensor([[0, 3], [2, 5]]), y[y > 0].reshape(2, 2))
    values = [wl.wasserstein(h, target, METRIC, **keywords) for target in (dense, y, sparse)]
    torch.testing.assert_close(values[0], values[1])
    torch.testing.assert_close(values[0], values[2])
    (gradient,) = torch.autograd.grad(values[0].sum(), dense)
    assert gradient.isfinite().all()
    if epsilon and regularizer == "product":
        step = torch.zeros_like(y)
        step[:, 1] = 1e-7
        ahead = wl.wasserstein(h, y + step, METRIC, **keywords)
        expected = (ahead - values[1]).detach() / 1e-7
        torch.testing.assert_close(gradient[:, 1], expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float32, F64])
def test_tiny_epsilons_and_vanished_labels_stay_finite(dtype: torch.dtype) -> None:
    logits = torch.tensor([[0.0, -200, 0, -200, 0, 0]], dtype=dtype, requires_grad=True)
    for epsilon in (0.0, 1e-6, 1e-3):
        loss = wl.NearestWassersteinLoss(
            METRIC.to(dtype=dtype), epsilon=epsilon, kl_weight=0.1, normalize_cost=False
        )
        value = loss(logits, TAGS[:1].to(dtype))
        (gradient,) = torch.autograd.grad(value, logits)
        assert value.isfinite()
        assert gradient.isfinite().all()


def test_large_batches_are_solved_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    h, y = torch.rand(7, K, dtype=F64), torch.rand(7, K, dtype=F64)
    whole = wl.wasserstein(h, y, METRIC, epsilon=0.2, gamma=FREE)
    monkeypatch.setattr("wassloss._memory.LARGEST_BLOCK", 2 * K * K)
    torch.testing.assert_close(wl.wasserstein(h, y, METRIC, epsilon=0.2, gamma=FREE), whole)


def test_what_does_not_fit_is_refused() -> None:
    h, y = predictions(), TAGS / TAGS.sum(1, keepdim=True)
    message = "scaling_iterations must be left out if the target's gamma is 0"
    with pytest.raises(ValueError, match=message):
        wl.wasserstein(h, y, METRIC, epsilon=0.3, gamma=FREE, scaling_iterations=10)
    with pytest.raises(ValueError, match=r"gamma must be .* may be 0\), got \(0.0, 1.0\)"):
        wl.wasserstein(h, y, METRIC, epsilon=0.3, gamma=(0.0, 1.0))
    with pytest.raises(ValueError, match="epsilon must be positive if gamma is finite"):
        wl.wasserstein(h, y, METRIC, epsilon=0.0, gamma=(1.0, 0.0))
    with pytest.raises(ValueError, match="solver must fit the problem, got Newton"):
        wl.solve(h, y, METRIC, epsilon=0.3, gamma=FREE, solver=Newton())
    with pytest.raises(ValueError, match="solver must fit the problem, got Nearest"):
        wl.solve(h, y, METRIC, epsilon=0.3, solver=Nearest())
    with pytest.raises(ValueError, match="debiased"):
        wl.wasserstein(h, y, METRIC, epsilon=0.3, gamma=FREE, debiased=True)


def test_weights_too_small_for_a_normal_number_are_small_and_no_less() -> None:
    # The label itself has a tiny weight; another at distance 1 has all the rest.
    h, y = torch.tensor([[1.0, 0.0]]), torch.tensor([[1e-40, 1.0]])
    metric = torch.tensor([[0.0, 1.0], [1.0, 0.0]])
    value = wl.wasserstein(h, y, metric, epsilon=1e-3, gamma=FREE, regularizer="product")
    torch.testing.assert_close(value, torch.tensor([-1e-3 * math.log(1e-40)]), rtol=0.1, atol=0)


def test_inside_the_transforms_of_torch_func() -> None:
    y, logits = TAGS / TAGS.sum(1, keepdim=True), torch.randn(2, K, dtype=F64)
    loss_fn = wl.NearestWassersteinLoss(
        METRIC, epsilon=0.1, kl_weight=0.2, reduction="sum", normalize_cost=False
    )

    def of_all(x: torch.Tensor) -> torch.Tensor:
        return loss_fn(x, y)

    x = logits.clone().requires_grad_()
    (expected,) = torch.autograd.grad(of_all(x), x)
    torch.testing.assert_close(torch.func.grad(of_all)(logits), expected)
