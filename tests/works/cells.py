"""One call of a loss, in every way that it can be made, and its expected answer.

A cell is a loss, a metric, a form of target, a dtype, a memory layout and a mode. Its answer must
equal that of the same call on contiguous tensors in double precision and eager mode, to the
precision of the dtype.
"""

from __future__ import annotations

import itertools
import random
import traceback
import warnings
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import torch
import torch.autograd.forward_ad as forward_ad
from torch import Tensor

import wassloss as wl
from wassloss.losses import baselines

K, BATCH, FEATURES = 6, 4, 8
MAP = (2, 2, 1)  # the same examples as pixels: two images of two by one
F64, BF16 = torch.float64, torch.bfloat16
DTYPES = {"float64": F64, "float32": torch.float32, "bfloat16": BF16, "float16": torch.float16}
# Relative to the largest entry: the solver's tolerance or the rounding of the output.
PRECISION = {"float64": 1e-5, "float32": 2e-4, "bfloat16": 1.6e-2, "float16": 2e-3}


class Cell(NamedTuple):
    loss: str
    metric: str
    target: str
    dtype: str
    layout: str
    mode: str

    def __str__(self) -> str:
        return " / ".join(self)


# Not exact in bfloat16, because lists become tensors of the default dtype.
POSITIONS = [0.0, 1.01, 2.13, 3.37, 5.71, 9.03]


def _points() -> Tensor:
    return torch.randn(K, 3, generator=torch.Generator().manual_seed(1), dtype=F64)


def _distances() -> Tensor:
    return torch.cdist(_points(), _points())


METRICS: dict[str, Callable[[], Any]] = {
    "line": lambda: wl.ground.Ordinal(POSITIONS),
    "tree": lambda: wl.ground.Tree(
        [-1, 0, 0, 1, 1, 1, 2, 2, 2], [*POSITIONS, 1.7, 0.3, 2.9], nodes=[3, 4, 5, 6, 7, 8]
    ),
    "grid": lambda: wl.ground.Grid((2, 3), spacing=[1.01, 0.57]),
    "discrete": lambda: wl.ground.Discrete(K),
    "embedding": lambda: wl.ground.Embedding(_points(), normalize=False),
    "subset": lambda: wl.ground.Subset(wl.ground.Ordinal([0.0, 1.01, 4.03]), [5, 0, 2], K, 2.57),
    "matrix": _distances,
    "asymmetric cost": lambda: wl.ground.Cost(
        _distances() * (1 + 0.1 * torch.arange(K, dtype=F64))
    ),
    "learned": lambda: wl.ground.Matrix(_distances().requires_grad_()),
}


class NumberTokens(torch.nn.Module):
    """`NumberTokenLoss` with K tokens, all but the first of them numbers."""

    def __init__(self, **keywords: Any) -> None:
        super().__init__()
        self.loss = wl.NumberTokenLoss({"a": 0, **{str(i): i for i in range(1, K)}}, **keywords)

    def forward(self, logits: Tensor, target: Any) -> Tensor:
        result: Tensor = self.loss(logits, target)
        return result


class Head(torch.nn.Module):
    """`LinearWassersteinLoss` on hidden states, with its own layer."""

    weight: Tensor

    def __init__(self, metric: Any, **keywords: Any) -> None:
        super().__init__()
        self.loss = wl.LinearWassersteinLoss(metric, **keywords)
        generator = torch.Generator().manual_seed(2)
        weight = torch.randn(K, FEATURES, generator=generator, dtype=F64).to(BF16)
        self.register_buffer("weight", weight)

    def forward(self, hidden: Tensor, target: Any) -> Tensor:
        result: Tensor = self.loss(hidden, self.weight.to(hidden.dtype), target)
        return result


@dataclass(frozen=True)
class Loss:
    """How to create a loss, and its input: logits, log masses, masses or hidden states."""

    make: Callable[..., Callable[[Tensor, Any], Tensor]]
    takes: str = "logits"
    targets: tuple[str, ...] = ("class ids", "sparse", "dense", "coo")
    maps: bool = True
    metrics: tuple[str, ...] = tuple(METRICS)


def module(kind: Any, **keywords: Any) -> Callable[..., Any]:
    return lambda metric, **more: kind(metric, reduction="none", **keywords, **more)


def function(**keywords: Any) -> Callable[..., Any]:
    return lambda metric: lambda h, y: wl.wasserstein(h, y, metric, **keywords)


