"""Fused losses equal the composed ones: value, gradient, and refusals."""

import functools
import math

import numpy as np
import pytest
import torch
from torch import Tensor

import wassloss as wl
from tests.evaluators import TritonAnywhere, evaluate_with, evaluation, needs_native
from tests.generators import random_masses, random_metric
from tests.losses import per_example
from tests.triton_kernels import CUDA, DEVICE, quiet
from wassloss.kernels import launch
from wassloss.kernels.status import FINE, IGNORED, INVALID, UNCONVERGED
from wassloss.losses.evaluators.base import Evaluation
from wassloss.losses.evaluators.native import NativeEvaluator
from wassloss.losses.spec import LossSpec
from wassloss.targets import SparseTarget

pytestmark = quiet
F32, F64 = torch.float32, torch.float64
LABELS, BATCH = 37, 4

each_dtype = pytest.mark.parametrize("dtype", [F32, F64])
each_regularizer = pytest.mark.parametrize("regularizer", ["plan", "product"])
each_kernels = pytest.mark.parametrize(
    "kernels",
    [
        pytest.param(NativeEvaluator, marks=needs_native, id="native"),
        pytest.param(TritonAnywhere, id="triton"),
    ],
)
tables = pytest.mark.parametrize("tabulated", [True, False], ids=["table", "columns"])


@pytest.fixture
def use(monkeypatch: pytest.MonkeyPatch):
    """Return a function that chooses the kernels to use, None for no kernels."""

    def choose(kernels) -> torch.device:
        evaluate_with(monkeypatch, *([kernels] if kernels else []))
        return DEVICE if kernels is TritonAnywhere else torch.device("cpu")

    return choose


def few_labels(dtype: torch.dtype, support: int = 3) -> SparseTarget:
    """Weights that sum to one; the first example has padding with an invalid label."""
    weights, indices = random_masses(BATCH, LABELS, support, seed=5).topk(support)
    weights[0, -1] = 0
    indices[0, -1] = -1
    return SparseTarget(indices, (weights / weights.sum(1, keepdim=True)).to(dtype))


def some_logits(dtype: torch.dtype) -> Tensor:
    return (3 * torch.randn(BATCH, LABELS, dtype=F64)).to(dtype)


def moved(target, device: torch.device):
    if isinstance(target, SparseTarget):
        return SparseTarget(target.indices.to(device), target.weights.to(device))
    return target.to(device)


def loss_and_gradient(loss_fn, logits: Tensor, target, device) -> tuple[Tensor, Tensor]:
    logits = logits.to(device).requires_grad_()
    values = loss_fn.to(device)(logits, moved(target, device))
    weights = torch.linspace(1, 2, values.numel(), dtype=values.dtype, device=device)
    (gradient,) = torch.autograd.grad((values.flatten() * weights).sum(), logits)
    return values.detach().cpu(), gradient.cpu()


def of_kernels(fused: Evaluation) -> list[tuple[Tensor, Tensor]]:
    """The loss and gradient of the kernels, which must not be marked as doubtful."""
    weights = torch.linspace(1, 2, len(fused.value), dtype=fused.value.dtype)
    return [] if fused.worst() > IGNORED else [(fused.value, weights[:, None] * fused.gradient)]


# Interpreted kernels take seconds per call, so the module does not repeat them.
TAKES_SECONDS = set() if CUDA else {TritonAnywhere}


def compare(use, kernels, metric, logits, target, **keywords) -> Evaluation:
    """Compare the loss of the kernels with the composed functions in double precision."""
    asked = {name: x for name, x in keywords.items() if name != "weight"}
    fused = run(kernels, metric, logits, target, **asked)
    assert fused is not None
    results = [] if "weight" in keywords else of_kernels(fused)
    if not results or kernels not in TAKES_SECONDS:
        loss_fn = wl.WassersteinLoss(
            metric, reduction="none", **{"kl_weight": 0.0, **keywords}, normalize_cost=False
        )
        results.append(loss_and_gradient(loss_fn, logits, target, use(kernels)))
    use(None)
    loss_fn = wl.WassersteinLoss(
        metric.to(dtype=F64),
        reduction="none",
        **{"kl_weight": 0.0, **keywords},
        tol=1e-9,
        normalize_cost=False,
    )
    if isinstance(target, SparseTarget):
        target = SparseTarget(target.indices, target.weights.double())
    expected = loss_and_gradient(loss_fn, logits.double(), target, torch.device("cpu"))
    tolerance = 1e-4 if logits.dtype == F32 else 1e-7
    for values, gradient in results:
        torch.testing.assert_close(values.double(), expected[0], rtol=tolerance, atol=tolerance)
        torch.testing.assert_close(gradient.double(), expected[1], rtol=tolerance, atol=tolerance)
    return fused


