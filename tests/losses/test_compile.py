"""Losses inside a compiled training step: one graph, unless a solve depends on data."""

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

import wassloss as wl
from tests.evaluators import evaluate_with
from tests.losses.per_example import wasserstein_loss
from tests.sampling import one_in
from wassloss import _checks
from wassloss.ground import Discrete, Embedding, Ordinal, Tree

# Warnings of the compiler itself, which it hides unless they are errors.
pytestmark = [
    pytest.mark.filterwarnings("ignore:The .grad attribute:UserWarning"),
    pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning"),
]

K = 6
LINE = Ordinal(K, scale="median")

Case = tuple[Callable[[], torch.nn.Module], str]

# Closed forms and fixed iterations: no loop depends on data.
WHOLE: dict[str, Case] = {
    "class ids": (
        lambda: wl.WassersteinLoss(LINE, epsilon=0.1, kl_weight=0.0, normalize_cost=False),
        "ids",
    ),
    "class ids, product": (
        lambda: wl.WassersteinLoss(
            LINE, epsilon=0.1, regularizer="product", kl_weight=0.0, normalize_cost=False
        ),
        "ids",
    ),
    "class ids, weights and KL": (
        lambda: wl.WassersteinLoss(LINE, kl_weight=0.3, weight=torch.rand(K), normalize_cost=False),
        "ignored",
    ),
    "class ids, embedding": (
        lambda: wl.WassersteinLoss(
            Embedding(torch.randn(K, 3)), kl_weight=0.0, normalize_cost=False
        ),
        "ids",
    ),
    "pixels": (lambda: wl.WassersteinLoss(LINE, kl_weight=0.3, normalize_cost=False), "pixels"),
    "iterations, class ids": (
        lambda: wl.WassersteinLoss(LINE, scaling_iterations=2, kl_weight=0.0, normalize_cost=False),
        "ids",
    ),
    "iterations, dense": (
        lambda: wl.WassersteinLoss(
            LINE, scaling_iterations=10, kl_weight=0.0, normalize_cost=False
        ),
        "dense",
    ),
    "iterations, SparseTarget": (
        lambda: wl.WassersteinLoss(LINE, scaling_iterations=2, kl_weight=0.3, normalize_cost=False),
        "SparseTarget",
    ),
    "iterations, normalized": (
        lambda: wl.WassersteinLoss(
            LINE, scaling_iterations=2, normalize_target=True, kl_weight=0.0, normalize_cost=False
        ),
        "tags",
    ),
    "iterations, debiased": (
        lambda: wl.WassersteinLoss(
            LINE, scaling_iterations=2, debiased=True, kl_weight=0.0, normalize_cost=False
        ),
        "dense",
    ),
    "exact line": (
        lambda: wl.WassersteinLoss(LINE, epsilon=0, kl_weight=0.0, normalize_cost=False),
        "dense",
    ),
    "exact line, SparseTarget": (
        lambda: wl.WassersteinLoss(LINE, epsilon=0, kl_weight=0.0, normalize_cost=False),
        "SparseTarget",
    ),
    "exact line, power 2": (
        lambda: wl.WassersteinLoss(
            LINE.with_cost(power=2), epsilon=0, kl_weight=0.3, normalize_cost=False
        ),
        "dense",
    ),
    "exact tree": (
        lambda: wl.WassersteinLoss(
            Tree([-1, 0, 0, 1, 1, 1, 2, 2, 2]), epsilon=0, kl_weight=0.0, normalize_cost=False
        ),
        "dense",
    ),
    "exact 0-1": (
        lambda: wl.WassersteinLoss(Discrete(K), epsilon=0, kl_weight=0.0, normalize_cost=False),
        "dense",
    ),
    "relaxed iterations": (
        lambda: wl.RelaxedWassersteinLoss(LINE, scaling_iterations=5, normalize_cost=False),
        "dense",
    ),
    "relaxed iterations, KL": (
        lambda: wl.RelaxedWassersteinLoss(
            LINE, scaling_iterations=2, kl_weight=0.3, regularizer="product", normalize_cost=False
        ),
        "SparseTarget",
    ),
}
# Solved to a tolerance, or by separate compiled code: the solver runs outside the graph.
BROKEN: dict[str, Case] = {
    "plan": (lambda: wl.WassersteinLoss(LINE, kl_weight=0.3, normalize_cost=False), "dense"),
    "product, SparseTarget": (
        lambda: wl.WassersteinLoss(
            LINE, regularizer="product", kl_weight=0.0, normalize_cost=False
        ),
        "SparseTarget",
    ),
    "debiased": (
        lambda: wl.WassersteinLoss(LINE, debiased=True, kl_weight=0.0, normalize_cost=False),
        "ids",
    ),
    "exact, any metric": (
        lambda: wl.WassersteinLoss(
            LINE.with_cost(power=0.5), epsilon=0, kl_weight=0.0, normalize_cost=False
        ),
        "dense",
    ),
    "relaxed": (
        lambda: wl.RelaxedWassersteinLoss(LINE, kl_weight=0.3, normalize_cost=False),
        "dense",
    ),
    "nearest": (
        lambda: wl.NearestWassersteinLoss(LINE, kl_weight=0.3, normalize_cost=False),
        "dense",
    ),
    "nearest, SparseTarget": (
        lambda: wl.NearestWassersteinLoss(LINE, kl_weight=0.0, normalize_cost=False),
        "SparseTarget",
    ),
    "nearest, exact": (
        lambda: wl.NearestWassersteinLoss(LINE, epsilon=0, kl_weight=0.0, normalize_cost=False),
        "tags",
    ),
    "nearest, class ids": (
        lambda: wl.NearestWassersteinLoss(LINE, kl_weight=0.3, normalize_cost=False),
        "ids",
    ),
}


