"""The cost of the loss compared with `CrossEntropyLoss`, alone and in a training step."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from contenders import GRAPH, Attempt, Contender
from problems import Case, Work, random_target
from torch import Tensor

import wassloss as wl

FEATURES = 1280
BATCHES = 8  # used in turn, so that training does not converge on one of them
PASSES = 10  # per timed run, because a training loop does not wait for the device at each step
BASELINE = "CrossEntropyLoss"

Loss = Callable[[Tensor, object], Tensor]


def loss_alone(
    work: Work,
    iterations: int,
    *,
    make_loss: Callable[[Work], Loss],
    target_of: Callable[[Work], object],
    graph: bool = False,
) -> Attempt:
    """Forward and backward of the loss, ten times."""
    loss_fn, target = make_loss(work), target_of(work)
    logits = work.h.log().requires_grad_()

    def run() -> None:
        for _ in range(PASSES):
            logits.grad = None
            loss_fn(logits, target).backward()

    return Attempt(replayed(run) if graph else run, lambda _: None)


def step(
    work: Work,
    iterations: int,
    *,
    make_loss: Callable[[Work], Loss],
    sparse: bool,
    graph: bool = False,
) -> Attempt:
    """Ten steps of SGD, as in the paper, on a linear model with a few tags per target."""
    loss_fn, batches = make_loss(work), _batches(work, sparse)
    torch.manual_seed(0)
    model = torch.nn.Linear(FEATURES, work.case.labels).to(work.h.device, work.h.dtype)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4, momentum=0.7, weight_decay=0.001)

    def run() -> None:
        for i in range(PASSES):
            features, target = batches[i % BATCHES]
            optimizer.zero_grad()
            loss_fn(model(features), target).backward()
            optimizer.step()

    return Attempt(replayed(run) if graph else run, lambda _: None)


def replayed(run: Callable[[], object]) -> Callable[[], None]:
    """The same work replayed from a CUDA graph.

    This excludes Python's overhead for both losses.
    """
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            run()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    # JAX's threads in this process allocate memory, which would end the capture.
    with torch.cuda.graph(graph, capture_error_mode="thread_local"):
        run()
    return graph.replay


def _batches(work: Work, sparse: bool) -> list[tuple[Tensor, object]]:
    case, generator = work.case, torch.Generator().manual_seed(1)
    made: list[tuple[Tensor, object]] = []
    for _ in range(BATCHES):
        features = torch.randn(case.batch, FEATURES, generator=generator).to(work.h)
        target = random_target(case.batch, case.labels, case.support, case.torch_dtype, generator)
        target = wl.SparseTarget(target.indices.to(work.h.device), target.weights.to(work.h.device))
        dense = torch.zeros_like(work.h).scatter(1, target.indices, target.weights)
        made.append((features, target if sparse else dense))
    return made


def _class_ids(work: Work) -> Tensor:
    return work.target.indices[:, 0].contiguous()


def _tags(work: Work) -> wl.SparseTarget:
    return work.target


def _dense_tags(work: Work) -> Tensor:
    return work.dense_target


def _cross_entropy(work: Work) -> Loss:
    return torch.nn.CrossEntropyLoss()


def _cross_entropy_and_product(work: Work) -> Loss:
    """Cross-entropy plus the matrix product that a target's cost columns take."""
    vectors = torch.randn(work.case.labels, work.case.dimensions).to(work.h)
    chosen, loss_fn = vectors[work.target.indices.reshape(-1)], torch.nn.CrossEntropyLoss()

    def loss(logits: Tensor, target: object) -> Tensor:
        torch.matmul(chosen, vectors.T)
        return loss_fn(logits, target)

    return loss


def _wasserstein(work: Work, kl_weight: float) -> Loss:
    loss: Loss = wl.WassersteinLoss(
        work.metric,
        epsilon=work.case.epsilon,
        kl_weight=kl_weight,
        tol=work.case.tol,
        normalize_cost=False,
    )
    return loss


WASSERSTEIN, WITH_KL = partial(_wasserstein, kl_weight=0.0), partial(_wasserstein, kl_weight=0.1)


Contenders = tuple[Contender, ...]


def _compiles(case: Case) -> bool:
    return True


def _each_way(*named: tuple[str, Callable[..., Attempt]]) -> dict[str, Contenders]:
    """Contenders launched from Python and, on a GPU, replayed from a CUDA graph."""
    plain = tuple(
        Contender(name, prepare, most_iterations=1, compiles=_compiles) for name, prepare in named
    )
    graphs = tuple(
        Contender(name, partial(prepare, graph=True), most_iterations=1, device="cuda")
        for name, prepare in named
    )
    return {"": plain, f", {GRAPH}": graphs}


ONE_HOT = _each_way(
    (BASELINE, partial(loss_alone, make_loss=_cross_entropy, target_of=_class_ids)),
    ("WassersteinLoss", partial(loss_alone, make_loss=WASSERSTEIN, target_of=_class_ids)),
    ("WassersteinLoss + 0.1 KL", partial(loss_alone, make_loss=WITH_KL, target_of=_class_ids)),
)
TAGS = _each_way(
    (BASELINE, partial(loss_alone, make_loss=_cross_entropy, target_of=_dense_tags)),
    ("WassersteinLoss", partial(loss_alone, make_loss=WASSERSTEIN, target_of=_tags)),
    ("WassersteinLoss + 0.1 KL", partial(loss_alone, make_loss=WITH_KL, target_of=_tags)),
)
MANY_LABELS = tuple(
    Contender(name, partial(loss_alone, make_loss=loss, target_of=target), most_iterations=1)
    for name, loss, target in (
        (f"{BASELINE} and a product", _cross_entropy_and_product, _dense_tags),
        (BASELINE, _cross_entropy, _dense_tags),
        ("WassersteinLoss + 0.1 KL", WITH_KL, _tags),
    )
)
STEP = _each_way(
    (BASELINE, partial(step, make_loss=_cross_entropy, sparse=False)),
    ("WassersteinLoss", partial(step, make_loss=WASSERSTEIN, sparse=True)),
    ("WassersteinLoss + 0.1 KL", partial(step, make_loss=WITH_KL, sparse=True)),
)