WITH_SETS = ("class ids", "sparse", "dense", "coo", "sets")
IDS, FIXED = ("class ids",), tuple(name for name in METRICS if name != "learned")
LOSSES: dict[str, Loss] = {
    "WassersteinLoss": Loss(module(wl.WassersteinLoss), targets=WITH_SETS),
    "WassersteinLoss, product": Loss(
        module(wl.WassersteinLoss, regularizer="product"), targets=WITH_SETS
    ),
    "WassersteinLoss, exact": Loss(module(wl.WassersteinLoss, epsilon=0.0), targets=WITH_SETS),
    "WassersteinLoss, debiased": Loss(module(wl.WassersteinLoss, debiased=True)),
    "WassersteinLoss, softened": Loss(module(wl.WassersteinLoss, softening=0.5), targets=WITH_SETS),
    "WassersteinLoss, KL alone": Loss(
        module(wl.WassersteinLoss, transport_weight=0.0), targets=WITH_SETS
    ),
    "WassersteinLoss.as_in_paper": Loss(
        lambda metric: wl.WassersteinLoss.as_in_paper(metric, reduction="none", epsilon=0.2)
    ),
    "NearestWassersteinLoss": Loss(module(wl.NearestWassersteinLoss)),
    "RelaxedWassersteinLoss": Loss(module(wl.RelaxedWassersteinLoss), takes="log masses"),
    "wasserstein": Loss(function(epsilon=1.0), takes="masses", maps=False),
    "wasserstein, exact": Loss(function(), takes="masses", maps=False),
    "wasserstein, relaxed": Loss(function(epsilon=1.0, gamma=1.0), takes="masses", maps=False),
    "LinearWassersteinLoss": Loss(
        module(Head), takes="hidden states", targets=IDS, maps=False, metrics=FIXED
    ),
    "NumberTokenLoss": Loss(
        lambda _: NumberTokens(reduction="none"), targets=IDS, metrics=("line",)
    ),
    "baselines.KLLoss": Loss(
        lambda _: baselines.KLLoss(K, reduction="none"), maps=False, metrics=("line",)
    ),
    "baselines.ExpectedCostLoss": Loss(
        module(baselines.ExpectedCostLoss), maps=False, metrics=FIXED
    ),
    "baselines.SoftLabelLoss": Loss(module(baselines.SoftLabelLoss), metrics=FIXED),
    "baselines.QuadraticFormLoss": Loss(
        module(baselines.QuadraticFormLoss), maps=False, metrics=FIXED
    ),
    "baselines.SquaredEMDLoss": Loss(
        lambda _: baselines.SquaredEMDLoss(K, reduction="none"), maps=False, metrics=("line",)
    ),
    "baselines.CumulativeJensenShannonLoss": Loss(
        lambda _: baselines.CumulativeJensenShannonLoss(K, reduction="none"),
        maps=False,
        metrics=("line",),
    ),
}


class Given(NamedTuple):
    x: Tensor  # (batch, labels) or (batch, labels, …); (batch, features)
    target: Any
    cotangent: Tensor  # the shape of the loss


def shares(weights: Tensor) -> Tensor:
    """Multiples of 1/256, exact in every dtype, that sum to 1 and are near given weights."""
    parts = (256 * weights / weights.sum(1, keepdim=True)).ceil()
    rest = 256 - parts.sum(1)
    parts[torch.arange(len(parts)), weights.argmax(1)] += rest
    return parts / 256


def laid_out(x: Tensor, layout: str) -> Tensor:
    """The same numbers in another memory layout."""
    x = x.contiguous()
    if layout == "transposed" and x.dim() > 1:
        return x.transpose(0, 1).contiguous().transpose(0, 1)
    if layout == "strided":
        wide = x.new_zeros([2 * size for size in x.shape])
        view = wide[(slice(None, None, 2),) * x.dim()]
        return view.copy_(x)
    if layout == "expanded":
        return x[:1].expand_as(x)
    if layout == "offset":
        return torch.cat([x.new_zeros(3), x.flatten()])[3:].view(x.shape)
    if layout == "channels last" and x.dim() == 4:
        return x.contiguous(memory_format=torch.channels_last)
    return x


LAYOUTS = ("contiguous", "transposed", "strided", "expanded", "offset", "channels last")


