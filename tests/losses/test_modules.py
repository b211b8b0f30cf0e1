"""The modules: reduction, weights, precision, and conventions of `nn.Module`."""

import copy
import math
import pickle
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, kl_div, one_hot

import wassloss as wl
from tests.evaluators import evaluate_with
from tests.losses.per_example import relaxed_wasserstein_loss, wasserstein_loss
from wassloss.ground import Discrete, Embedding, Matrix, Ordinal
from wassloss.losses.modules import LARGEST_TABLE

K = 5
F64 = torch.float64
METRIC = Ordinal(K, scale="max")

ITERATED = [wl.WassersteinLoss, wl.RelaxedWassersteinLoss]
iterated = pytest.mark.parametrize("module", ITERATED)
modules = pytest.mark.parametrize("module", [*ITERATED, wl.NearestWassersteinLoss])
reductions = pytest.mark.parametrize("reduction", ["mean", "sum", "none"])


def weights_over_labels(*shape: int, dtype: torch.dtype = F64) -> Tensor:
    return torch.randn(*shape, K, dtype=dtype).softmax(-1)


def gradient_of(loss: Tensor, x: Tensor) -> Tensor:
    (gradient,) = torch.autograd.grad(loss.sum(), x)
    return gradient


# Where every label is at distance 0 nothing is paid for transport: what is left is cross-entropy


def cross_entropy_of_ours(**keywords: Any) -> wl.WassersteinLoss:
    zero = Matrix(torch.zeros(K, K))
    return wl.WassersteinLoss(zero, epsilon=0, kl_weight=1.0, **keywords, normalize_cost=False)


@reductions
@pytest.mark.parametrize("weighted", [False, True], ids=["", "weighted"])
@pytest.mark.parametrize("ignore_index", [-100, 2])
@pytest.mark.parametrize("shape", [(7, K), (2, K, 3), (2, K, 3, 2), (K,)], ids=str)
def test_reduces_as_cross_entropy_does(
    reduction: str, weighted: bool, ignore_index: int, shape: tuple[int, ...]
) -> None:
    keywords: dict[str, Any] = {"reduction": reduction, "ignore_index": ignore_index}
    if weighted:
        keywords["weight"] = torch.rand(K, dtype=F64)
    logits = torch.randn(shape, dtype=F64, requires_grad=True)
    ids = torch.randint(K, shape[:1] + shape[2:] if len(shape) > 1 else ())
    if len(shape) > 1:
        ids[0] = ignore_index
    ours = cross_entropy_of_ours(**keywords)(logits, ids)
    theirs = nn.CrossEntropyLoss(**keywords)(logits, ids)
    torch.testing.assert_close(ours, theirs, equal_nan=True)  # a single ignored example gives 0/0
    torch.testing.assert_close(
        gradient_of(ours, logits), gradient_of(theirs, logits), equal_nan=True
    )


@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_all_examples_ignored_is_as_in_cross_entropy(reduction: str) -> None:
    logits, ids = torch.randn(3, K), torch.full((3,), -100)
    ours = cross_entropy_of_ours(reduction=reduction)(logits, ids)
    theirs = nn.CrossEntropyLoss(reduction=reduction)(logits, ids)
    torch.testing.assert_close(ours, theirs, equal_nan=True)


@reductions
@iterated
@pytest.mark.parametrize("empty", ["ids", "dense", "SparseTarget", "COO"])
@pytest.mark.parametrize(
    "mode", [{}, {"scaling_iterations": 3}, {"regularizer": "product"}], ids=str
)
def test_an_empty_batch_is_as_in_cross_entropy(
    module: Any, reduction: str, empty: str, mode: dict[str, Any]
) -> None:
    target: Any = {
        "ids": torch.zeros(0).long(),
        "dense": torch.zeros(0, K),
        "SparseTarget": wl.SparseTarget(torch.zeros(0, 2).long(), torch.zeros(0, 2)),
        "COO": torch.zeros(0, K).to_sparse(),
    }[empty]
    logits = torch.zeros(0, K, requires_grad=True)
    ours = module(METRIC, reduction=reduction, kl_weight=0.5, **mode)(logits, target)
    theirs = nn.CrossEntropyLoss(reduction=reduction)(logits, torch.zeros(0).long())
    torch.testing.assert_close(ours, theirs, equal_nan=True)
    assert gradient_of(ours, logits).shape == (0, K)


