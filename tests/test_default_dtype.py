"""Results do not depend on torch's default dtype.

A default of double may make results double; a narrow one must not round exact inputs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import wassloss as wl
from tests.ground.instances import FACTORIES
from wassloss import ground
from wassloss.losses import baselines

OTHERS = [torch.bfloat16, torch.float16, torch.float64]
each_default = pytest.mark.parametrize("default", OTHERS, ids=str)


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    yield
    torch.set_default_dtype(torch.float32)


def same(make: Callable[[], Any], default: torch.dtype) -> None:
    """Assert that the result equals that in single precision."""
    expected = make()
    torch.set_default_dtype(default)
    found = make()
    assert torch.get_default_dtype() == default
    torch.set_default_dtype(torch.float32)
    for one, other in zip(_numbers(expected), _numbers(found), strict=True):
        np.testing.assert_allclose(other, one, rtol=2e-5, atol=1e-6)


def _numbers(found: Any) -> list[np.ndarray[Any, Any]]:
    parts = found if isinstance(found, tuple) else (found,)
    wide = [part.detach().double() if isinstance(part, Tensor) else part for part in parts]
    return [np.asarray(part, dtype=np.float64) for part in wide]


# --- metrics --------------------------------------------------------------------------------------

WORDS = [("animal", "dog", "husky"), ("animal", "dog", "poodle"), ("animal", "cat"), ("plant", "x")]
CHAIN = [-1, *range(299)]
METRICS: dict[str, Callable[[], ground.GroundMetric]] = {
    **{name: lambda make=make: make() for name, make in FACTORIES.items()},
    "500 grades": lambda: ground.Ordinal(500),
    "years": lambda: ground.Ordinal(list(range(1900, 2020))),
    "prices": lambda: ground.Ordinal([0.99, 1.01, 1.02, 100.03]),
    "integer tensor": lambda: ground.Ordinal(torch.arange(990, 1010)),
    "named": lambda: ground.Ordinal(labels=[str(i) for i in range(300)]),
    "far": lambda: ground.Ordinal([0, 70000, 70001]),
    "table": lambda: ground.Matrix([[0, 1001, 1003], [1001, 0, 2], [1003, 2, 0]]),
    "costs": lambda: ground.Cost([[0, 257.5], [513.25, 0]]),
    "points": lambda: ground.Embedding([[1001, 0], [1002, 0], [1003, 1]], normalize=False),
    "wide grid": lambda: ground.Grid((2, 300), spacing=1.1),
    "chain": lambda: ground.Tree(CHAIN, nodes=range(300)),
    "lengths": lambda: ground.Tree([-1, 0, 0, 1], lengths=[0, 257, 513.5, 1]),
    "paths": lambda: ground.Tree.from_paths(WORDS),
    "ring": lambda: ground.Graph([[0, 257, 1], [257, 0, 600], [1, 600, 0]]),
    "taxonomy": lambda: ground.taxonomy({str(i): [str(i // 3)] for i in range(1, 30)}),
    "subset": lambda: ground.Subset(ground.Ordinal([257, 258, 300]), [5, 0, 2], 7),
}


@each_default
@pytest.mark.parametrize("name", METRICS)
def test_distances(name: str, default: torch.dtype) -> None:
    same(lambda: METRICS[name]().distance(), default)
    same(lambda: METRICS[name]().with_cost(power=1.5, scale="median").cost(), default)
    same(lambda: METRICS[name]().cost_columns([0, 1]), default)
    torch.set_default_dtype(default)
    wide = torch.float64 if default == torch.float64 else torch.float32
    assert METRICS[name]().dtype in (wide, torch.float64)  # some instances have double inputs


def test_a_tensor_keeps_its_dtype() -> None:
    for dtype in (torch.bfloat16, torch.float16, torch.float64):
        assert ground.Ordinal(torch.tensor([0.0, 1.0], dtype=dtype)).dtype == dtype
        torch.set_default_dtype(torch.float16)
        assert ground.Ordinal(torch.tensor([0.0, 1.0], dtype=dtype)).dtype == dtype


# --- losses ---------------------------------------------------------------------------------------

K, B = 6, 5


def logits(*shape: int) -> Tensor:
    generator = torch.Generator().manual_seed(0)
    return torch.randn(shape, generator=generator, dtype=torch.float32).requires_grad_()


def ids(labels: int = K, count: int = B) -> Tensor:
    return torch.arange(count) * 7 % labels


def dense() -> Tensor:
    generator = torch.Generator().manual_seed(1)
    return torch.rand(B, K, generator=generator, dtype=torch.float32).softmax(1)


def several() -> wl.SparseTarget:
    indices = torch.tensor([[0, 5], [1, 2], [3, 0], [5, 4], [2, 2]])
    weights = torch.tensor(
        [[0.3, 0.7], [0.6, 0.4], [1, 0], [0.45, 0.55], [1, 0]], dtype=torch.float32
    )
    return wl.SparseTarget(indices, weights)


def with_gradient(loss_fn: Any, x: Tensor, *target: Any) -> tuple[Tensor, Tensor]:
    value = loss_fn(x, *target)
    (slope,) = torch.autograd.grad(value.sum(), x)
    return value, slope


TARGETS = {"ids": ids, "dense": dense, "sparse": several}
SETTINGS: dict[str, dict[str, Any]] = {
    "as it comes": {},
    "exact": {"epsilon": 0.0},
    "softened": {"softening": 0.3},
    "debiased": {"debiased": True},
    "product": {"regularizer": "product"},
}


@each_default
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("settings", SETTINGS)
def test_wasserstein_loss(settings: str, target: str, default: torch.dtype) -> None:
    def found() -> Any:
        loss_fn = wl.WassersteinLoss(ground.Ordinal(K), **SETTINGS[settings])
        return with_gradient(loss_fn, logits(B, K), TARGETS[target]())

    same(found, default)


@each_default
def test_other_losses_of_transport(default: torch.dtype) -> None:
    def relaxed() -> Any:
        return with_gradient(wl.RelaxedWassersteinLoss(ground.Ordinal(K)), logits(B, K), dense())

    def nearest() -> Any:
        return with_gradient(wl.NearestWassersteinLoss(ground.Ordinal(K)), logits(B, K), several())

    def head() -> Any:
        x = logits(B, 8)
        weight, bias = logits(300, 8), logits(300)
        loss_fn = wl.LinearWassersteinLoss(ground.Ordinal(300))
        value = loss_fn(x, weight, ids(300), bias)
        return value, *torch.autograd.grad(value.sum(), (x, weight, bias))

    def distances() -> Any:
        return wl.wasserstein(dense().detach(), ids(), ground.Ordinal(K), epsilon=0.1)

    def plan() -> Any:
        return wl.solve(dense(), several(), ground.Grid((2, 3)), epsilon=0.1).plan()

    for make in (relaxed, nearest, head, distances, plan):
        same(make, default)


@each_default
@pytest.mark.parametrize("places", [None, "absolute", "relative"])
def test_number_tokens(places: str | None, default: torch.dtype) -> None:
    words = {"banana": 0, ".": 1, **{str(n): 2 + n for n in range(1010)}}
    target = torch.tensor([[2 + 9, 2 + 9, 1, 2 + 8, 0, 2 + 1003]])

    def loss_of(tokenizer: Any) -> Any:
        loss_fn = wl.NumberTokenLoss(tokenizer, places=places, reduction="none")
        return *with_gradient(loss_fn, logits(1, 6, 1012), target), loss_fn.values

    same(lambda: loss_of(words), default)
    if places is None:
        values = torch.arange(-2, 1010, dtype=torch.float64) / 3
        same(lambda: loss_of(values), default)


BASELINES: dict[str, Callable[[], Any]] = {
    "ExpectedCostLoss": lambda: baselines.ExpectedCostLoss(ground.Ordinal(K)),
    "HierarchicalCrossEntropyLoss": lambda: baselines.HierarchicalCrossEntropyLoss(
        ground.Tree([-1, 0, 0, 1, 1, 1, 2, 2, 2]), alpha=0.37
    ),
    "KLLoss": lambda: baselines.KLLoss(K),
    "PoissonLoss": lambda: baselines.PoissonLoss(K),
    "QuadraticFormLoss": lambda: baselines.QuadraticFormLoss(ground.Ordinal(K)),
    "SoftLabelLoss": lambda: baselines.SoftLabelLoss(ground.Ordinal(K)),
    "WassersteinDiceLoss": lambda: baselines.WassersteinDiceLoss(ground.Ordinal(K)),
    "WeightedKappaLoss": lambda: baselines.WeightedKappaLoss(ground.Ordinal(K)),
    "CORALLoss": lambda: baselines.CORALLoss(K),
    "CORNLoss": lambda: baselines.CORNLoss(K),
    "CumulativeJensenShannonLoss": lambda: baselines.CumulativeJensenShannonLoss(K),
    "SquaredEMDLoss": lambda: baselines.SquaredEMDLoss(K),
}


def test_every_baseline_is_here() -> None:
    assert {*BASELINES, "PerExampleLoss"} == set(baselines.__all__)


@each_default
@pytest.mark.parametrize("name", BASELINES)
def test_baselines(name: str, default: torch.dtype) -> None:
    def found() -> Any:
        loss_fn = BASELINES[name]()
        if name == "WassersteinDiceLoss":
            return with_gradient(loss_fn, logits(2, K, 3, 4), ids(K, 24).reshape(2, 3, 4))
        return with_gradient(loss_fn, logits(B, K - name.startswith("COR")), ids())

    same(found, default)


# --- scores and estimators ------------------------------------------------------------------------

CHANCES = np.random.default_rng(0).dirichlet(np.ones(K), size=40)
TRUTH = [7 * i % K for i in range(40)]


@each_default
@pytest.mark.parametrize("name", sorted({*wl.scores.__all__} - {"paired_difference"}))
@pytest.mark.parametrize("form", ["array", "lists", "single"])
def test_scores(name: str, form: str, default: torch.dtype) -> None:
    function = getattr(wl.scores, name)
    given: Any = {"array": CHANCES, "lists": CHANCES.tolist(), "single": CHANCES.astype("f4")}[form]

    def found() -> Any:
        metric: ground.GroundMetric = ground.Ordinal([0, 257, 258, 300, 600, 601])
        if name.startswith("hierarchical"):
            metric = ground.Tree([-1, 0, 0, 1, 1, 1, 2, 2, 2])
        words = (
            {"k": 2}
            if name in ("precision_at_k", "recall_at_k", "top_k_cost", "distance_at_k")
            else {}
        )
        with_metric = (metric,) if "metric" in _parameters(function) else ()
        return function(given, TRUTH, *with_metric, **words)

    same(found, default)


def _parameters(function: Any) -> list[str]:
    import inspect

    return list(inspect.signature(function).parameters)


@each_default
@pytest.mark.parametrize("form", ["array", "lists", "single"])
def test_decisions(form: str, default: torch.dtype) -> None:
    given: Any = {"array": CHANCES, "lists": CHANCES.tolist(), "single": CHANCES.astype("f4")}[form]

    def found() -> Any:
        metric = ground.Ordinal([0, 257, 258, 300, 600, 601])
        return (
            wl.decisions.top_labels(given, 3),
            wl.decisions.least_cost_label(given, metric),
            wl.decisions.least_cost_labels(given, metric, 2),
        )

    same(found, default)


@each_default
def test_scores_of_batches(default: torch.dtype) -> None:
    pytest.importorskip("torchmetrics")
    from wassloss.scores.accumulators import Accumulator

    def found() -> Any:
        score = Accumulator(wl.scores.accuracy)
        for _ in range(300):
            score.update(
                torch.tensor([[0.9, 0.1], [0.4, 0.6]], dtype=torch.float32), torch.tensor([0, 0])
            )
        return score.compute()

    same(found, default)


@each_default
def test_estimators(default: torch.dtype) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3)) + 300
    y = np.digitize(X[:, 0], [299.5, 300.5])
    masses = rng.random((60, 3)) * 300

    def classified() -> Any:
        model = wl.WassersteinClassifier("ordinal").fit(X, y)
        return model.predict_proba(X), model.predict(X)

    def listed() -> Any:
        model = wl.WassersteinClassifier("ordinal").fit(X.tolist(), y.tolist())
        return model.predict_proba(X.tolist())

    def stepped() -> Any:
        model = wl.WassersteinClassifier("ordinal", solver="adam", max_iter=3, random_state=0)
        return model.fit(X, y).predict_proba(X)

    def measured() -> Any:
        model = wl.WassersteinMeasureRegressor(ground.Ordinal(3), max_iter=50, tol=0.1)
        return model.fit(X, masses).predict(X)

    def boosted() -> Any:
        objective = wl.boosting.objective(ground.Ordinal([0, 257, 258]))
        return objective(np.array([0, 1, 2]), rng_scores)

    rng_scores = rng.normal(size=(3, 3))
    for make in (classified, listed, stepped, measured, boosted):
        same(make, default)