def given(loss: Loss, cell: Cell) -> tuple[Given, Given]:
    """The inputs of a cell, and those of the call that it is compared with."""
    generator = torch.Generator().manual_seed(0)
    dtype = DTYPES[cell.dtype]
    size = FEATURES if loss.takes == "hidden states" else K
    x = torch.randn(BATCH, size, generator=generator, dtype=F64)
    weights = torch.rand(BATCH, K, generator=generator, dtype=F64)
    weights[:, 1] = 0.0
    cotangent = 0.5 + torch.rand(BATCH, generator=generator, dtype=F64)
    ids = torch.tensor([2, 0, 5, 3])
    indices = torch.stack([ids, (ids + 1) % K, (ids + 3) % K], 1)
    few = weights.gather(1, indices) + 0.1
    if cell.layout == "expanded":
        x, weights, cotangent, ids, indices, few = (
            t[:1].expand_as(t) for t in (x, weights, cotangent, ids, indices, few)
        )
    if loss.takes == "log masses":
        x = x.log_softmax(1) + 0.3
    elif loss.takes == "masses":
        x = shares(x.softmax(1))

    def placed(t: Tensor, channels: bool, layout: str) -> Tensor:
        if cell.layout == "channels last":
            t = t.reshape(*MAP, *t.shape[1:])
            t = t.movedim(-1, 1) if channels else t
        return laid_out(t, layout)

    def build(layout: str, to: torch.dtype) -> Given:
        target: Any
        if cell.target == "class ids":
            target = placed(ids, False, layout)
        elif cell.target == "sparse":
            target = wl.SparseTarget(
                placed(indices, False, layout), placed(shares(few).to(dtype).to(to), False, layout)
            )
        elif cell.target == "sets":  # of one label to three
            start = 3 * torch.arange(BATCH).expand_as(ids)
            first, last = (placed(end, False, layout) for end in (start, start + ids % 3))
            target = wl.SetTarget.from_ranges(first, last, indices.flatten())
        else:
            y = shares(weights).to(dtype).to(to)
            target = y.to_sparse() if cell.target == "coo" else placed(y, True, layout)
        return Given(placed(x.to(dtype).to(to), True, layout), target, placed(cotangent, False, ""))

    return build(cell.layout, dtype), build("contiguous", F64)


class Answer(NamedTuple):
    value: Tensor  # (batch,)
    gradient: Tensor | None  # (batch, labels), gradient of the input
    metric: Tensor | None = None  # (labels, labels), gradient of a learned metric


def rows(t: Tensor) -> Tensor:
    """Move examples to the first dimension, from any layout of a map."""
    return t.movedim(1, -1).reshape(BATCH, -1) if t.dim() == 4 else t


def slopes(values: Tensor, given: Given, x: Tensor, learned: Tensor | None) -> Answer:
    inputs = [x] if learned is None else [x, learned]
    total = (values.double() * given.cotangent).sum()
    # A loss without transport does not use its metric.
    found = torch.autograd.grad(total, inputs, allow_unused=True, materialize_grads=True)
    of_metric = None if learned is None else found[1]
    return Answer(values.detach().flatten(), rows(found[0]), of_metric)


def eager(make: Callable[[], Any], given: Given) -> Answer:
    loss_fn, learned = make()
    x = given.x.detach().requires_grad_()
    return slopes(loss_fn(x, given.target), given, x, learned)


@contextmanager
def default_dtype(dtype: torch.dtype) -> Iterator[None]:
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


def within(context: Callable[[], Any]) -> Callable[..., Answer]:
    def call(make: Callable[[], Any], given: Given) -> Answer:
        with context():
            return eager(make, given)

    return call


def without_gradient(context: Callable[[], Any]) -> Callable[..., Answer]:
    def call(make: Callable[[], Any], given: Given) -> Answer:
        with context():
            return Answer(make()[0](given.x, given.target).flatten(), None)

    return call


def compiled(make: Callable[[], Any], given: Given) -> Answer:
    loss_fn, learned = make()
    torch.compiler.reset()
    # Solvers run outside the graph. The compiler's own warnings are hidden unless they are errors.
    traced = torch.compile(lambda x, y: loss_fn(x, y), backend="aot_eager")
    x = given.x.detach().requires_grad_()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return slopes(traced(x, given.target), given, x, learned)


def func_grad(make: Callable[[], Any], given: Given) -> Answer:
    loss_fn, _ = make()

    def total(x: Tensor) -> tuple[Tensor, Tensor]:
        values = loss_fn(x, given.target)
        return (values.double() * given.cotangent).sum(), values

    gradient, values = torch.func.grad(total, has_aux=True)(given.x)
    return Answer(values.flatten(), rows(gradient))