@pytest.mark.parametrize("metric", [Discrete(K), METRIC, METRIC.with_cost(power=0.5)], ids=repr)
@pytest.mark.parametrize("mode", [{"epsilon": 0}, {"debiased": True}], ids=str)
def test_an_empty_batch_of_any_transport(metric: Ordinal, mode: dict[str, Any]) -> None:
    loss_fn = wl.WassersteinLoss(
        metric, reduction="sum", **{"kl_weight": 0.0, **mode}, normalize_cost=False
    )
    logits = torch.zeros(0, K, requires_grad=True)
    loss = loss_fn(logits, torch.zeros(0, K))
    loss.backward()
    assert loss == 0


# Weights and reductions, from the losses of each example


@modules
@pytest.mark.parametrize("kind", ["ids", "dense", "SparseTarget"])
@pytest.mark.parametrize("weighted", [False, True], ids=["", "weight"])
@pytest.mark.parametrize("sampled", [False, True], ids=["", "sample_weight"])
def test_reductions_by_hand(module: Any, kind: str, weighted: bool, sampled: bool) -> None:
    logits = torch.randn(4, K, dtype=F64)
    ids = torch.tensor([0, 4, 2, 2])
    y = weights_over_labels(4)
    target, dense = {
        "ids": (ids, one_hot(ids, K).to(F64)),
        "dense": (y, y),
        "SparseTarget": (wl.SparseTarget(torch.arange(K).expand(4, K), y), y),
    }[kind]
    weight = torch.rand(K, dtype=F64) if weighted else None
    sample_weight = torch.rand(4, dtype=F64) if sampled else None

    values = module(METRIC, reduction="none")(logits, target)
    share = torch.ones(4, dtype=F64)
    if weight is not None:
        share = share * (dense @ weight)
    if sample_weight is not None:
        share = share * sample_weight
    for reduction, expected in (
        ("none", share * values),
        ("sum", (share * values).sum()),
        ("mean", (share * values).sum() / share.sum()),
    ):
        loss_fn = module(METRIC, weight=weight, reduction=reduction)
        torch.testing.assert_close(loss_fn(logits, target, sample_weight), expected)


@reductions
def test_class_weights_of_one_change_nothing_whatever_the_mass(reduction: str) -> None:
    log_h, y = torch.randn(3, K), 3 * torch.rand(3, K)
    plain = wl.RelaxedWassersteinLoss(METRIC, reduction=reduction, normalize_cost=False)
    weighted = wl.RelaxedWassersteinLoss(
        METRIC, reduction=reduction, weight=torch.ones(K), normalize_cost=False
    )
    torch.testing.assert_close(weighted(log_h, y), plain(log_h, y))


def test_sample_weight_of_pixels() -> None:
    logits, ids = torch.randn(2, K, 3), torch.randint(K, (2, 3))
    sample_weight = torch.rand(2, 3)
    loss_fn = wl.WassersteinLoss(METRIC, weight=torch.rand(K), kl_weight=0.0, normalize_cost=False)
    rows = logits.transpose(1, 2).reshape(6, K)
    torch.testing.assert_close(
        loss_fn(logits, ids, sample_weight),
        loss_fn(rows, ids.reshape(-1), sample_weight.reshape(-1)),
    )


