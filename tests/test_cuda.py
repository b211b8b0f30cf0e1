"""The same numbers on a GPU as on the CPU."""

import math

import pytest
import torch

import wassloss as wl

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")

LABELS, BATCH = 40, 16


def metrics() -> list[wl.ground.GroundMetric]:
    parents = [-1, *[(node - 1) // 3 for node in range(1, 60)]]
    return [
        wl.ground.Ordinal(LABELS),
        wl.ground.Ordinal(LABELS, power=2, scale="max"),
        wl.ground.Embedding(torch.randn(LABELS, 8)),
        wl.ground.Discrete(LABELS),
        wl.ground.Tree(parents, nodes=list(range(20, 60))),
    ]


def target_of(kind, dtype):
    """Weights of mass 1 over all labels or a few, or class ids."""
    target = torch.rand(BATCH, LABELS, dtype=dtype).softmax(1)
    if kind == "few":
        target = target * (torch.rand(BATCH, LABELS) < 0.1) + torch.eye(LABELS, dtype=dtype)[:BATCH]
        target = target / target.sum(1, keepdim=True)
    return torch.randint(LABELS, (BATCH,)) if kind == "class ids" else target


def assert_as_on_the_cpu(loss_fn, x, target, **close):
    expected = loss_fn(x, target)
    (gradient,) = torch.autograd.grad(expected, x)
    on_gpu = x.detach().cuda().requires_grad_()
    value = loss_fn.cuda()(on_gpu, target.cuda())
    value.backward()
    torch.testing.assert_close(value.cpu(), expected, **close)
    torch.testing.assert_close(on_gpu.grad.cpu(), gradient, **close)


@pytest.mark.parametrize("kind", ["class ids", "dense", "few"])
@pytest.mark.parametrize(
    "keywords",
    [
        {"epsilon": 0},
        {"epsilon": 0.1},
        {"epsilon": 0.02, "regularizer": "product"},
        {"epsilon": 0.1, "debiased": True, "kl_weight": 0.1},
        {"epsilon": 0.05, "scaling_iterations": 10},
        {"epsilon": 0.1, "kl_weight": 0.3, "softening": 0.2},
        {"epsilon": 0.1, "kl_weight": 0.3, "softening": 0.2, "transport_weight": 0.0},
    ],
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_loss_and_gradient_are_those_of_the_cpu(dtype, keywords, kind):
    target = target_of(kind, dtype)
    for metric in metrics():
        if not keywords["epsilon"] and isinstance(metric, wl.ground.Embedding):
            pytest.importorskip("ot")
        logits = torch.randn(BATCH, LABELS, dtype=dtype, requires_grad=True)
        close = (
            {"rtol": 1e-3, "atol": 1e-4} if dtype == torch.float32 else {"rtol": 1e-6, "atol": 1e-7}
        )
        assert_as_on_the_cpu(
            wl.WassersteinLoss(metric, **{"kl_weight": 0.0, **keywords}, normalize_cost=False),
            logits,
            target,
            **close,
        )


@pytest.mark.parametrize("kind", ["class ids", "dense", "few"])
@pytest.mark.parametrize("regularizer", ["plan", "product"])
@pytest.mark.parametrize("gamma", [(1.0, 2.0), (math.inf, 1.0), (0.5, math.inf)])
def test_relaxed_loss_and_gradient_are_those_of_the_cpu(gamma, regularizer, kind):
    log_h = torch.randn(BATCH, LABELS, dtype=torch.float64, requires_grad=True)
    target = target_of(kind, torch.float64)
    if kind != "class ids":
        target = 3 * target
    for metric in metrics():
        loss_fn = wl.RelaxedWassersteinLoss(
            metric,
            epsilon=0.5,
            gamma=gamma,
            regularizer=regularizer,
            kl_weight=0.1,
            normalize_cost=False,
        )
        assert_as_on_the_cpu(loss_fn, log_h, target, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("kind", ["class ids", "dense", "few"])
@pytest.mark.parametrize("regularizer", ["plan", "product"])
@pytest.mark.parametrize("epsilon", [0.0, 0.3])
def test_nearest_loss_and_gradient_are_those_of_the_cpu(epsilon, regularizer, kind):
    logits = torch.randn(BATCH, LABELS, dtype=torch.float64, requires_grad=True)
    for metric in metrics():
        loss_fn = wl.NearestWassersteinLoss(
            metric, epsilon=epsilon, regularizer=regularizer, kl_weight=0.1, normalize_cost=False
        )
        assert_as_on_the_cpu(loss_fn, logits, target_of(kind, torch.float64), rtol=1e-6, atol=1e-9)


def test_the_transforms_of_torch_func():
    metric, logits = wl.ground.Ordinal(LABELS), torch.randn(BATCH, LABELS)
    target = torch.rand(BATCH, LABELS).softmax(1)
    found = torch.func.grad(lambda x: wl.WassersteinLoss(metric).cuda()(x, target.cuda()))(
        logits.cuda()
    )
    expected = torch.func.grad(lambda x: wl.WassersteinLoss(metric)(x, target))(logits)
    torch.testing.assert_close(found.cpu(), expected, rtol=1e-3, atol=1e-6)


def test_autocast_solves_in_single_precision():
    loss_fn = wl.WassersteinLoss(
        wl.ground.Ordinal(LABELS), epsilon=0.01, kl_weight=0.0, normalize_cost=False
    ).cuda()
    model = torch.nn.Linear(8, LABELS).cuda()
    target = torch.rand(BATCH, LABELS).softmax(1).cuda()
    with torch.autocast("cuda", dtype=torch.bfloat16):
        loss = loss_fn(model(torch.randn(BATCH, 8).cuda()), target)
    loss.backward()
    assert loss.dtype == torch.float32
    assert model.weight.grad.isfinite().all()


def test_metric_left_on_the_cpu_is_named():
    with pytest.raises(ValueError, match="device"):
        wl.wasserstein(
            torch.ones(1, 3).cuda() / 3, torch.zeros(1).long().cuda(), wl.ground.Ordinal(3)
        )


@pytest.mark.parametrize("metric", metrics(), ids=repr)
def test_scores_are_those_of_the_cpu(metric):
    p = torch.rand(BATCH, LABELS).softmax(1)
    target = torch.rand(BATCH, LABELS).topk(3).indices
    tags = torch.zeros(BATCH, LABELS).scatter_(1, target, 1.0)
    for score in (
        lambda x, y, m: wl.scores.top_k_cost(x, y, m, k=range(1, 6)),
        wl.scores.distance_at_k,
        wl.scores.mean_wasserstein,
        lambda x, y, m: wl.scores.ranking_auc(x, y),
        lambda x, y, m: wl.scores.recall_at_k(x, y, k=[1, 3]),
        lambda x, y, m: wl.decisions.top_labels(x, 4),
    ):
        here, there = score(p, tags, metric), score(p.cuda(), tags.cuda(), metric.to("cuda"))
        torch.testing.assert_close(there.cpu(), here, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("module", [wl.WassersteinLoss, wl.RelaxedWassersteinLoss])
def test_a_graph_counts_the_examples_it_did_not_solve(module):
    """Nothing can warn while a graph is replayed, so the count must be complete."""
    metric = wl.ground.Embedding(torch.randn(LABELS, 8)).to("cuda")
    loss_fn = module(metric, epsilon=0.02, tol=1e-7, max_iterations=1, reduction="none").cuda()
    x = torch.randn(BATCH, LABELS, device="cuda", requires_grad=True)
    y = torch.zeros(BATCH, LABELS, device="cuda")
    y[:, :4] = torch.rand(BATCH, 4, device="cuda").softmax(1)
    target = wl.SparseTarget(torch.arange(4, device="cuda").expand(BATCH, 4), y[:, :4])

    def step():
        loss = loss_fn(x, target)
        (gradient,) = torch.autograd.grad(loss.sum(), x)
        return loss.detach(), gradient

    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream), pytest.warns(wl.ConvergenceWarning):
        step()
    torch.cuda.current_stream().wait_stream(stream)
    assert loss_fn.unsolved == 0
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        loss, gradient = step()
    for replays in (1, 2):
        graph.replay()
        assert loss_fn.unsolved == replays * BATCH
    assert loss.isfinite().all()  # the best value found
    assert gradient.isfinite().all()


def senseless():
    """Losses with a valid target and a target whose second example is invalid."""
    line = wl.ground.Ordinal(LABELS, scale="median").to("cuda")
    dense = torch.rand(BATCH, LABELS, device="cuda").softmax(1)
    ids = torch.arange(BATCH, device="cuda")
    twice, astray = dense.clone(), ids.clone()
    twice[1] *= 2
    astray[1] = LABELS
    relaxed = wl.RelaxedWassersteinLoss(
        line, scaling_iterations=5, reduction="none", normalize_cost=False
    )
    negative = dense.clone()
    negative[1, 3] = -1
    return {
        "mass 2": (
            wl.WassersteinLoss(
                line, scaling_iterations=5, reduction="none", kl_weight=0.0, normalize_cost=False
            ),
            dense,
            twice,
        ),
        "exact, mass 2": (
            wl.WassersteinLoss(
                line, epsilon=0, reduction="none", kl_weight=0.0, normalize_cost=False
            ),
            dense,
            twice,
        ),
        "id too large": (
            wl.WassersteinLoss(
                line, scaling_iterations=5, reduction="none", kl_weight=0.0, normalize_cost=False
            ),
            ids,
            astray,
        ),
        "negative": (relaxed, dense, negative),
    }


@pytest.mark.parametrize("name", list(senseless()) if torch.cuda.is_available() else [])
def test_a_graph_marks_just_the_examples_that_make_no_sense(name):
    loss_fn, good, bad = senseless()[name]
    loss_fn, target = loss_fn.cuda(), good.clone()
    logits = torch.randn(BATCH, LABELS, device="cuda")
    expected = loss_fn(logits, good)  # also compiles kernels at first use
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        found = loss_fn(logits, target)
    for given in (good, bad, good):
        target.copy_(given)
        graph.replay()
        marked = found.isnan().nonzero().flatten().tolist()
        assert marked == ([1] if given is bad else [])
        torch.testing.assert_close(found[2:], expected[2:])


@pytest.mark.parametrize("name", list(senseless()) if torch.cuda.is_available() else [])
@pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")
def test_a_compiled_loss_refuses_what_makes_no_sense(name):
    loss_fn, good, bad = senseless()[name]
    loss_fn = loss_fn.cuda()
    logits = torch.randn(BATCH, LABELS, device="cuda", requires_grad=True)
    compiled = torch.compile(loss_fn, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(logits, good), loss_fn(logits, good))
    with pytest.raises(ValueError, match=r"target must .* example 1"):
        compiled(logits, bad)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_head_has_the_loss_of_its_logits(dtype):
    target = torch.randint(LABELS, (BATCH,), device="cuda")
    target[3] = -100
    for metric in [*metrics(), wl.ground.Subset(wl.ground.Ordinal(3), [5, 6, 9], LABELS)]:
        given = [torch.randn(n, 8).to("cuda", dtype).requires_grad_() for n in (BATCH, LABELS)]
        loss_fn, linear = wl.WassersteinLoss(metric).cuda(), wl.LinearWassersteinLoss(metric).cuda()
        value = linear(*given, target)
        gradients = torch.autograd.grad(value, given)
        wide = [x.detach().double().requires_grad_() for x in given]
        expected = loss_fn(wide[0] @ wide[1].T, target)
        close = 1e-4 if dtype == torch.float32 else 3e-2
        torch.testing.assert_close(value.double(), expected, rtol=close, atol=close)
        for one, other in zip(gradients, torch.autograd.grad(expected, wide), strict=True):
            assert (one - other).norm() <= close * other.norm()


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # the compiler's own
@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf")
def test_a_head_compiles_and_is_captured():
    loss_fn = wl.LinearWassersteinLoss(wl.ground.Ordinal(LABELS)).cuda()
    given = [torch.randn(n, 8, device="cuda", requires_grad=True) for n in (BATCH, LABELS)]
    target = torch.randint(LABELS, (BATCH,), device="cuda")

    def step(loss):
        inputs = [x.detach().requires_grad_() for x in given]
        value = loss(*inputs, target)
        return value.detach(), *torch.autograd.grad(value, inputs)

    expected = step(loss_fn)
    torch.testing.assert_close(step(torch.compile(loss_fn)), expected)
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        step(loss_fn)
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        found = step(loss_fn)
    graph.replay()
    torch.testing.assert_close(found, expected)
    target[1] = LABELS
    graph.replay()
    assert found[0].isnan()