def forward_mode(make: Callable[[], Any], given: Given) -> Answer:
    """The derivative in each direction, for inputs that need no gradient."""
    loss_fn, _ = make()
    columns = []
    x = given.x.detach()
    for unit in torch.eye(x.shape[1], dtype=x.dtype):
        with warnings.catch_warnings(), forward_ad.dual_level():
            warnings.filterwarnings("ignore", ".torch.jit.script", DeprecationWarning)
            tangent = unit.reshape(-1, *[1] * (x.dim() - 2)).expand_as(x)
            found = loss_fn(forward_ad.make_dual(x, tangent.clone()), given.target)
            value, derivative = forward_ad.unpack_dual(found)
            if derivative is None:
                raise AssertionError("the derivative was lost: the tangent is None")
            columns.append((derivative.double() * given.cotangent).flatten())
    return Answer(value.flatten(), torch.stack(columns, 1))


def vmapped(make: Callable[[], Any], given: Given) -> Answer:
    """Each example as a separate batch."""
    loss_fn, _ = make()
    if isinstance(given.target, wl.SparseTarget):
        indices, weights = given.target.indices, given.target.weights
        values = torch.vmap(lambda x, i, w: loss_fn(x[None], wl.SparseTarget(i[None], w[None]))[0])(
            given.x, indices, weights
        )
    else:
        values = torch.vmap(lambda x, y: loss_fn(x[None], y[None])[0])(given.x, given.target)
    return Answer(values.flatten(), None)


def on_meta(make: Callable[[], Any], given: Given) -> Answer:
    """Shapes and dtypes only."""
    loss_fn, _ = make()
    if isinstance(loss_fn, torch.nn.Module):
        loss_fn = loss_fn.to("meta")
    target = given.target.to("meta")
    return Answer(loss_fn(given.x.to("meta"), target).flatten(), None)


def double_backward(make: Callable[[], Any], given: Given) -> Answer:
    loss_fn, _ = make()
    x = given.x.detach().requires_grad_()
    values = loss_fn(x, given.target)
    total = (values.double() * given.cotangent).sum()
    (gradient,) = torch.autograd.grad(total, x, create_graph=True)
    torch.autograd.grad(gradient.sum(), x)
    return Answer(values.detach().flatten(), rows(gradient.detach()))


def cuda_graph(make: Callable[[], Any], given: Given) -> Answer:
    loss_fn, _ = make()
    x = given.x.detach().requires_grad_()
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for _ in range(3):
            (loss_fn(x, given.target).double() * given.cotangent).sum().backward()
    torch.cuda.synchronize()
    x.grad, graph = None, torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        values = loss_fn(x, given.target)
        (values.double() * given.cotangent).sum().backward()
    graph.replay()
    torch.cuda.synchronize()
    assert x.grad is not None
    return Answer(values.detach().flatten(), rows(x.grad))


MODES: dict[str, Callable[[Callable[[], Any], Given], Answer]] = {
    "eager": within(nullcontext),
    "autocast": within(lambda: torch.autocast("cpu", BF16)),
    "default dtype float64": within(lambda: default_dtype(F64)),
    "default dtype bfloat16": within(lambda: default_dtype(BF16)),
    "no_grad": without_gradient(torch.no_grad),
    "inference_mode": without_gradient(torch.inference_mode),
    "torch.compile": compiled,
    "torch.func.grad": func_grad,
    "forward mode": forward_mode,
    "torch.vmap": vmapped,
    "double backward": double_backward,
    "meta device": on_meta,
}


def maker(cell: Cell) -> Callable[..., tuple[Any, Tensor | None]]:
    """Return a function that creates the loss of a cell and its learned distances plus a step."""

    def make(step: Tensor | None = None, **more: Any) -> tuple[Any, Tensor | None]:
        if cell.metric != "learned":
            return LOSSES[cell.loss].make(METRICS[cell.metric]()), None
        learned = (_distances() if step is None else _distances() + step).requires_grad_()
        metric = wl.ground.Matrix(learned)
        return LOSSES[cell.loss].make(metric, **more), learned

    return make


def call(cell: Cell) -> Answer:
    return MODES[cell.mode](maker(cell), given(LOSSES[cell.loss], cell)[0])


_EXPECTED: dict[tuple[str, ...], Answer] = {}


def expected(cell: Cell) -> Answer:
    shape = cell.layout if cell.layout in ("expanded", "channels last") else "contiguous"
    key = (*cell[:4], shape)
    if key not in _EXPECTED:
        _EXPECTED[key] = eager(maker(cell), given(LOSSES[cell.loss], cell)[1])
    return _EXPECTED[key]


