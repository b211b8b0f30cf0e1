"""Costs that are not distances, in every loss and solver, against independent answers."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import wassloss as wl
from tests.evaluators import needs_native, without_native
from tests.generators import random_masses
from tests.losses.per_example import relaxed_wasserstein_loss, wasserstein_loss
from tests.losses.test_gradients import ANY, check_gradient, measures, within_mass
from tests.newtons import NativeNewton
from tests.oracles import INF, algorithm_one, convex, linear_program
from wassloss.ground import Cost
from wassloss.losses.baselines import ExpectedCostLoss
from wassloss.transport import Newton, Sinkhorn
from wassloss.transport.closed_forms import Nearest
from wassloss.transport.network_simplex import NetworkSimplex

K, BATCH = 6, 4
F64 = torch.float64
KINDS = ("ids", "few", "dense", "COO")
KERNELS = pytest.mark.parametrize(
    "compiled",
    [
        pytest.param(
            True,
            marks=needs_native,
            id="compiled",
        ),
        pytest.param(False, id="torch"),
    ],
)
MODES: dict[str, dict[str, Any]] = {
    "exact": {"epsilon": 0.0},
    "plan": {"epsilon": 0.1},
    "product": {"epsilon": 0.1, "regularizer": "product"},
    "small epsilon": {"epsilon": 0.01},
    "relaxed plan": {"epsilon": 0.1, "gamma": (0.5, 2.0)},
    "relaxed product": {"epsilon": 0.1, "gamma": (0.5, 2.0), "regularizer": "product"},
    "semi-relaxed": {"epsilon": 0.1, "gamma": (INF, 0.5)},
    "nearest plan": {"epsilon": 0.1, "gamma": (INF, 0.0)},
    "nearest product": {"epsilon": 0.1, "gamma": (INF, 0.0), "regularizer": "product"},
    "nearest exact": {"epsilon": 0.0, "gamma": (INF, 0.0)},
}
modes = pytest.mark.parametrize("mode", [pytest.param(v, id=k) for k, v in MODES.items()])


@pytest.fixture
def use(monkeypatch: pytest.MonkeyPatch):
    """Return a function that enables or disables compiled code."""

    def choose(compiled: bool) -> None:
        if not compiled:
            without_native(monkeypatch)

    return choose


def costs() -> np.ndarray:
    """Asymmetric costs with a diagonal that is not the least of its column."""
    return np.random.default_rng(3).uniform(0.1, 2.0, (K, K))


def ground(tabulated: bool = False, labels: int = K) -> Cost:
    made = Cost(torch.from_numpy(costs()[:labels, :labels]))
    return made.tabulated() if tabulated else made


def target_of(kind: str) -> tuple[Any, np.ndarray]:
    """A target in one of its forms, and as a matrix."""
    if kind == "ids":
        ids = torch.tensor([0, 2, 5, 3])
        return ids, np.eye(K)[ids.numpy()]
    y = random_masses(BATCH, K, 2 if kind == "few" else 4, seed=1)
    if kind == "few":
        weights, indices = y.topk(3)  # one is padding
        return wl.SparseTarget(indices, weights), y.numpy()
    return y.to_sparse() if kind == "COO" else y, y.numpy()


def answer(h: np.ndarray, y: np.ndarray, C: np.ndarray, mode: dict[str, Any]) -> float:
    """The value of one example, by a convex solver or a linear program on its support."""
    used = y > 0
    y, M = y[used], C[:, used]
    gamma = mode.get("gamma", (INF, INF))
    if mode["epsilon"] == 0 and gamma[1] == 0:
        return float(h @ M.min(1))
    if mode["epsilon"] == 0:
        return linear_program(h, y, M)
    return convex(h, y, M, mode["epsilon"], gamma, mode.get("regularizer", "plan"))[0]


def answers(h: Tensor, y: np.ndarray, mode: dict[str, Any]) -> Tensor:
    found = [answer(own, to, costs(), mode) for own, to in zip(h.numpy(), y, strict=True)]
    return torch.tensor(found, dtype=F64)


@modes
@KERNELS
@pytest.mark.parametrize("kind", KINDS)
def test_transport(use, mode: dict[str, Any], compiled: bool, kind: str) -> None:
    use(compiled)
    h = random_masses(BATCH, K, seed=2)
    target, y = target_of(kind)
    expected = answers(h, y, mode)
    for tabulated in (False, True):
        value = wl.wasserstein(h, target, ground(tabulated), **mode)
        torch.testing.assert_close(value, expected, rtol=1e-5, atol=1e-6)
        solution = wl.solve(h, target, ground(tabulated), **mode)
        torch.testing.assert_close(solution.value, expected, rtol=1e-5, atol=1e-6)
        if "gamma" not in mode:
            plan = solution.plan()  # from prediction to target
            torch.testing.assert_close(plan.sum(2), h, rtol=0, atol=1e-6)
            torch.testing.assert_close(plan.sum(1), torch.from_numpy(y), rtol=0, atol=1e-6)
        if mode["epsilon"] == 0:
            paid = (solution.plan() * torch.from_numpy(costs())).sum((1, 2))
            torch.testing.assert_close(paid, expected, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize(
    ("solver", "mode"),
    [
        (Sinkhorn(), "plan"),
        (Sinkhorn(), "product"),
        (Sinkhorn(), "small epsilon"),
        (Sinkhorn(), "relaxed plan"),
        (Newton(), "plan"),
        (Newton(), "relaxed product"),
        pytest.param(
            NativeNewton(),
            "plan",
            marks=needs_native,
        ),
        (NetworkSimplex(), "exact"),
        (Nearest(), "nearest product"),
        (Nearest(), "nearest plan"),
    ],
    ids=str,
)
@pytest.mark.parametrize("kind", ["few", "dense"])
@pytest.mark.parametrize("tabulated", [False, True], ids=["columns", "table"])
def test_each_solver(solver: Any, mode: str, kind: str, tabulated: bool) -> None:
    h = random_masses(BATCH, K, seed=2)
    target, y = target_of(kind)
    value = wl.wasserstein(h, target, ground(tabulated), solver=solver, **MODES[mode])
    expected = answers(h, y, MODES[mode])
    torch.testing.assert_close(value, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("dtype", [torch.float32, F64])
def test_products_with_one_kernel_for_a_wide_batch(dtype: torch.dtype) -> None:
    # With enough examples, targets with different supports share one kernel over all labels.
    rng = np.random.default_rng(0)
    C = rng.uniform(0.1, 2.0, (40, 40))
    h, y = random_masses(30, 40, seed=4), random_masses(30, 40, 25, seed=5)
    weights, indices = y.topk(25)
    few = wl.SparseTarget(indices, weights.to(dtype))
    metric = Cost(torch.from_numpy(C).to(dtype)).tabulated()
    value = wl.wasserstein(h.to(dtype), few, metric, epsilon=0.3, solver=Sinkhorn())
    for place in (0, 17):
        used = y[place].numpy() > 0
        expected, _ = convex(h[place].numpy(), y[place].numpy()[used], C[:, used], 0.3)
        assert float(value[place]) == pytest.approx(expected, rel=1e-4)


@KERNELS
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("regularizer", ["plan", "product"])
@pytest.mark.parametrize("epsilon", [0.0, 0.1])
def test_the_loss_of_logits(
    use, compiled: bool, kind: str, regularizer: str, epsilon: float
) -> None:
    use(compiled)
    logits = 2 * torch.randn(BATCH, K, dtype=F64)
    target, y = target_of(kind)
    mode = {"epsilon": epsilon, "regularizer": regularizer}
    h = logits.softmax(1)
    kl = (torch.special.xlogy(torch.from_numpy(y), torch.from_numpy(y) / h)).sum(1)
    expected = answers(h, y, mode) + 0.3 * kl
    loss_fn = wl.WassersteinLoss(
        ground(), kl_weight=0.3, reduction="none", **mode, normalize_cost=False
    )
    torch.testing.assert_close(loss_fn(logits, target), expected, rtol=1e-5, atol=1e-6)
    untabulated = wasserstein_loss(logits, target, ground(), kl_weight=0.3, **mode)
    torch.testing.assert_close(untabulated, expected, rtol=1e-5, atol=1e-6)


@KERNELS
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("regularizer", ["plan", "product"])
@pytest.mark.parametrize("epsilon", [0.0, 0.1])
def test_the_nearest_loss(use, compiled: bool, kind: str, regularizer: str, epsilon: float) -> None:
    use(compiled)
    logits = 2 * torch.randn(BATCH, K, dtype=F64)
    target, y = target_of(kind)
    mode = {"epsilon": epsilon, "regularizer": regularizer}
    expected = answers(logits.softmax(1), y, mode | {"gamma": (INF, 0.0)})
    loss_fn = wl.NearestWassersteinLoss(
        ground(), reduction="none", **{"kl_weight": 0.0, **mode}, normalize_cost=False
    )
    torch.testing.assert_close(loss_fn(logits, target), expected, rtol=1e-5, atol=1e-6)


@KERNELS
@pytest.mark.parametrize("kind", KINDS)
def test_the_relaxed_loss(use, compiled: bool, kind: str) -> None:
    use(compiled)
    mode = {"epsilon": 0.1, "gamma": (0.5, 2.0)}
    h = 1.7 * random_masses(BATCH, K, seed=2)
    target, y = target_of(kind)
    expected = answers(h, y, mode)
    keywords = {**mode, "kl_weight": 0, "reduction": "none", "normalize_cost": False}
    loss_fn = wl.RelaxedWassersteinLoss(ground(), **keywords)
    torch.testing.assert_close(loss_fn(h.log(), target), expected, rtol=1e-5, atol=1e-6)
    untabulated = relaxed_wasserstein_loss(h.log(), target, ground(), **mode)
    torch.testing.assert_close(untabulated, expected, rtol=1e-5, atol=1e-6)


@KERNELS
@pytest.mark.parametrize("kind", ["few", "dense"])
@pytest.mark.parametrize("iterations", [1, 10])
def test_algorithm_one(use, compiled: bool, kind: str, iterations: int) -> None:
    use(compiled)
    h = random_masses(BATCH, K, seed=2)
    target, y = target_of(kind)
    gradients, plans = [], []
    for own, to in zip(h.numpy(), y, strict=True):
        used = to > 0
        u, v, gradient = algorithm_one(own, to[used], costs()[:, used], 10.0, iterations)
        plan = np.zeros((K, K))
        plan[:, used] = u[:, None] * np.exp(-10.0 * costs()[:, used] - 1) * v
        gradients.append(gradient)
        plans.append(plan)
    solution = wl.solve(h, target, ground(), epsilon=0.1, scaling_iterations=iterations)
    torch.testing.assert_close(solution.plan(), torch.tensor(np.array(plans)))
    centred = solution.f - solution.f.mean(1, keepdim=True)
    torch.testing.assert_close(centred, torch.tensor(np.array(gradients)))

    logits = h.log().requires_grad_()
    loss_fn = wl.WassersteinLoss(
        ground(),
        epsilon=0.1,
        scaling_iterations=iterations,
        reduction="sum",
        normalize_target=True,
        kl_weight=0.0,
        normalize_cost=False,
    )
    loss_fn(logits, target).backward()
    slope = torch.tensor(np.array(gradients))
    expected = h * (slope - (h * slope).sum(1, keepdim=True))
    torch.testing.assert_close(logits.grad, expected, rtol=1e-6, atol=1e-9)


PLAIN = {name: mode for name, mode in ANY.items() if not mode.get("debiased")}
plain = pytest.mark.parametrize("mode", [pytest.param(v, id=k) for k, v in PLAIN.items()])
SIZE = 5  # of the measures of test_gradients


@plain
@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
def test_gradient_in_the_cost(mode: dict[str, Any], sparse: bool) -> None:
    h, y = measures(mode, 2, SIZE)
    target = y
    if sparse:
        target = wl.SparseTarget(torch.tensor([[3, 0], [2, 4]]), measures(mode, 2, 2)[1])
    C = torch.from_numpy(costs()[:SIZE, :SIZE])
    check_gradient(lambda C: wl.wasserstein(h, target, Cost(C), **mode), C)


@plain
def test_gradient_in_prediction_and_target(mode: dict[str, Any]) -> None:
    h, y = measures(mode, 3, SIZE)
    metric = ground(labels=SIZE)
    check_gradient(lambda h: wl.wasserstein(h, y, metric, **mode), h, within_mass(mode))
    check_gradient(lambda y: wl.wasserstein(h, y, metric, **mode), y, within_mass(mode))


def test_gradient_in_the_cost_is_the_plan() -> None:
    h, y = random_masses(1, K, seed=2), random_masses(1, K, seed=1)
    C = torch.from_numpy(costs()).requires_grad_()
    wl.wasserstein(h, y, Cost(C), epsilon=0.1).sum().backward()
    plan = wl.solve(h, y, ground(), epsilon=0.1).plan()[0]
    torch.testing.assert_close(C.grad, plan, rtol=1e-6, atol=1e-8)


@KERNELS
@pytest.mark.parametrize("kind", KINDS)
def test_gradient_in_the_logits(use, compiled: bool, kind: str) -> None:
    use(compiled)
    target, _ = target_of(kind)
    for loss_fn in (
        wl.WassersteinLoss(
            ground(), epsilon=0.1, kl_weight=0.2, reduction="none", tol=1e-12, normalize_cost=False
        ),
        wl.NearestWassersteinLoss(
            ground(), epsilon=0.1, reduction="none", kl_weight=0.0, normalize_cost=False
        ),
        wl.RelaxedWassersteinLoss(
            ground(), epsilon=0.1, gamma=0.7, reduction="none", tol=1e-12, normalize_cost=False
        ),
    ):
        check_gradient(lambda x, f=loss_fn: f(x, target), torch.randn(BATCH, K, dtype=F64))


def test_a_debiased_loss_is_refused() -> None:
    h, y = random_masses(1, K, seed=2), random_masses(1, K, seed=1)
    message = r"debiased must be False for Cost\(6\): .* use Matrix"
    for metric in (ground(), Cost(1 - torch.eye(K, dtype=F64))):
        for epsilon in (0.0, 0.1):
            with pytest.raises(ValueError, match=message):
                wl.wasserstein(h, y, metric, epsilon=epsilon, debiased=True)
            with pytest.raises(ValueError, match=message):
                wasserstein_loss(h.log(), y, metric, epsilon=epsilon, debiased=True)
            with pytest.raises(ValueError, match=message):
                wl.WassersteinLoss(
                    metric, epsilon=epsilon, debiased=True, kl_weight=0.0, normalize_cost=False
                )


# Scores and decisions


def brute_force_decision(p: np.ndarray) -> np.ndarray:
    expected = [[sum(row[j] * costs()[i, j] for j in range(K)) for i in range(K)] for row in p]
    return np.argmin(expected, axis=1)


@pytest.mark.parametrize("tabulated", [False, True], ids=["columns", "table"])
def test_decisions_minimise_the_expected_cost_over_true_labels(tabulated: bool) -> None:
    p = np.random.default_rng(0).dirichlet(np.ones(K) / 2, 200)
    metric = ground(tabulated)
    found = wl.decisions.least_cost_label(p, metric)
    np.testing.assert_array_equal(found, brute_force_decision(p))
    wrong_way = np.argmin(p @ costs(), axis=1)
    assert (found != wrong_way).any()

    chosen = wl.decisions.least_cost_labels(p, metric, k=3)
    np.testing.assert_array_equal(chosen[:, 0], found)
    for row, labels in zip(p[:20], chosen[:20], strict=True):
        held: list[int] = []
        for label in labels:
            value = {i: row @ costs()[[*held, i]].min(0) for i in range(K) if i not in held}
            assert value[label] == pytest.approx(min(value.values()))
            held.append(int(label))


def test_scores_charge_the_guess_for_the_truth() -> None:
    scores = np.random.default_rng(1).normal(size=(BATCH, K))
    order = np.argsort(-scores, axis=1)
    ids = np.array([0, 2, 5, 3])
    metric, C = Cost(torch.from_numpy(costs()), power=2.0), costs()
    first = C[order[:, 0], ids]
    assert wl.scores.top_k_cost(scores, ids, metric) == pytest.approx(first.mean())
    assert wl.scores.distance_at_k(scores, ids, metric) == pytest.approx(first.mean())
    _, y = target_of("few")
    nearest = [
        min(C[i, j] for j in np.flatnonzero(row))
        for guesses, row in zip(order, y, strict=True)
        for i in guesses[:2]
    ]
    assert wl.scores.top_k_cost(scores, y, metric, k=2) == pytest.approx(np.mean(nearest))
    expected = [row @ C[guesses[0]] for guesses, row in zip(order, y, strict=True)]
    found = wl.scores.distance_at_k(scores, y, metric, reduction="none")
    np.testing.assert_allclose(found, expected)
    h = random_masses(BATCH, K, seed=2)
    transport = wl.scores.mean_wasserstein(h.numpy(), y, metric, reduction="none")
    np.testing.assert_allclose(transport, answers(h, y, MODES["exact"]), rtol=1e-6)


def test_many_examples_are_scored_by_a_table() -> None:
    rng = np.random.default_rng(2)
    scores, ids = rng.normal(size=(100, K)), rng.integers(0, K, 100)
    found = wl.scores.top_k_cost(scores, ids, ground(), k=K, reduction="none")
    np.testing.assert_allclose(found, costs()[:, ids].mean(0))


# Baselines


@pytest.mark.parametrize("kind", KINDS)
def test_baselines(kind: str) -> None:
    logits = torch.randn(BATCH, K, dtype=F64)
    target, y = target_of(kind)
    h, C = logits.softmax(1).numpy(), costs()
    y = y / y.sum(1, keepdims=True)
    expected = np.einsum("bi,ij,bj->b", h, C, y)
    found = ExpectedCostLoss(ground(), reduction="none")(logits, target)
    np.testing.assert_allclose(found, expected, rtol=1e-6)

    soft = np.exp(-((C / 0.7) ** 2))
    soft = y @ (soft / soft.sum(0)).T
    expected = (soft * (np.log(soft) - np.log(h))).sum(1)
    alone: dict[str, Any] = {
        "kl_weight": 1.0,
        "softening": 1.0,
        "transport_weight": 0.0,
        "normalize_cost": False,
        "reduction": "none",
    }
    squares = ground().with_cost(power=2, scale=0.7)
    found = wl.WassersteinLoss(squares, normalize_target=True, **alone)(logits, target)
    np.testing.assert_allclose(found, expected, rtol=1e-4)

    nearest = np.array([C[:, row > 0].min(1) for row in y])
    soft = np.exp(-((nearest / 0.7) ** 2))
    soft /= soft.sum(1, keepdims=True)
    expected = (soft * (np.log(soft) - np.log(h))).sum(1)
    found = wl.NearestWassersteinLoss(squares, **alone)(logits, target)
    np.testing.assert_allclose(found, expected, rtol=1e-4)


# Training and estimators


def blobs() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    y = rng.integers(0, K, 300)
    return rng.normal(size=(K, 3))[y] + rng.normal(size=(300, 3)), y


def test_an_estimator_decides_by_the_expected_cost(tmp_path) -> None:
    pytest.importorskip("safetensors")
    X, y = blobs()
    model = wl.WassersteinClassifier(ground(), decision="least_cost", max_iter=50, tol=1e-2)
    model.fit(X, y)
    p = model.predict_proba(X)
    np.testing.assert_array_equal(model.predict(X), brute_force_decision(p))
    model.save(tmp_path / "model.safetensors")
    loaded = wl.WassersteinClassifier.load(tmp_path / "model.safetensors")
    assert isinstance(loaded.metric_, Cost)
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))


def test_an_asymmetric_cost_shifts_predictions() -> None:
    X = np.random.default_rng(0).normal(size=(400, 1))
    y = (X[:, 0] + np.random.default_rng(1).normal(size=400) > 0).astype(int)
    shares = []
    for matrix in ([[0.0, 9.0], [1.0, 0.0]], [[0.0, 1.0], [9.0, 0.0]]):
        model = wl.WassersteinClassifier(Cost(matrix), decision="least_cost").fit(X, y)
        shares.append(float((model.predict(X) == 1).mean()))
    assert shares[0] > 0.6  # missing class 1 is nine times as bad
    assert shares[1] < 0.4


def test_typical_cost_is_between_different_labels() -> None:
    metric = Cost(torch.from_numpy(costs()) + 50 * torch.eye(K, dtype=F64))
    off = costs()[~np.eye(K, dtype=bool)]
    loss_fn = wl.WassersteinLoss(metric)
    assert loss_fn.metric.scale == pytest.approx(np.quantile(off, 0.5, method="lower"))
    assert math.isfinite(loss_fn(torch.zeros(1, K, dtype=F64), torch.tensor([0])).item())
