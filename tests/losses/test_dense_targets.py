"""The pass over dense targets: equal to the composed functions, and marked if they refuse."""

import pytest
import torch

import wassloss as wl
from tests.evaluators import evaluate_with
from wassloss.kernels.status import FINE, INVALID, UNCONVERGED
from wassloss.losses.evaluators import dense_graphs
from wassloss.losses.evaluators.base import Batch
from wassloss.losses.evaluators.dense_graphs import DenseGraphEvaluator
from wassloss.losses.evaluators.dense_pass import DensePass
from wassloss.targets import Kind, ReadTarget

BATCH, LABELS = 6, 40
MASS_TOLERANCE = 1e-3
needs_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
KEYWORDS = [
    {},
    {"regularizer": "product", "epsilon": 0.1},
    {"kl_weight": 0.0, "epsilon": 0.5},
    {"normalize_target": True},
]


def _batch(dtype=torch.float64, mass=1.0):
    torch.manual_seed(0)
    logits, target = 2 * torch.randn(BATCH, LABELS), torch.rand(BATCH, LABELS)
    target[1, :30], target[2, 7] = 0.0, 50.0
    logits[3, 4] = -torch.inf
    target[3, 4] = 0.0  # else KL is infinite
    target = mass * target / target.sum(1, keepdim=True)
    return logits.to(dtype), target.to(dtype)


def _metric():
    generator = torch.Generator().manual_seed(1)
    return wl.ground.Embedding(torch.randn(LABELS, 3, generator=generator, dtype=torch.float64))


def _passed(loss_fn, logits, target, tol=1e-10, rounds=40) -> DensePass:
    own = DensePass(loss_fn.spec, logits, target, tol, MASS_TOLERANCE)
    own.begin()
    for _ in range(3):
        own.iterate()
    if int(own.left):
        own.begin_relaxed()
    for _ in range(rounds):
        if not int(own.left):
            break
        own.iterate_relaxed()
    own.end()
    return own


@pytest.mark.parametrize("keywords", KEYWORDS)
def test_values_and_gradients_are_those_of_the_composed_functions(keywords):
    logits, target = _batch(mass=3.0 if keywords.get("normalize_target") else 1.0)
    loss_fn = wl.WassersteinLoss(_metric(), reduction="none", tol=1e-10, **keywords)
    own = _passed(loss_fn, logits, target)
    x = logits.clone().requires_grad_()
    expected = loss_fn(x, target)
    expected.sum().backward()
    assert own.status.tolist() == [FINE] * BATCH
    torch.testing.assert_close(own.value, expected.detach(), rtol=1e-8, atol=1e-8)
    torch.testing.assert_close(own.gradient, x.grad, rtol=1e-7, atol=1e-8)


def test_what_makes_no_sense_is_marked():
    logits, target = _batch()
    logits[0, 3], logits[1] = torch.nan, -torch.inf
    target[2, 0], target[3], target[4, 1] = -1.0, 2 * target[3], torch.inf
    own = _passed(wl.WassersteinLoss(_metric()), logits, target)
    assert own.status.tolist() == [INVALID] * 5 + [FINE]
    assert own.value.isnan().tolist() == [True] * 5 + [False]
    assert own.gradient[:5].isnan().all()


def test_an_infinite_divergence_is_marked():
    logits, target = _batch()
    target[3, 4] = 0.5  # where the logit is −inf
    target[3] /= target[3].sum()
    assert _passed(wl.WassersteinLoss(_metric()), logits, target).status[3] == INVALID


def test_too_few_iterations_are_marked():
    logits, target = _batch()
    loss_fn = wl.WassersteinLoss(_metric(), epsilon=0.02)
    own = DensePass(loss_fn.spec, logits, target, 1e-12, MASS_TOLERANCE)
    own.begin()
    own.end()
    assert (own.status == UNCONVERGED).all()


def test_the_precision_has_range_and_digits_for_products():
    def chosen(dtype=torch.float32, **keywords):
        spec = wl.WassersteinLoss(_metric().to(dtype=dtype), **keywords).spec
        return dense_graphs._dtype_of_products(dtype, spec)

    assert chosen() == torch.float32
    assert chosen(dtype=torch.float64) == torch.float64
    assert chosen(epsilon=0.02) == torch.float64
    assert chosen(epsilon=0.002) is None
    assert chosen(softening=0.1) is None
    assert chosen(max_iterations=5) is None  # a user's own budget


@pytest.fixture
def eager(monkeypatch) -> set[str]:
    """Imitate graphs without a GPU: pieces run directly; those in the set fail to be captured."""
    refused: set[str] = set()

    def captured(run, device, pool):
        return None if run.__name__ in refused else run

    monkeypatch.setattr(dense_graphs, "captured", captured)
    monkeypatch.setattr(torch.cuda, "graph_pool_handle", lambda: None)
    return refused