def cases(which: dict[str, Case]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize(
        ("make", "kind"),
        [
            pytest.param(*case, id=name, marks=[pytest.mark.slow] if i % 2 else [])
            for i, (name, case) in enumerate(which.items())
        ],
    )


def data(kind: str) -> tuple[Tensor, Any]:
    logits = torch.randn(3, K, 2) if kind == "pixels" else torch.randn(3, K)
    indices = torch.tensor([[0, 2], [5, 0], [3, 1]])
    weights = torch.tensor([[0.5, 0.5], [1.0, 0.0], [0.25, 0.75]])
    dense = torch.zeros(3, K).scatter_add(1, indices, weights)
    return logits, {
        "ids": torch.tensor([0, 5, 2]),
        "ignored": torch.tensor([0, -100, 2]),
        "pixels": torch.tensor([[0, 1], [5, 2], [3, 3]]),
        "dense": dense,
        "tags": (dense > 0).float(),
        "SparseTarget": wl.SparseTarget(indices, weights),
    }[kind]


def step(loss_fn: Any, logits: Tensor, target: Any) -> tuple[Tensor, Tensor]:
    logits = logits.detach().requires_grad_()
    loss = loss_fn(logits, target)
    loss.backward()
    assert logits.grad is not None
    return loss.detach(), logits.grad


@pytest.fixture(autouse=True)
def forget_other_graphs() -> None:
    torch.compiler.reset()


@cases(WHOLE)
def test_one_graph_forward_and_one_backward(make: Callable[[], torch.nn.Module], kind: str) -> None:
    loss_fn, (logits, target) = make(), data(kind)
    compiled = torch.compile(loss_fn, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(step(compiled, logits, target), step(loss_fn, logits, target))


FEW = ("class ids", "iterations, dense", "exact line", "relaxed iterations")


@cases({name: WHOLE[name] for name in FEW})
def test_one_graph_forward_alone(make: Callable[[], torch.nn.Module], kind: str) -> None:
    loss_fn, (logits, target) = make(), data(kind)
    compiled = torch.compile(loss_fn, fullgraph=True, backend="eager")
    torch.testing.assert_close(step(compiled, logits, target), step(loss_fn, logits, target))


@cases(BROKEN)
def test_other_solves_break_the_graph_and_agree(
    make: Callable[[], torch.nn.Module], kind: str
) -> None:
    loss_fn, (logits, target) = make(), data(kind)
    compiled = torch.compile(loss_fn, backend="aot_eager")
    # Compiled, weights that are zero are kept: the same optimum, to the tolerance of the solve.
    torch.testing.assert_close(
        step(compiled, logits, target), step(loss_fn, logits, target), rtol=1e-4, atol=1e-5
    )


@pytest.mark.parametrize("kind", ["ids", "dense"])
def test_batches_of_any_size(kind: str) -> None:
    loss_fn = wl.WassersteinLoss(LINE, scaling_iterations=1, kl_weight=0.3, normalize_cost=False)
    compiled = torch.compile(loss_fn, fullgraph=True, backend="aot_eager")
    logits, target = data(kind)
    for size in (3, 2, 1):
        x, y = logits[:size], target[:size]
        torch.testing.assert_close(step(compiled, x, y), step(loss_fn, x, y))


def test_a_learned_metric() -> None:
    vectors = torch.randn(K, 3)
    logits, ids = data("ids")

    def gradient(compile_it: bool) -> Tensor:
        learned = vectors.clone().requires_grad_()
        loss_fn: Any = wl.WassersteinLoss(
            Embedding(learned, power=2), epsilon=0.1, kl_weight=0.0, normalize_cost=False
        )
        if compile_it:
            loss_fn = torch.compile(loss_fn, fullgraph=True, backend="aot_eager")
        (result,) = torch.autograd.grad(loss_fn(logits, ids), learned)
        return result

    torch.testing.assert_close(gradient(True), gradient(False))


def test_a_whole_training_step() -> None:
    network = torch.nn.Linear(4, K)
    loss_fn = wl.WassersteinLoss(LINE, kl_weight=0.1, normalize_cost=False)
    features, (_, ids) = torch.randn(3, 4), data("ids")

    def run(x: Tensor, y: Tensor) -> Tensor:
        return loss_fn(network(x), y)

    results = []
    for f in (run, torch.compile(run, fullgraph=True, backend="aot_eager")):
        network.zero_grad()
        loss = f(features, ids)
        loss.backward()
        assert network.weight.grad is not None
        results.append((loss.detach(), network.weight.grad.clone()))
    torch.testing.assert_close(results[1], results[0])


# Invalid input is refused when the compiled step runs, with the message of an uncompiled one.

IDS, DENSE, SPARSE = (data(kind)[1] for kind in ("ids", "dense", "SparseTarget"))
BY_IDS = WHOLE["class ids, weights and KL"][0]
BY_WEIGHTS = WHOLE["exact line"][0]
RELAXED = WHOLE["relaxed iterations, KL"][0]


def broken(x: Tensor, value: float, place: tuple[int, ...] = (1, 2)) -> Tensor:
    x = x.clone()
    x[place] = value
    return x


def sparse(indices: Any = SPARSE.indices, weights: Any = SPARSE.weights) -> wl.SparseTarget:
    return wl.SparseTarget(torch.as_tensor(indices), torch.as_tensor(weights))


LOGITS = torch.linspace(-1, 1, 3 * K).reshape(3, K)
SENSELESS: dict[str, tuple[Callable[[], torch.nn.Module], Tensor, Any]] = {
    "id too large": (BY_IDS, LOGITS, broken(IDS, K, (1,))),
    "id negative": (BY_IDS, LOGITS, broken(IDS, -1, (1,))),
    "id of a pixel": (
        WHOLE["pixels"][0],
        torch.zeros(2, K, 2),
        torch.tensor([[0, 1], [2, K]]),
    ),
    "NaN in logits": (BY_IDS, broken(LOGITS, math.nan), IDS),
    "+inf in logits": (BY_WEIGHTS, broken(LOGITS, math.inf), DENSE),
    "no logit possible": (BY_WEIGHTS, broken(LOGITS, -math.inf, (1,)), DENSE),
    "mass 2": (BY_WEIGHTS, LOGITS, 2 * DENSE),
    "mass 2 of one example": (BY_WEIGHTS, LOGITS, broken(DENSE, 1.0)),
    "mass 2 of a few labels": (
        WHOLE["exact line, SparseTarget"][0],
        LOGITS,
        sparse(weights=2 * SPARSE.weights),
    ),
    "negative weight": (BY_WEIGHTS, LOGITS, broken(DENSE, -0.5)),
    "NaN weight": (BY_WEIGHTS, LOGITS, broken(DENSE, math.nan)),
    "no weight": (WHOLE["iterations, normalized"][0], LOGITS, broken(DENSE, 0.0, (1,))),
    "label too large": (
        WHOLE["iterations, SparseTarget"][0],
        LOGITS,
        sparse([[0, 2], [K, 0], [3, 1]]),
    ),
    "label negative": (
        WHOLE["iterations, SparseTarget"][0],
        LOGITS,
        sparse([[0, 2], [5, 0], [-1, 1]]),
    ),
    "label named twice": (
        WHOLE["iterations, SparseTarget"][0],
        LOGITS,
        sparse([[0, 0], [5, 0], [3, 1]]),
    ),
    "negative weight of a label": (
        RELAXED,
        LOGITS,
        sparse(weights=[[-0.5, 0.5], [1.0, 0], [1, 1]]),
    ),
    "NaN in log_h": (RELAXED, broken(LOGITS, math.nan), SPARSE),
    "log_h too large": (RELAXED, broken(LOGITS, 1000.0), SPARSE),
    "mass 2, solved outside of the graph": (BROKEN["plan"][0], LOGITS, 2 * DENSE),
    "id too large, solved outside of the graph": (
        BROKEN["debiased"][0],
        LOGITS,
        broken(IDS, K, (1,)),
    ),
}
senseless = pytest.mark.parametrize("name", one_in(3, SENSELESS))


def refusal(call: Callable[[], object]) -> str:
    with pytest.raises(ValueError, match=r" must .*, got ") as caught:
        call()
    return str(caught.value)


@senseless
def test_what_makes_no_sense_is_refused_as_without_the_compiler(name: str) -> None:
    make, logits, target = SENSELESS[name]
    loss_fn, logits = make(), logits.clone().requires_grad_()
    whole = "outside" not in name
    compiled = torch.compile(loss_fn, fullgraph=whole, backend="aot_eager")
    assert refusal(lambda: compiled(logits, target)) == refusal(lambda: loss_fn(logits, target))
    assert torch.is_grad_enabled()


@pytest.mark.parametrize("wrong", [-1.0, math.nan])
def test_senseless_sample_weights_are_refused(wrong: float) -> None:
    loss_fn = wl.WassersteinLoss(LINE, kl_weight=0.0, normalize_cost=False)
    compiled = torch.compile(loss_fn, fullgraph=True, backend="aot_eager")
    given = LOGITS, IDS, torch.tensor([1.0, wrong, 1.0])
    assert refusal(lambda: compiled(*given)) == refusal(lambda: loss_fn(*given))


@pytest.mark.parametrize(
    ("h", "y"),
    [
        (broken(DENSE, -1.0), DENSE),
        (broken(DENSE, 0.0, (1,)), DENSE),
        (broken(DENSE, math.nan), DENSE),
        (2 * DENSE, DENSE),
        (DENSE, broken(DENSE, -0.5)),
    ],
    ids=["negative", "empty", "NaN", "of another mass", "target"],
)
def test_senseless_measures_are_refused(h: Tensor, y: Tensor) -> None:
    def distances(h: Tensor, y: Tensor) -> Tensor:
        return wl.wasserstein(h, y, LINE)

    compiled = torch.compile(distances, fullgraph=True, backend="aot_eager")
    h = h.clone().requires_grad_()
    assert refusal(lambda: compiled(h, y)) == refusal(lambda: distances(h, y))


def test_a_compiled_loss_goes_on_after_a_refusal() -> None:
    loss_fn = BY_WEIGHTS()
    compiled = torch.compile(loss_fn, fullgraph=True, backend="aot_eager")
    refusal(lambda: compiled(LOGITS.clone().requires_grad_(), 2 * DENSE))
    torch.testing.assert_close(step(compiled, LOGITS, DENSE), step(loss_fn, LOGITS, DENSE))


def test_invalid_examples_are_marked_if_values_cannot_be_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # As during the capture of a CUDA graph: a loss of NaN for exactly those examples.
    for name, (make, logits, target) in SENSELESS.items():
        if "outside" in name:
            continue
        loss_fn = make()
        loss_fn.reduction = "none"
        with monkeypatch.context() as patch:
            patch.setattr(_checks, "can_read_values", lambda: False)
            evaluate_with(patch)
            losses = loss_fn(logits, target).flatten()
        bad = [row for row in range(len(losses)) if not losses[row].isfinite()]
        assert bad, name
        if name not in ("mass 2", "mass 2 of a few labels"):
            assert len(bad) == 1, name


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # torch's code generator raises many
@senseless
def test_generated_code_refuses_what_makes_no_sense(name: str) -> None:
    make, logits, target = SENSELESS[name]
    loss_fn, logits = make(), logits.clone().requires_grad_()
    compiled = torch.compile(loss_fn)
    assert refusal(lambda: compiled(logits, target)) == refusal(lambda: loss_fn(logits, target))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # torch's code generator raises many
@cases(WHOLE)
def test_one_graph_of_generated_code(make: Callable[[], torch.nn.Module], kind: str) -> None:
    loss_fn, (logits, target) = make(), data(kind)
    compiled = torch.compile(loss_fn, fullgraph=True)
    torch.testing.assert_close(step(compiled, logits, target), step(loss_fn, logits, target))


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
@pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning")
@pytest.mark.parametrize("name", ["ids", "dense"])
def test_torch_jit_trace_is_refused(name: str) -> None:
    """A trace would fix one batch's solver and iterations, and be wrong for the next."""
    ids = torch.tensor([0, 2, 5])
    target = ids if name == "ids" else torch.eye(K)[ids]
    logits = torch.randn(3, K)
    losses = [
        wl.WassersteinLoss(LINE, kl_weight=0.0, normalize_cost=False),
        wl.NearestWassersteinLoss(LINE, kl_weight=0.0, normalize_cost=False),
        wl.RelaxedWassersteinLoss(LINE, normalize_cost=False),
        lambda x, y: wasserstein_loss(x, y, LINE, epsilon=0.1),
        lambda x, y: wl.wasserstein(x.softmax(1), y, LINE, epsilon=0.1),
    ]
    for loss in losses:
        with pytest.raises(RuntimeError, match=r"torch.jit.trace .* torch.compile or torch.export"):
            torch.jit.trace(loss, (logits, target))


def test_what_is_advised_instead() -> None:
    logits, target = torch.randn(3, K), torch.tensor([0, 2, 5])
    loss = wl.WassersteinLoss(LINE, kl_weight=0.1, normalize_cost=False)
    exported = torch.export.export(loss, (logits, target)).module()
    assert torch.allclose(exported(logits + 1, target.flip(0)), loss(logits + 1, target.flip(0)))


def test_the_functions() -> None:
    """Their keywords are read while the compiler traces."""
    target = torch.tensor([0, 2, 5])

    def both(logits: Tensor) -> tuple[Tensor, Tensor]:
        loss = wasserstein_loss(logits, target, LINE, epsilon=0.1)
        return loss, wl.wasserstein(logits.softmax(1), target, LINE, epsilon=0.1)

    logits = torch.randn(3, K)
    for compiled, eager in zip(
        torch.compile(both, backend="aot_eager")(logits), both(logits), strict=True
    ):
        assert torch.allclose(compiled, eager, atol=1e-5)


SET_METRICS = {
    "line": LINE,
    "tree": Tree([-1, 0, 0, 1, 1, 1, 2, 2, 2], nodes=[8, 3, 4, 5, 6, 7]),
    "vectors": Embedding(torch.randn(K, 3)),
}
SET_TARGETS = {
    "ranges": lambda metric: wl.SetTarget.from_ranges([0, 2, -100], [1, 2, -100]),
    "of the metric": lambda metric: wl.SetTarget.from_ranges(
        [0, 3, 0], [2, 4, 5], metric.label_order
    ),
    "any": lambda metric: wl.SetTarget([[0, 3], [1], [0, 1, 2, 5]]),
}


@pytest.mark.one_in(2)  # each is compiled anew
@pytest.mark.parametrize("metric", SET_METRICS)
@pytest.mark.parametrize("target", SET_TARGETS)
def test_sets_are_one_graph(metric: str, target: str) -> None:
    given = SET_TARGETS[target](SET_METRICS[metric])
    loss_fn = wl.WassersteinLoss(SET_METRICS[metric], softening=0.3, weight=torch.rand(K))
    compiled = torch.compile(loss_fn, fullgraph=True, backend="aot_eager")
    x = torch.randn(3, K, requires_grad=True)
    expected, found = loss_fn(x, given), compiled(x, given)
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(
        torch.autograd.grad(found, x), torch.autograd.grad(expected, x), atol=1e-6, rtol=1e-5
    )
    with pytest.raises(ValueError, match="sets of labels in"):
        compiled(x, wl.SetTarget.from_ranges([0, 2, 0], [1, 2, 9]))