@pytest.mark.parametrize("dtype", [torch.int64, torch.float64, torch.half], ids=str)
def test_the_dtype_of_sample_weight_is_not_that_of_the_loss(dtype: torch.dtype) -> None:
    logits, ids = torch.randn(3, K), torch.tensor([0, 1, 2])
    loss_fn = wl.WassersteinLoss(METRIC, kl_weight=0.0, normalize_cost=False)
    loss = loss_fn(logits, ids, torch.tensor([0, 2, 1]).to(dtype))
    assert loss.dtype == torch.float32
    torch.testing.assert_close(loss, loss_fn(logits, ids, torch.tensor([0.0, 2.0, 1.0])))


# W + α KL


@pytest.mark.parametrize("kind", ["ids", "dense", "zeros"])
def test_the_kl_part_is_kl_div(kind: str) -> None:
    logits = torch.randn(3, K, dtype=F64)
    y = {
        "ids": one_hot(torch.tensor([0, 3, 4]), K).to(F64),
        "dense": weights_over_labels(3),
        "zeros": torch.tensor([[0.5, 0.5, 0, 0, 0]] * 3, dtype=F64),
    }[kind]
    target = y.argmax(1) if kind == "ids" else y
    kl = kl_div(logits.log_softmax(1), y, reduction="none").sum(1)
    for epsilon, regularizer in ((0.0, "plan"), (0.2, "plan"), (0.2, "product")):
        keywords: dict[str, Any] = {"epsilon": epsilon, "regularizer": regularizer}
        w = wasserstein_loss(logits, target, METRIC, **keywords)
        both = wasserstein_loss(logits, target, METRIC, kl_weight=0.7, **keywords)
        torch.testing.assert_close(both, w + 0.7 * kl)


def test_the_kl_part_is_cross_entropy_less_entropy() -> None:
    logits, y = torch.randn(3, K, dtype=F64), weights_over_labels(3)
    entropy = torch.special.entr(y).sum(1).mean()
    expected = cross_entropy(logits, y) - entropy
    torch.testing.assert_close(cross_entropy_of_ours()(logits, y), expected)


def test_the_relaxed_kl_part_counts_mass() -> None:
    log_h, y = torch.randn(3, K, dtype=F64), 2 * weights_over_labels(3)
    keywords: dict[str, Any] = {"epsilon": 0.2, "gamma": (0.5, 1.0)}
    w = relaxed_wasserstein_loss(log_h, y, METRIC, **keywords)
    both = relaxed_wasserstein_loss(log_h, y, METRIC, kl_weight=0.7, **keywords)
    h = log_h.exp()
    kl = (y * (y.log() - log_h) - y + h).sum(1)
    torch.testing.assert_close(both, w + 0.7 * kl)


def test_the_modules_are_means_of_the_functions() -> None:
    logits, y = torch.randn(3, K, dtype=F64), weights_over_labels(3)
    keywords: dict[str, Any] = {"epsilon": 0.2, "kl_weight": 0.3, "regularizer": "product"}
    torch.testing.assert_close(
        wl.WassersteinLoss(METRIC, **{"kl_weight": 0.0, **keywords}, normalize_cost=False)(
            logits, y
        ),
        wasserstein_loss(logits, y, METRIC, **keywords).mean(),
    )
    keywords["gamma"] = (0.4, 1.2)
    torch.testing.assert_close(
        wl.RelaxedWassersteinLoss(METRIC, **keywords, normalize_cost=False)(logits, y),
        relaxed_wasserstein_loss(logits, y, METRIC, **keywords).mean(),
    )


def test_a_module_takes_a_plain_matrix() -> None:
    logits, ids = torch.randn(3, K), torch.tensor([0, 1, 4])
    torch.testing.assert_close(
        wl.WassersteinLoss(METRIC.cost(), kl_weight=0.0, normalize_cost=False)(logits, ids),
        wl.WassersteinLoss(METRIC, kl_weight=0.0, normalize_cost=False)(logits, ids),
    )