def test_pieces_serve_batches_that_need_more_and_fewer(eager):
    loss_fn = wl.WassersteinLoss(_metric(), reduction="none", epsilon=0.05)
    logits, target = _batch()
    graphs = dense_graphs.DenseGraphs(loss_fn.spec, logits, target, 1e-8, MASS_TOLERANCE)
    for scale in (1.0, 0.01, 3.0, 0.1):
        value, gradient, _, worst = graphs(scale * logits, target)
        x = (scale * logits).requires_grad_()
        expected = loss_fn(x, target)
        expected.sum().backward()
        assert worst == FINE
        torch.testing.assert_close(value, expected.detach(), rtol=1e-6, atol=1e-6)
        torch.testing.assert_close(gradient, x.grad, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("piece", ["begin", "iterate", "end"])
def test_without_one_piece_there_are_none(piece, eager):
    eager.add(piece)
    loss_fn = wl.WassersteinLoss(_metric(), epsilon=0.05)
    logits, target = _batch()
    graphs = dense_graphs.DenseGraphs(loss_fn.spec, logits, target, 1e-8, MASS_TOLERANCE)
    assert graphs(logits, target) is None
    assert graphs(logits, target) is None


def test_mixed_precision_leaves_products_alone(monkeypatch):
    logits, target = (x.float() for x in _batch())
    loss_fn = wl.WassersteinLoss(_metric().to(dtype=torch.float32), reduction="none")
    expected = loss_fn(logits, target)
    read = ReadTarget(torch.arange(LABELS).unsqueeze(0), target)
    monkeypatch.setattr("wassloss._checks.can_read_values", lambda: False)  # as during capture
    with torch.autocast("cpu", torch.bfloat16):
        evaluator = DenseGraphEvaluator(loss_fn.spec, logits.dtype, Kind.DENSE)
        value = evaluator(Batch(logits, read)).value
    torch.testing.assert_close(value, expected, rtol=1e-4, atol=1e-4)


@needs_cuda
def test_graphs_of_inference_mode_serve_training():
    loss_fn = wl.WassersteinLoss(_metric().to(dtype=torch.float32)).cuda()
    logits, target = (x.float().cuda() for x in _batch())
    with torch.inference_mode():
        values = [loss_fn(logits, target) for _ in range(3)]
    x = logits.clone().requires_grad_()
    for _ in range(2):
        loss = loss_fn(x, target)
        loss.backward()
        torch.testing.assert_close(loss.detach(), values[0].clone(), rtol=1e-4, atol=1e-4)


@needs_cuda
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("keywords", [*KEYWORDS, {"epsilon": 0.02}, {"epsilon": 0.05}])
def test_batches_of_one_shape_replay_a_graph(dtype, keywords, monkeypatch):
    loss_fn = wl.WassersteinLoss(_metric().to(dtype=dtype), reduction="none", **keywords).cuda()
    composed = wl.WassersteinLoss(_metric().to(dtype=dtype), reduction="none", **keywords).cuda()
    used = []
    call = dense_graphs.DenseGraphs.__call__
    monkeypatch.setattr(
        dense_graphs.DenseGraphs, "__call__", lambda *given: used.append(1) or call(*given)
    )
    eps = 2e-4 if dtype == torch.float32 else 1e-6
    for seed in range(4):
        torch.manual_seed(seed)
        logits = torch.randn(BATCH, LABELS, dtype=dtype, device="cuda")
        target = torch.rand(BATCH, LABELS, dtype=dtype, device="cuda").softmax(1)
        x, z = logits.clone().requires_grad_(), logits.clone().requires_grad_()
        found = loss_fn(x, target)
        found.sum().backward()
        with monkeypatch.context() as patch:
            evaluate_with(patch)
            expected = composed(z, target)
        expected.sum().backward()
        torch.testing.assert_close(found, expected, rtol=eps, atol=eps)
        torch.testing.assert_close(x.grad, z.grad, rtol=eps, atol=eps)
    assert len(used) == 3  # not the first time


@needs_cuda
def test_a_wrong_target_is_refused_by_a_replayed_graph():
    loss_fn = wl.WassersteinLoss(_metric().to(dtype=torch.float32)).cuda()
    logits, target = (x.float().cuda() for x in _batch())
    for _ in range(3):
        loss_fn(logits, target)
    target[2, 3] = -1.0
    with pytest.raises(ValueError, match="target must"):
        loss_fn(logits, target)


@needs_cuda
def test_many_labels_per_example_without_all():
    loss_fn = wl.WassersteinLoss(
        wl.ground.Embedding(torch.randn(300, 5)), reduction="none", kl_weight=0.1
    ).cuda()
    indices = torch.rand(BATCH, 300).argsort(1)[:, :100].cuda()
    target = wl.SparseTarget(indices, torch.full((BATCH, 100), 0.01, device="cuda"))
    logits = torch.randn(BATCH, 300, device="cuda")
    first = loss_fn(logits, target)
    torch.testing.assert_close(loss_fn(logits, target), first, rtol=1e-4, atol=1e-4)


@needs_cuda
def test_in_a_graph_of_the_user():
    loss_fn = wl.WassersteinLoss(_metric().to(dtype=torch.float32), reduction="none").cuda()
    logits, target = (x.float().cuda() for x in _batch())
    expected = loss_fn(logits, target)
    graph, stream = torch.cuda.CUDAGraph(), torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        loss_fn(logits, target)
    torch.cuda.current_stream().wait_stream(stream)
    with torch.cuda.graph(graph):
        found = loss_fn(logits, target)
    graph.replay()
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)
    assert int(loss_fn.unsolved) == 0