def run(
    kernels, metric, logits, target, *, normalize_target=False, **keywords
) -> Evaluation | None:
    """The result of the kernels, with their status."""
    device = DEVICE if kernels is TritonAnywhere else torch.device("cpu")
    logits, target = logits.to(device), moved(target, device)
    spec = LossSpec.checked(metric.to(device), normalize_target=normalize_target, **keywords)
    fused = evaluation(kernels, logits, target, spec)
    if fused is None:
        return None
    assert fused.worst() == int(fused.status.max())
    return Evaluation(*(part.cpu() for part in fused[:3]))


def table_of(metric, tabulated: bool):
    return metric.tabulated() if tabulated else metric


@pytest.mark.one_in(3)
@each_kernels
@each_dtype
@each_regularizer
@pytest.mark.parametrize("kl_weight", [0.0, 0.3])
def test_class_ids(use, kernels, dtype, regularizer, kl_weight):
    metric, ids = random_metric(LABELS).to(dtype=dtype), torch.randint(LABELS, (BATCH,))
    for epsilon in (0.0, 0.2):
        compare(
            use, kernels, metric, some_logits(dtype), ids,
            epsilon=epsilon, regularizer=regularizer, kl_weight=kl_weight,
        )  # fmt: skip


@pytest.mark.one_in(3)
@each_kernels
@each_dtype
@each_regularizer
@pytest.mark.parametrize("kl_weight", [0.0, 0.3])
def test_few_labels(use, kernels, dtype, regularizer, kl_weight):
    metric = random_metric(LABELS).to(dtype=dtype)
    compare(
        use, kernels, metric, some_logits(dtype), few_labels(dtype),
        epsilon=0.1, regularizer=regularizer, kl_weight=kl_weight,
    )  # fmt: skip


def compare_iterations(use, kernels, metric, logits, target, tolerance, **keywords) -> None:
    """Compare Algorithm 1 of the kernels with the composed functions in double precision."""
    fused = run(kernels, metric, logits, target, **keywords)
    assert fused.worst() == FINE
    found = of_kernels(fused) if kernels in TAKES_SECONDS else []
    for own, dtype in ((kernels, logits.dtype), (None, F64))[len(found) :]:
        device = use(own)
        loss_fn = wl.WassersteinLoss(
            metric.to(dtype=dtype),
            reduction="none",
            **{"kl_weight": 0.0, **keywords},
            normalize_cost=False,
        )
        given = SparseTarget(target.indices, target.weights.to(dtype))
        found.append(loss_and_gradient(loss_fn, logits.to(dtype), given, device))
    for ours, theirs in zip(*found, strict=True):
        torch.testing.assert_close(ours.double(), theirs, rtol=tolerance, atol=tolerance)


@pytest.mark.one_in(3)
@each_kernels
@each_dtype
@each_regularizer
@tables
@pytest.mark.parametrize("iterations", [1, 10])
def test_iterations_of_algorithm_one(use, kernels, dtype, regularizer, tabulated, iterations):
    metric = table_of(random_metric(LABELS).to(dtype=dtype), tabulated)
    for epsilon, kl_weight in ((0.5, 0.0), (0.02, 0.3)):
        compare_iterations(
            use, kernels, metric, some_logits(dtype), few_labels(dtype, 5),
            1e-4 if dtype == F32 else 1e-9,
            epsilon=epsilon, kl_weight=kl_weight, regularizer=regularizer,
            scaling_iterations=iterations,
        )  # fmt: skip


@each_kernels
@each_dtype
def test_algorithm_one_in_the_papers_setting(use, kernels, dtype):
    # Costs from 1e-13 to 8000, over an epsilon of 1/50: most entries of the kernel are zero.
    vectors = torch.randn(LABELS, 5, dtype=F64)
    metric = wl.ground.Embedding(vectors, power=13).to(dtype=dtype)
    compare_iterations(
        use, kernels, metric, some_logits(dtype), few_labels(dtype, 6),
        2e-4 if dtype == F32 else 1e-9, epsilon=1 / 50, kl_weight=0.1, scaling_iterations=10,
    )  # fmt: skip