def test_a_metric_too_large_to_tabulate_gives_the_same_loss() -> None:
    size = LARGEST_TABLE
    positions = torch.arange(size + 1.0)
    logits, ids = torch.randn(2, size + 1), torch.tensor([5, size - 1])
    large = wl.WassersteinLoss(
        Ordinal(positions), epsilon=1.0, reduction="none", kl_weight=0.0, normalize_cost=False
    )
    assert large.metric.known_costs is None
    small = wl.WassersteinLoss(
        Ordinal(positions[:-1]), epsilon=1.0, reduction="none", kl_weight=0.0, normalize_cost=False
    )
    assert small.metric.known_costs is not None
    logits[:, -1] = -math.inf  # a label that the small metric lacks
    torch.testing.assert_close(large(logits, ids), small(logits[:, :-1], ids))


# Defaults


@modules
@pytest.mark.parametrize(
    "metric",
    [
        Ordinal(1),
        Matrix(torch.zeros(4, 4)),
        Ordinal([0.0] * 9 + [2.0]),  # the median cost is 0, the largest is not
    ],
    ids=["one label", "all at one place", "nearly all at one place"],
)
def test_degenerate_metrics_work(module: Any, metric: wl.ground.GroundMetric) -> None:
    loss_fn = module(metric)
    x = torch.randn(2, metric.size, requires_grad=True)
    loss = loss_fn(x, torch.full((2, metric.size), 1 / metric.size))
    loss.backward()
    assert loss.isfinite()
    assert x.grad is not None
    assert x.grad.isfinite().all()


# Precision


@pytest.mark.parametrize("dtype", [torch.half, torch.bfloat16, torch.float64], ids=str)
def test_a_module_moves_while_its_metric_keeps_its_precision(dtype: torch.dtype) -> None:
    loss_fn = wl.WassersteinLoss(
        METRIC, weight=torch.ones(K), epsilon=0.1, kl_weight=0.0, normalize_cost=False
    )
    moved = copy.deepcopy(loss_fn).to(dtype)
    assert moved.weight.dtype == dtype
    assert moved.metric.dtype == torch.float32
    logits, ids = torch.randn(3, K), torch.tensor([0, 1, 4])
    torch.testing.assert_close(moved(logits, ids), loss_fn(logits, ids))


def test_half_and_double_are_moves_too() -> None:
    loss_fn = wl.WassersteinLoss(
        Embedding(torch.randn(K, 3, dtype=F64)),
        weight=torch.ones(K),
        kl_weight=0.0,
        normalize_cost=False,
    )
    model = nn.Sequential(nn.Linear(2, K), loss_fn)
    assert model.half()[1].metric.dtype == F64
    assert loss_fn.weight.dtype == torch.half
    assert model.double()[1].metric.dtype == F64
    assert loss_fn.weight.dtype == F64


@modules
@pytest.mark.parametrize("dtype", [torch.half, torch.bfloat16], ids=str)
def test_half_precision_logits_are_computed_with_in_single(module: Any, dtype: torch.dtype) -> None:
    logits = torch.randn(3, K).to(dtype).requires_grad_()
    wide = logits.detach().float().requires_grad_()
    target = weights_over_labels(3, dtype=torch.float32)
    loss_fn = module(METRIC, kl_weight=0.1)
    loss, expected = loss_fn(logits, target), loss_fn(wide, target)
    assert loss.dtype == torch.float32
    torch.testing.assert_close(loss, expected)
    gradient = gradient_of(loss, logits)
    assert gradient.dtype == dtype
    torch.testing.assert_close(gradient, gradient_of(expected, wide).to(dtype))