SOURCES = Path(wl.__file__).parent


def outcome(cell: Cell) -> str:
    """ "right", "refused: …" if one of our errors names the problem, or "wrong: …"."""
    try:
        wrong = difference(cell, call(cell))
    except (ValueError, TypeError, RuntimeError, AssertionError) as error:
        raised_in = Path(traceback.extract_tb(error.__traceback__)[-1].filename)
        ours = SOURCES in raised_in.parents
        # torch's C++ errors seem to be raised by the calling Python code.
        words = str(error).startswith("wassloss") or " must not be " in str(error)
        named = isinstance(error, (ValueError, TypeError)) or words
        kind = "refused" if ours and named else "wrong"
        return f"{kind}: {type(error).__name__}: {error}"
    return f"wrong: {wrong}" if wrong else "right"


def difference(cell: Cell, found: Answer) -> str:
    """Describe what is wrong with an answer; empty if it is right."""
    right, precision = expected(cell), PRECISION[cell.dtype]
    if cell.loss == "LinearWassersteinLoss" and cell.mode == "autocast":
        precision = PRECISION["bfloat16"]  # that of the layer
    if cell.mode == "meta device":
        same = found.value.is_meta and found.value.shape == right.value.shape
        return "" if same else f"shape {tuple(found.value.shape)}"
    for name, one, other in zip(Answer._fields, found, right, strict=True):
        if one is None or other is None:
            continue
        if name != "value" and cell.loss in WITH_KINKS:
            if above := beyond_tangents(cell, name, one.double(), precision):
                return f"{name} {above}"
            continue
        off = (one.double() - other).abs().max() / other.abs().max().clamp(min=1e-2)
        if not off <= precision:
            return f"{name} off by {off:.1e} of {float(other.abs().max()):.2g}"
    return ""


# Masses that are exact in every dtype have equal partial sums, for which gradients of exact
# transport are not unique: the result depends on the last bit of a cost.
WITH_KINKS = ("wasserstein, exact",)


def beyond_tangents(cell: Cell, name: str, slope: Tensor, precision: float) -> str:
    """Where a tangent crosses a value that is convex in the input and concave in the metric."""
    make, read = maker(cell), given(LOSSES[cell.loss], cell)[1]
    generator = torch.Generator().manual_seed(4)

    def values(x: Tensor, step: Tensor | None = None) -> Tensor:
        with torch.no_grad():
            found: Tensor = make(step)[0](x, read.target)
        return found * read.cotangent

    here = values(read.x)
    for _ in range(8):
        if name == "metric":
            step = 0.1 * torch.rand(K, K, generator=generator, dtype=F64)
            step = (step + step.T).fill_diagonal_(0.0)
            rise = values(read.x, step).sum() - here.sum()
            crossed = rise - (slope * step).sum()
        else:
            to = torch.rand(read.x.shape, generator=generator, dtype=F64)
            to = read.x + 0.1 * (to / to.sum(1, keepdim=True) - read.x)
            crossed = ((slope * (to - read.x)).sum(1) - (values(to) - here)).max()
        if not crossed <= precision * slope.abs().max():
            return f"crosses by {float(crossed):.1e}"
    return ""


# torch itself has no sparse tensors in these modes.
NOT_SPARSE = ("torch.compile", "torch.vmap")


def cells(losses: Iterable[str] = LOSSES, modes: Iterable[str] = MODES) -> Iterator[Cell]:
    """Yield all cells, or those of some losses and modes."""
    modes = list(modes)
    for name in losses:
        loss = LOSSES[name]
        for metric, target, dtype, layout, mode in itertools.product(
            loss.metrics, loss.targets, DTYPES, LAYOUTS, modes
        ):
            if layout == "channels last" and (not loss.maps or target == "coo"):
                continue
            if target == "coo" and mode in NOT_SPARSE:
                continue
            if target == "sets" and mode == "torch.vmap":  # which batches tensors alone
                continue
            if layout == "expanded" and mode == "forward mode":  # torch cannot write tangents
                continue
            yield Cell(name, metric, target, dtype, layout, mode)


COMPILED = 30  # cells per loss, because each takes seconds


def walk(loss: str, mode: str, number: int | None = None) -> list[Cell]:
    """All cells of a loss in a mode, or a sample of this size, the same in every run."""
    found = list(cells([loss], [mode]))
    number = COMPILED if number is None and mode == "torch.compile" else number
    if number is None or number >= len(found):
        return found
    return random.Random(zlib.crc32(f"{loss} {mode}".encode())).sample(found, number)