@each_kernels
@each_dtype
def test_algorithm_one_with_columns_too_light_for_anything_but_logarithms(use, kernels, dtype):
    # Label 0 has hardly any mass, and is at first too far from the mass of others.
    metric = wl.ground.Ordinal([0.0, *range(10, LABELS + 9)]).to(dtype=dtype)
    target = SparseTarget(torch.tensor([[0, 1]]), torch.tensor([[0.5, 0.5]], dtype=dtype))
    logits = torch.zeros(1, LABELS, dtype=dtype)
    logits[0, 0] = -60
    compare_iterations(
        use, kernels, metric, logits, target, 1e-5, epsilon=0.01, scaling_iterations=10
    )


@each_kernels
@tables
def test_costs_from_a_table_or_on_demand(use, kernels, tabulated):
    metric = table_of(random_metric(LABELS), tabulated)
    logits = some_logits(F64)
    for target in (torch.randint(LABELS, (BATCH,)), few_labels(F64)):
        values = run(kernels, metric, logits, target, epsilon=0.1).value
        use(None)
        expected = per_example.wasserstein_loss(logits, target, metric, epsilon=0.1)
        torch.testing.assert_close(values, expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("support", [1, 2, 13, 20])
@each_kernels
def test_any_number_of_labels(use, kernels, support):
    compare(
        use, kernels, random_metric(LABELS), some_logits(F64), few_labels(F64, support + 1),
        epsilon=0.1, kl_weight=0.1,
    )  # fmt: skip


@each_kernels
def test_targets_are_normalized_when_asked(use, kernels):
    target = few_labels(F64)
    target = SparseTarget(target.indices, target.weights * torch.arange(1, BATCH + 1)[:, None])
    metric = random_metric(LABELS)
    compare(
        use, kernels, metric, some_logits(F64), target,
        epsilon=0.1, kl_weight=0.4, normalize_target=True,
    )  # fmt: skip
    status = run(kernels, metric, some_logits(F64), target, epsilon=0.1).status
    assert status.tolist() == [FINE] + [INVALID] * (BATCH - 1)


@each_kernels
@each_dtype
def test_impossible_labels_and_extreme_logits(use, kernels, dtype):
    logits = some_logits(dtype)
    logits[0, :5] = -math.inf
    logits[1, 3] = 1e4
    logits[2] *= 100
    metric = random_metric(LABELS).to(dtype=dtype)
    for target in (torch.tensor([2, 4, 0, 1]), few_labels(dtype)):
        compare(use, kernels, metric, logits, target, epsilon=0.1)


@each_kernels
@each_dtype
def test_divergence_from_an_all_but_impossible_label(use, kernels, dtype):
    """Its log is below the log of the least mass that transport uses."""
    logits = some_logits(dtype)
    for i, label in enumerate((7, 8, 9)):
        logits[:, label] = (-200.0, -1e3, -5e3)[i]
    weights = torch.tensor([[0.5, 0.25, 0.25]] * BATCH, dtype=dtype)
    few = SparseTarget(torch.tensor([[7, 8, 20]] * BATCH), weights)
    for target in (torch.tensor([7, 8, 9, 9]), few):
        compare(
            use, kernels, random_metric(LABELS).to(dtype=dtype), logits, target,
            epsilon=0.1, kl_weight=0.5,
        )  # fmt: skip


@each_kernels
def test_divergence_from_an_impossible_label_is_infinite(use, kernels):
    device = use(kernels)
    logits = some_logits(F64)
    logits[:, 7] = -math.inf
    weights = torch.full((BATCH, 2), 0.5, dtype=F64)
    loss_fn = wl.WassersteinLoss(
        random_metric(LABELS), epsilon=0.1, kl_weight=0.5, reduction="none", normalize_cost=False
    )
    for target in (
        torch.tensor([7, 8, 9, 9]),
        SparseTarget(torch.tensor([[7, 8], [1, 2], [1, 2], [1, 2]]), weights),
    ):
        values, gradient = loss_and_gradient(loss_fn, logits, target, device)
        assert values[0] == math.inf
        assert values[1:].isfinite().all()
        assert gradient.isfinite().all()


@each_kernels
def test_ignored_examples(use, kernels):
    ids = torch.tensor([2, -100, 5, -100])
    fused = run(kernels, random_metric(LABELS), some_logits(F64), ids, epsilon=0.1)
    assert fused.status.tolist() == [FINE, IGNORED, FINE, IGNORED]
    assert fused.value[1] == 0
    assert (fused.gradient[1] == 0).all()
    compare(use, kernels, random_metric(LABELS), some_logits(F64), ids, epsilon=0.1, kl_weight=0.1)


@each_kernels
@pytest.mark.parametrize("bad", [math.nan, math.inf, "all -inf"])
def test_senseless_logits_are_marked(kernels, bad):
    logits = some_logits(F64)
    if bad == "all -inf":
        logits[2] = -math.inf
    else:
        logits[2, 30] = bad
    for target in (torch.tensor([2, 4, 0, 1]), few_labels(F64)):
        fused = run(kernels, random_metric(LABELS), logits, target, epsilon=0.1, kl_weight=0.1)
        assert fused.status.tolist() == [FINE, FINE, INVALID, FINE]
        assert fused.value[2].isnan()
        assert fused.gradient[2].isnan().all()
        assert fused.gradient[[0, 1, 3]].isfinite().all()


@each_kernels
@pytest.mark.parametrize(
    ("place", "weight", "label"),
    [
        ((1, 0), math.nan, 3),
        ((1, 0), math.inf, 3),
        ((1, 0), -0.2, 3),
        ((1, 0), 0.3, LABELS),
        ((1, 0), 0.3, -1),
        ((1, 0), 0.9, 3),
    ],
)
def test_senseless_targets_are_marked(kernels, place, weight, label):
    target = few_labels(F64)
    target.weights[place], target.indices[place] = weight, label
    fused = run(kernels, random_metric(LABELS), some_logits(F64), target, epsilon=0.1)
    assert fused.status.tolist() == [FINE, INVALID, FINE, FINE]
    assert fused.value[1].isnan()


@each_kernels
def test_labels_named_twice_and_empty_targets_are_marked(kernels):
    target = few_labels(F64)
    target.indices[1, 1] = target.indices[1, 0]
    target.weights[3] = 0
    fused = run(
        kernels, random_metric(LABELS), some_logits(F64), target, epsilon=0.1, normalize_target=True
    )
    assert fused.status.tolist() == [FINE, INVALID, FINE, INVALID]


@each_kernels
def test_class_ids_out_of_range_are_marked(kernels):
    ids = torch.tensor([0, LABELS, -1, LABELS - 1])
    fused = run(kernels, random_metric(LABELS), some_logits(F64), ids, epsilon=0.1)
    assert fused.status.tolist() == [FINE, INVALID, INVALID, FINE]


@each_kernels
def test_an_unfinished_solve_is_marked_and_warned_of(use, kernels):
    metric, logits, target = random_metric(LABELS), some_logits(F64), few_labels(F64)
    fused = run(kernels, metric, logits, target, epsilon=0.01, max_iterations=1)
    assert UNCONVERGED in fused.status.tolist()
    assert INVALID not in fused.status.tolist()
    device = use(kernels)
    with pytest.warns(wl.ConvergenceWarning, match="max_iterations"):
        per_example.wasserstein_loss(
            logits.to(device), moved(target, device), metric.to(device), epsilon=0.01,
            max_iterations=1,
        )  # fmt: skip


@each_kernels
def test_a_loose_tolerance_is_not_met_on_the_way(kernels):
    # In an early stage with a larger epsilon, a small error does not mean a good answer.
    metric, logits, target = random_metric(LABELS), some_logits(F64), few_labels(F64)
    exact = run(kernels, metric, logits, target, epsilon=1e-3, tol=1e-8, max_iterations=200)
    for iterations in (1, 2, 3, 4):
        fused = run(
            kernels, metric, logits, target, epsilon=1e-3, tol=0.05, max_iterations=iterations
        )
        fine = fused.status == FINE
        torch.testing.assert_close(fused.value[fine], exact.value[fine], rtol=0.05, atol=0.05)


@each_kernels
@tables
def test_digits_that_single_precision_lacks(use, kernels, tabulated):
    metric = table_of(random_metric(LABELS).to(dtype=F32), tabulated)
    logits, target = some_logits(F32), few_labels(F32)
    # Known in advance with a table; without, the kernel detects and reports it.
    if tabulated:
        assert compare(use, kernels, metric, logits, target, epsilon=1e-3).worst() == FINE
    else:
        fused = run(kernels, metric, logits, target, epsilon=1e-2, max_iterations=40)
        assert fused.worst() == UNCONVERGED


@each_kernels
def test_shapes_of_images(use, kernels):
    device, metric = use(kernels), random_metric(LABELS)
    logits, ids = torch.randn(2, LABELS, 3, dtype=F64), torch.randint(LABELS, (2, 3))
    dense = torch.zeros(2, LABELS, 3, dtype=F64).scatter(1, ids.unsqueeze(1), 0.5)
    dense[:, 0] += 0.5
    for target in (ids, dense):
        use(kernels)
        loss_fn = wl.WassersteinLoss(
            metric, epsilon=0.1, reduction="none", kl_weight=0.0, normalize_cost=False
        )
        got = loss_and_gradient(loss_fn, logits, target, device)
        use(None)
        loss_fn = wl.WassersteinLoss(
            metric, epsilon=0.1, reduction="none", kl_weight=0.0, normalize_cost=False
        )
        expected = loss_and_gradient(loss_fn, logits, target, torch.device("cpu"))
        torch.testing.assert_close(got, expected, rtol=1e-6, atol=1e-6)
        assert got[0].shape == (2, 3)


@pytest.mark.parametrize(
    "keywords",
    [{"debiased": True}, {"solver": wl.transport.Newton()}],
    ids=lambda k: next(iter(k)),
)
def test_the_unusual_is_left_to_the_composed_functions(keywords):
    logits, target, metric = some_logits(F64), few_labels(F64), random_metric(LABELS)
    for given, expected in (({}, True), (keywords, False)):
        spec = LossSpec.checked(metric, epsilon=0.1, **given)
        fused = evaluation(NativeEvaluator, logits, target, spec)
        assert (fused is not None) == expected


@pytest.mark.parametrize("ignored", [-100, LABELS + 5, 2])
def test_class_weights_and_sample_weights(use, ignored):
    weight, ids = torch.rand(LABELS, dtype=F64), torch.tensor([3, ignored, 7, 9])
    logits, share = some_logits(F64), torch.rand(BATCH, dtype=F64)
    results = []
    for kernels in (NativeEvaluator, None):
        use(kernels)
        loss_fn = wl.WassersteinLoss(
            random_metric(LABELS),
            weight=weight,
            kl_weight=0.1,
            ignore_index=ignored,
            normalize_cost=False,
        )
        results.append([loss_fn(logits, t, share) for t in (ids, few_labels(F64))])
    torch.testing.assert_close(results[0], results[1], rtol=1e-6, atol=1e-8)


@pytest.mark.skipif(not CUDA, reason="needs a CUDA device")
@pytest.mark.parametrize("softening", [0.0, 0.2])
def test_inside_a_cuda_graph(softening):
    metric, given = random_metric(LABELS).to(DEVICE), some_logits(F32).to(DEVICE)
    target = moved(few_labels(F32), DEVICE)
    ids = torch.tensor([3, -100, 7, 9], device=DEVICE)
    keywords = {"epsilon": 0.1, "kl_weight": 0.1, "softening": softening}
    loss_fn = wl.WassersteinLoss(metric, normalize_cost=False, **keywords)

    def step() -> tuple[Tensor, Tensor, Tensor]:
        logits = given.detach().requires_grad_()
        values = loss_fn(logits, target), loss_fn(logits, ids)
        (gradient,) = torch.autograd.grad(values[0] + values[1], logits)
        return values[0].detach(), values[1].detach(), gradient

    expected = step()
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        step()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        results = step()
    graph.replay()
    torch.testing.assert_close(results, expected)
    assert loss_fn.unsolved == 0
    given[2, 5] = math.nan
    graph.replay()
    assert results[0].isnan()
    assert loss_fn.unsolved == 2  # once for each of the two losses


@pytest.mark.parametrize("reduction", ["mean", "sum"])
@pytest.mark.parametrize("ignored", [False, True])
def test_a_reduced_loss_has_the_gradient_of_its_parts(use, reduction, ignored):
    metric, ids = random_metric(LABELS), torch.tensor([3, 11, 7, 9])
    if ignored:
        ids[1] = -100
    logits = some_logits(F64).requires_grad_()
    results = []
    for kernels in (NativeEvaluator, None):
        use(kernels)
        loss_fn = wl.WassersteinLoss(
            metric, epsilon=0.1, kl_weight=0.2, reduction=reduction, normalize_cost=False
        )
        whole = loss_fn(logits, ids)
        # As it is, scaled, and once more: what is kept must not have been overwritten.
        found = [torch.autograd.grad(whole, logits, retain_graph=True)[0]]
        found += torch.autograd.grad(3 * whole, logits, retain_graph=True)
        found += torch.autograd.grad(whole, logits, retain_graph=True)
        batched = torch.autograd.grad(
            whole, logits, torch.tensor([1.0, 2.0], dtype=F64), is_grads_batched=True
        )
        results.append((whole.detach(), *found, *batched))
    torch.testing.assert_close(*results, rtol=1e-9, atol=1e-12)
    torch.testing.assert_close(results[0][2], 3 * results[0][1])
    assert (results[0][1] == results[0][3]).all()


def test_gradients_of_a_reduced_loss_add_up_in_place(use):
    use(NativeEvaluator)
    metric, ids, logits = random_metric(LABELS), torch.tensor([3, 11, 7, 9]), some_logits(F64)
    logits.requires_grad_()
    whole = wl.WassersteinLoss(metric, epsilon=0.1, kl_weight=0.0, normalize_cost=False)(
        logits, ids
    )
    whole.backward(retain_graph=True)
    once = logits.grad.clone()
    whole.backward(retain_graph=True)
    whole.backward()
    torch.testing.assert_close(logits.grad, 3 * once)
    whole = wl.WassersteinLoss(metric, epsilon=0.1, kl_weight=0.0, normalize_cost=False)(
        logits, ids
    )
    slope = torch.autograd.grad(whole, logits, create_graph=True)[0].sum()
    with pytest.raises(RuntimeError, match="differentiable once"):
        slope.backward()


# Targets that need not be met


def nearest_by(use, kernels, metric, logits, target, **keywords) -> tuple[Tensor, Tensor]:
    loss_fn = wl.NearestWassersteinLoss(
        metric, reduction="none", **{"kl_weight": 0.0, **keywords}, normalize_cost=False
    )
    return loss_and_gradient(loss_fn, logits, target, use(kernels))


@pytest.mark.one_in(3)
@each_kernels
@each_dtype
@each_regularizer
@pytest.mark.parametrize("epsilon", [0.0, 1e-5, 0.2, 20.0])
def test_free_targets(use, kernels, dtype, regularizer, epsilon):
    metric, logits = random_metric(LABELS).to(dtype=dtype), some_logits(dtype)
    logits[1, 3], logits[2, 7] = 100, -200
    sparse = few_labels(dtype, 5)
    sparse = SparseTarget(sparse.indices, sparse.weights * torch.tensor([[2.0], [1], [7], [0.1]]))
    dense = random_masses(BATCH, LABELS, 3, seed=8).to(dtype)
    ids = torch.tensor([3, -100, 7, 9])
    keywords = {"epsilon": epsilon, "regularizer": regularizer, "kl_weight": 0.3}
    for target in (sparse, dense, ids):
        found = nearest_by(use, kernels, metric, logits, target, **keywords)
        expected = nearest_by(use, None, metric, logits, target, **keywords)
        close = 1e-5 if dtype == F32 else 1e-12
        torch.testing.assert_close(found, expected, rtol=close, atol=close)


@pytest.mark.parametrize("epsilon", [0.0, 0.2])
def test_free_targets_take_one_pass_with_costs_from_anywhere(monkeypatch, epsilon):
    metric, logits, target = random_metric(LABELS), some_logits(F64), few_labels(F64)
    keywords = {"epsilon": epsilon, "gamma": (math.inf, 0.0), "normalize_target": True}
    table = run(NativeEvaluator, metric.tabulated(), logits, target, **keywords)
    on_demand = run(NativeEvaluator, metric, logits, target, **keywords)
    monkeypatch.setattr("wassloss._memory.LARGEST_COLUMNS", 3 * LABELS)  # two at a time
    pieces = run(NativeEvaluator, metric, logits, target, **keywords)
    for fused in (on_demand, pieces):
        torch.testing.assert_close(fused, table)
    assert table.status.tolist() == [FINE] * BATCH
    assert (
        run(TritonAnywhere, metric, logits, target, **keywords) is None
    )  # Triton has no kernel of it


def test_free_targets_that_make_no_sense_are_refused(use):
    use(NativeEvaluator)
    loss_fn = wl.NearestWassersteinLoss(
        random_metric(LABELS), epsilon=0.1, kl_weight=0.0, normalize_cost=False
    )
    logits = some_logits(F64)
    twice = few_labels(F64)
    twice.indices[1, 1] = twice.indices[1, 0]
    with pytest.raises(ValueError, match="each label once"):
        loss_fn(logits, twice)
    with pytest.raises(ValueError, match="some mass"):
        loss_fn(logits, SparseTarget(few_labels(F64).indices, torch.zeros(BATCH, 3, dtype=F64)))
    logits[0, 0] = math.nan
    with pytest.raises(ValueError, match="logits"):
        loss_fn(logits, few_labels(F64))


@pytest.mark.one_in(3)
@each_kernels
@each_dtype
@each_regularizer
@tables
def test_costs_that_are_no_distance(use, kernels, dtype, regularizer, tabulated):
    cost = torch.rand(LABELS, LABELS, dtype=F64) + 0.1
    metric = table_of(wl.ground.Cost(cost.to(dtype)), tabulated)
    logits, few = some_logits(dtype), few_labels(dtype)
    keywords = {"epsilon": 0.1, "regularizer": regularizer, "kl_weight": 0.2}
    ids = torch.randint(LABELS, (BATCH,))
    compare(use, kernels, metric, logits, ids, **keywords)
    compare(use, kernels, metric, logits, few, **keywords)
    tolerance = 1e-3 if dtype == F32 else 1e-7
    compare_iterations(
        use, kernels, metric, logits, few, tolerance, epsilon=0.1, regularizer=regularizer,
        scaling_iterations=3,
    )  # fmt: skip
    # The composed functions have the same table: once without it, from the definition.
    value = run(kernels, metric, logits, ids, epsilon=0.0).value
    expected = (logits.double().softmax(1) * cost.to(dtype).double()[:, ids].T).sum(1)
    torch.testing.assert_close(value.double(), expected, rtol=1e-5, atol=1e-5)


# KL on softened labels


def softened_by_hand(logits: Tensor, target, cost: Tensor, softening: float) -> Tensor:
    """`Σ s log(s/h)`, by the definition of `s`, in NumPy and double precision."""
    log_h, costs = logits.double().log_softmax(1).numpy(), cost.double().numpy()
    powers = np.exp((costs.min(0) - costs) / softening)  # (labels, targets)
    columns = powers / powers.sum(0)
    if isinstance(target, SparseTarget):
        y = np.zeros(logits.shape)
        for row, ids, weights in zip(y, target.indices, target.weights, strict=True):
            row[ids[weights > 0].numpy()] = weights[weights > 0].double().numpy()
    else:
        y = np.eye(LABELS)[target.numpy()]
    shares = y @ columns.T
    return torch.from_numpy((shares * (np.log(shares) - log_h)).sum(1))


def targets_of_all_kinds(dtype: torch.dtype) -> list:
    dense = torch.zeros(BATCH, LABELS, dtype=dtype)
    dense[:, 5], dense[:, 30] = 0.25, 0.75
    return [torch.tensor([3, 0, LABELS - 1, 9]), few_labels(dtype), dense]


@pytest.mark.one_in(5)
@each_kernels
@each_dtype
@each_regularizer
@tables
@pytest.mark.parametrize("softening", [0.05, 0.7])
def test_softened_labels(use, kernels, dtype, regularizer, tabulated, softening):
    metric = table_of(random_metric(LABELS).to(dtype=dtype), tabulated)
    for target in targets_of_all_kinds(dtype):
        compare(
            use, kernels, metric, some_logits(dtype), target,
            epsilon=0.1, regularizer=regularizer, kl_weight=0.4, softening=softening,
        )  # fmt: skip


@each_kernels
@each_dtype
def test_softened_labels_by_their_definition(kernels, dtype):
    metric, logits = random_metric(LABELS).to(dtype=dtype), some_logits(dtype)
    for target in targets_of_all_kinds(dtype)[:2]:
        with_kl = run(kernels, metric, logits, target, epsilon=0.1, kl_weight=2.0, softening=0.3)
        without = run(kernels, metric, logits, target, epsilon=0.1, softening=0.3)
        expected = 2 * softened_by_hand(logits, target, metric.cost(), 0.3)
        close = 2e-5 if dtype == F32 else 1e-9
        found = (with_kl.value - without.value).double()
        torch.testing.assert_close(found, expected, rtol=close, atol=close)


@each_kernels
def test_softened_labels_have_the_slope_of_their_loss(use, kernels):
    device, labels = use(kernels), 6
    metric = random_metric(labels).to(device)
    target = SparseTarget(torch.tensor([[0, 4], [2, 3]]), torch.tensor([[0.3, 0.7], [0.5, 0.5]]))
    logits = torch.randn(2, labels, dtype=F64, device=device, requires_grad=True)
    for given in (torch.tensor([1, 5]), SparseTarget(target.indices, target.weights.double())):
        loss_fn = wl.WassersteinLoss(metric, epsilon=0.3, softening=0.2, tol=1e-11)
        given = moved(given, device)
        of_logits = functools.partial(loss_fn, target=given)
        assert torch.autograd.gradcheck(of_logits, logits, atol=1e-6, fast_mode=True)


@each_kernels
@each_dtype
def test_softened_labels_by_costs_far_from_nothing(use, kernels, dtype):
    """What costs have in common is taken off before they are divided by a small softening."""
    cost = 1000 + torch.randint(64, (LABELS, LABELS)) / 64
    metric = wl.ground.Cost(cost.to(dtype))
    for target in targets_of_all_kinds(dtype)[:2]:
        compare(
            use, kernels, metric, some_logits(dtype), target,
            epsilon=20.0, kl_weight=100.0, softening=0.02,
        )  # fmt: skip


@each_kernels
@pytest.mark.parametrize("support", [1, 13])
def test_any_number_of_softened_labels(use, kernels, support):
    compare(
        use, kernels, random_metric(LABELS), some_logits(F64), few_labels(F64, support + 1),
        epsilon=0.1, kl_weight=0.1, softening=0.2,
    )  # fmt: skip


@each_kernels
def test_softened_labels_in_several_tiles(use, kernels):
    labels = launch.LARGEST_TILE + 40
    metric, logits = wl.ground.Ordinal(labels, scale="median"), torch.randn(2, labels, dtype=F64)
    few = SparseTarget(torch.tensor([[0, 700], [labels - 1, 30]]), torch.full((2, 2), 0.5))
    for target in (torch.tensor([labels - 1, 5]), SparseTarget(few.indices, few.weights.double())):
        for softening in (0.01, 0.5):
            compare(
                use, kernels, metric, logits, target,
                epsilon=0.5, kl_weight=0.3, softening=softening,
            )  # fmt: skip


@each_kernels
@each_regularizer
def test_softened_labels_beside_algorithm_one(use, kernels, regularizer):
    compare_iterations(
        use, kernels, random_metric(LABELS), some_logits(F64), few_labels(F64, 5), 1e-9,
        epsilon=0.1, kl_weight=0.3, softening=0.2, regularizer=regularizer, scaling_iterations=10,
    )  # fmt: skip


@each_kernels
def test_softened_labels_of_any_mass_weights_and_ignored_ones(use, kernels):
    metric, logits, target = random_metric(LABELS), some_logits(F64), few_labels(F64)
    target = SparseTarget(target.indices, target.weights * torch.arange(1, BATCH + 1)[:, None])
    keywords = {"epsilon": 0.1, "kl_weight": 0.4, "softening": 0.2}
    compare(use, kernels, metric, logits, target, normalize_target=True, **keywords)
    ids, logits = torch.tensor([3, -100, 7, 9]), some_logits(F64)
    logits[1, 0] = math.nan
    compare(use, kernels, metric, logits, ids, **keywords)
    compare(use, kernels, metric, logits, ids, weight=torch.rand(LABELS), **keywords)
    fused = run(kernels, metric, logits, ids, **keywords)
    assert fused.status.tolist() == [FINE, IGNORED, FINE, FINE]
    assert fused.value[1] == 0
    assert (fused.gradient[1] == 0).all()


@each_kernels
@each_dtype
@pytest.mark.parametrize("softening", [1e-4, 1e-300])
def test_hardly_softened_labels(use, kernels, dtype, softening):
    metric, logits = random_metric(LABELS).to(dtype=dtype), some_logits(dtype)
    logits[0, 20] = -math.inf  # none of whose neighbours is a target
    for target in (torch.tensor([3, 0, LABELS - 1, 9]), few_labels(dtype)):
        keywords = {"epsilon": 0.1, "kl_weight": 0.4}
        soft = compare(use, kernels, metric, logits, target, softening=softening, **keywords)
        plain = run(kernels, metric, logits, target, **keywords)
        # The CPU gives the least mass to every label, and leaves what is impossible to others.
        possible = slice(1 if kernels is NativeEvaluator else 0, None)
        torch.testing.assert_close(soft.value[possible], plain.value[possible])


@each_kernels
def test_softened_labels_that_are_impossible(use, kernels):
    metric, logits = random_metric(LABELS), some_logits(F64)
    logits[2, 30] = -math.inf
    for target in targets_of_all_kinds(F64)[:2]:
        keywords = {"epsilon": 0.1, "kl_weight": 0.4, "softening": 0.5}
        fused = run(kernels, metric, logits, target, **keywords)
        alone = kernels is TritonAnywhere and isinstance(target, torch.Tensor) and target.dim() == 1
        assert fused.status.tolist() == [FINE, FINE, FINE if alone else INVALID, FINE]
        device = use(kernels)
        loss_fn = wl.WassersteinLoss(metric, reduction="none", normalize_cost=False, **keywords)
        values = loss_fn.to(device)(logits.to(device), moved(target, device))
        assert values.isinf().tolist() == [False, False, True, False]  # or the composed functions'


@each_kernels
def test_softening_without_kl_is_nothing(kernels):
    metric, logits = random_metric(LABELS), some_logits(F64)
    for target in targets_of_all_kinds(F64):
        soft, plain = (
            run(kernels, metric, logits, target, epsilon=0.1, softening=softening)
            for softening in (0.3, 0.0)
        )
        for one, other in zip(soft[:2], plain[:2], strict=True):
            assert (one == other).all()