@iterated
@pytest.mark.parametrize(
    "mode",
    [{}, {"scaling_iterations": 5}, {"regularizer": "product"}],
    ids=["plan", "fixed", "product"],
)
def test_autocast_does_not_reach_the_solver(module: Any, mode: dict[str, Any]) -> None:
    network, features = nn.Linear(7, K), torch.randn(6, 7)
    target = weights_over_labels(6, dtype=torch.float32)
    loss_fn = module(METRIC, kl_weight=0.1, **mode)
    with torch.autocast("cpu", torch.bfloat16):
        logits = network(features)
        loss = loss_fn(logits, target)
    assert logits.dtype == torch.bfloat16
    assert loss.dtype == torch.float32
    torch.testing.assert_close(loss, loss_fn(logits.detach().float(), target))
    loss.backward()
    assert network.weight.grad is not None
    assert network.weight.grad.isfinite().all()


def test_autocast_does_not_reach_a_distance() -> None:
    h, y = (weights_over_labels(4, dtype=torch.float32) for _ in range(2))
    plain = wl.solve(h, y, METRIC, epsilon=0.02)
    with torch.autocast("cpu", torch.bfloat16):
        solution = wl.solve(h, y, METRIC, epsilon=0.02)
    torch.testing.assert_close(solution.value, plain.value, rtol=1e-6, atol=1e-6)
    assert (solution.n_iterations - plain.n_iterations).abs().max() <= 1


# Conventions of nn.Module


def loss_and_gradient(loss_fn: nn.Module) -> tuple[Tensor, Tensor]:
    logits = torch.linspace(-1, 1, 3 * K).reshape(3, K).requires_grad_()
    loss = loss_fn(logits, torch.tensor([0, 2, 4]))
    return loss.detach(), gradient_of(loss, logits)


@modules
def test_state_dict_is_the_class_weights_alone(module: Any) -> None:
    assert module(METRIC).state_dict() == {}
    weighted = module(METRIC, weight=torch.rand(K))
    assert list(weighted.state_dict()) == ["weight"]
    other = module(METRIC, weight=torch.ones(K))
    other.load_state_dict(weighted.state_dict())
    assert torch.equal(other.weight, weighted.weight)


@modules
@pytest.mark.parametrize(
    "metric",
    [METRIC, Discrete(K), Embedding(torch.randn(K, 3)), wl.ground.Tree([-1, 0, 0, 0, 0, 0])],
    ids=lambda metric: type(metric).__name__,
)
def test_copies_and_pickles(module: Any, metric: wl.ground.GroundMetric) -> None:
    loss_fn = module(metric, weight=torch.rand(K), kl_weight=0.1)
    expected = loss_and_gradient(loss_fn)
    for other in (copy.deepcopy(loss_fn), pickle.loads(pickle.dumps(loss_fn))):
        assert torch.equal(other.weight, loss_fn.weight)
        torch.testing.assert_close(loss_and_gradient(other), expected)


def test_repr_tells_what_is_computed() -> None:
    assert repr(
        wl.WassersteinLoss(Ordinal(10, power=2), kl_weight=0.1, epsilon=0.5, normalize_cost=False)
    ) == (
        "WassersteinLoss(Ordinal(10, power=2), epsilon=0.5, regularizer='plan', kl_weight=0.1, "
        "reduction='mean')"
    )
    assert repr(
        wl.RelaxedWassersteinLoss(
            Discrete(3), gamma=(1, math.inf), epsilon=0.1, normalize_cost=False
        )
    ) == (
        "RelaxedWassersteinLoss(Discrete(3), epsilon=0.1, gamma=(1.0, inf), regularizer='plan', "
        "kl_weight=0.5, reduction='mean')"
    )
    special = wl.WassersteinLoss(
        Discrete(3),
        epsilon=0.1,
        debiased=True,
        scaling_iterations=5,
        kl_weight=0.0,
        normalize_cost=False,
    )
    assert "debiased=True, scaling_iterations=5" in repr(special)


@pytest.mark.parametrize(
    "mode", [{}, {"epsilon": 0}, {"kl_weight": 0.5}, {"debiased": True}], ids=str
)
def test_strides_do_not_matter(mode: dict[str, Any]) -> None:
    loss_fn = wl.WassersteinLoss(METRIC, **{"kl_weight": 0.0, **mode}, normalize_cost=False)
    target = weights_over_labels(4, dtype=torch.float32)
    plain = torch.randn(4, K)
    for strided in (plain.T.contiguous().T, plain.repeat_interleave(2, 1)[:, ::2]):
        assert not strided.is_contiguous()
        torch.testing.assert_close(loss_fn(strided, target), loss_fn(plain, target))

    row = torch.randn(1, K, requires_grad=True)
    expanded = loss_fn(row.expand(4, K), target)
    repeated = loss_fn(row.repeat(4, 1), target)
    torch.testing.assert_close(expanded, repeated)
    torch.testing.assert_close(gradient_of(expanded, row), gradient_of(repeated, row))


def test_a_batch_of_one_is_one_example() -> None:
    logits, y = torch.randn(1, K), weights_over_labels(1, dtype=torch.float32)
    loss_fn = wl.WassersteinLoss(METRIC, kl_weight=0.1, weight=torch.rand(K), normalize_cost=False)
    torch.testing.assert_close(loss_fn(logits, y), loss_fn(logits[0], y[0]))


@modules
@pytest.mark.parametrize("guard", [torch.no_grad, torch.inference_mode])
def test_without_gradients(module: Any, guard: Any) -> None:
    logits = torch.randn(3, K, requires_grad=True)
    target = weights_over_labels(3, dtype=torch.float32).requires_grad_()
    vectors = torch.randn(K, 2, requires_grad=True)
    loss_fn = module(Embedding(vectors), kl_weight=0.1)
    expected = loss_fn(logits, target)
    with guard():
        loss = loss_fn(logits, target)
    assert not loss.requires_grad
    torch.testing.assert_close(loss, expected.detach())
    assert not loss_fn(logits.detach(), target.detach()).isnan()


@modules
def test_constants_in_a_constant_out(module: Any) -> None:
    loss = module(METRIC)(torch.randn(3, K), torch.tensor([0, 1, 2]))
    assert not loss.requires_grad


def test_the_ground_metric_can_be_learned_through_the_module() -> None:
    vectors = nn.Parameter(torch.randn(K, 3, dtype=F64))
    loss_fn = wl.WassersteinLoss(
        Embedding(vectors), epsilon=0.1, kl_weight=0.0, normalize_cost=False
    )
    logits, ids = torch.randn(3, K, dtype=F64), torch.tensor([0, 1, 2])
    before = loss_fn(logits, ids)
    before.backward()
    assert vectors.grad is not None
    with torch.no_grad():
        vectors -= 1e-3 * vectors.grad
    assert loss_fn(logits, ids) < before  # the module uses the updated metric


# During the capture of a CUDA graph nothing can be raised or warned about


@iterated
@pytest.mark.filterwarnings("ignore::wassloss.ConvergenceWarning")
def test_a_captured_loss_counts_what_it_did_not_solve(
    module: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    loss_fn = module(METRIC, epsilon=1e-3, tol=1e-12, max_iterations=1, reduction="none")
    log_h, y = torch.randn(4, K, dtype=F64), weights_over_labels(4)
    evaluate_with(monkeypatch)
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: True)
    values = loss_fn(log_h, y)
    assert values.isfinite().all()  # the best value found
    assert loss_fn.unsolved == 4
    log_h[1, 0] = math.nan
    assert loss_fn(log_h, y).isnan().tolist() == [False, True, False, False]
    assert loss_fn.unsolved == 8


def test_a_captured_function_marks_what_it_did_not_solve(monkeypatch: pytest.MonkeyPatch) -> None:
    h, y = weights_over_labels(3), weights_over_labels(3)
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: True)
    with pytest.warns(wl.ConvergenceWarning):
        value = wl.wasserstein(h, y, METRIC, epsilon=1e-3, tol=1e-12, max_iterations=1)
    assert value.isnan().all()
    assert wl.wasserstein(h, y, METRIC, epsilon=1e-3, scaling_iterations=2).isfinite().all()
