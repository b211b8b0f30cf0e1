"""The loss of a set of labels: every set of a few labels, against a formula of its own."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
import torch
from scipy.special import log_softmax, logsumexp, softmax
from torch import Tensor

import wassloss as wl
from tests.evaluators import evaluate_with, without_native
from tests.works.cells import laid_out
from wassloss.ground import (
    Cost,
    Discrete,
    Embedding,
    Grid,
    GroundMetric,
    Ordinal,
    Tree,
)

K = 5
TREE = ([-1, 0, 0, 1, 1, 1, 2, 2], [0.0, 1.0, 0.5, 1.3, 0.2, 0.7, 1.0, 2.0])


def some_costs() -> Tensor:
    return torch.rand(K, K, generator=torch.Generator().manual_seed(3), dtype=torch.float64)


METRICS: dict[str, GroundMetric] = {
    "line": Ordinal(torch.tensor([0.0, 1.0, 1.5, 4.0, 4.0], dtype=torch.float64)),
    "unordered line": Ordinal(torch.tensor([3.0, -1.0, 7.0, 0.5, 2.0], dtype=torch.float64)),
    "tree": Tree(TREE[0], np.array(TREE[1])),
    "tree heights": Tree(TREE[0], np.array(TREE[1]), nodes=[7, 3, 1, 6, 4], distance="lca_height"),
    "tree, inner labels": Tree(TREE[0], np.array(TREE[1]), nodes=[7, 3, 1, 6, 4]),
    "discrete": Discrete(K).to(dtype=torch.float64),
    "grid": Grid((K,), spacing=torch.tensor([0.7], dtype=torch.float64)),
    "vectors": Embedding(some_costs()),
    "asymmetric cost": Cost(some_costs() + 0.1),  # being right costs something too
}
OPTIONS: dict[str, dict[str, Any]] = {
    "default": {},
    "exact": {"epsilon": 0.0},
    "product": {"regularizer": "product"},
    "softened": {"softening": 0.3},
    "hardly softened": {"softening": 1e-3},
    "transport alone": {"kl_weight": 0.0, "transport_weight": 0.7},
    "KL alone": {"transport_weight": 0.0, "kl_weight": 1.3},
    "softened KL alone": {"transport_weight": 0.0, "softening": 0.5},
    "power 2": {"normalize_cost": False, "epsilon": 0.05},
}
ALL_SETS = [list(labels) for n in range(1, K + 1) for labels in itertools.combinations(range(K), n)]
RANGES = [(a, b) for a in range(K) for b in range(a, K)]


@pytest.fixture(params=["every evaluator", "composed"])
def evaluators(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "composed":
        evaluate_with(monkeypatch)
    return str(request.param)


def some_logits(batch: int, dtype: torch.dtype = torch.float64) -> Tensor:
    generator = torch.Generator().manual_seed(batch)
    x = 2 * torch.randn(batch, K, generator=generator, dtype=torch.float64)
    return x.to(dtype).requires_grad_()


def formula(x: Any, labels: list[int], loss: wl.WassersteinLoss) -> float:
    """The loss of one set, from the costs that the loss computes with."""
    spec = loss.spec
    M = spec.metric.cost().double().numpy()
    log_h = log_softmax(np.asarray(x, dtype=np.float64))
    h, m, total = np.exp(log_h), M[:, labels].min(1), 0.0
    total += spec.transport_weight * (h @ m)
    if spec.objective.regularizer.value == "plan":
        total += spec.transport_weight * spec.objective.epsilon * (h @ log_h)
    mass = logsumexp(log_h[labels])
    if not spec.softening:
        return float(total - spec.kl_weight * mass)
    shares = softmax(-m / spec.softening)
    outside = [i for i in range(len(h)) if i not in labels and shares[i] > 0]
    kl = sum(shares[i] * (np.log(shares[i]) - log_h[i]) for i in outside)
    inside = shares[labels].sum() + 1e-300  # being right may cost more than all else
    return float(total + spec.kl_weight * (kl + inside * (np.log(inside) - mass)))


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("options", OPTIONS)
def test_every_set(metric: str, options: str, evaluators: str) -> None:
    loss = wl.WassersteinLoss(METRICS[metric], reduction="none", **OPTIONS[options])
    x = some_logits(len(ALL_SETS))
    expected = [formula(row, s, loss) for row, s in zip(x.detach(), ALL_SETS, strict=True)]
    found = loss(x, wl.SetTarget(ALL_SETS))
    np.testing.assert_allclose(found.detach(), expected, rtol=1e-9, atol=1e-11)
    assert torch.autograd.gradcheck(
        lambda x: loss(x, wl.SetTarget(ALL_SETS)), x, fast_mode=True, atol=1e-6
    )


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("options", ["default", "exact", "softened", "transport alone"])
def test_ranges_are_sets(metric: str, options: str, evaluators: str) -> None:
    """In the order of the numbers, and in that of the metric."""
    ground = METRICS[metric]
    loss = wl.WassersteinLoss(ground, reduction="none", **OPTIONS[options])
    x = some_logits(len(RANGES))
    first, last = map(list, zip(*RANGES, strict=True))
    for order in (None, ground.label_order, torch.tensor([4, 1, 0, 2, 3])):
        target = wl.SetTarget.from_ranges(first, last, order)
        lists = wl.SetTarget(target.lists())
        found, expected = loss(x, target), loss(x, lists)
        torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-11)
        torch.testing.assert_close(*(torch.autograd.grad(v.sum(), x) for v in (found, expected)))


@pytest.mark.parametrize("metric", ["tree", "tree heights", "tree, inner labels"])
def test_subtrees(metric: str, evaluators: str) -> None:
    tree = METRICS[metric]
    codes = tree._subtree_codes  # type: ignore[attr-defined]
    target = wl.SetTarget.from_ranges(codes // K, codes % K, tree.label_order)
    loss, x = wl.WassersteinLoss(tree, reduction="none"), some_logits(len(codes))
    expected = [formula(row, s, loss) for row, s in zip(x.detach(), target.lists(), strict=True)]
    np.testing.assert_allclose(loss(x, target).detach(), expected, rtol=1e-9)
    assert any(1 < len(labels) < K for labels in target.lists())
    assert torch.autograd.gradcheck(lambda x: loss(x, target), x, fast_mode=True)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("options", OPTIONS)
def test_one_label_is_a_class_id(
    metric: str, options: str, dtype: torch.dtype, evaluators: str
) -> None:
    ids = torch.tensor([0, 3, -100, 4, 1, 2])
    ground = METRICS[metric].to(dtype=dtype)
    sample_weight = torch.rand(len(ids), dtype=dtype)
    for reduction in ("none", "mean", "sum"):
        for weight in (None, torch.rand(K, dtype=dtype)):
            loss = wl.WassersteinLoss(
                ground, reduction=reduction, weight=weight, **OPTIONS[options]
            )
            x = some_logits(len(ids), dtype)
            answers = []
            for target in (
                ids,
                wl.SetTarget([[label] for label in ids.tolist()]),
                wl.SetTarget.from_ranges(ids, ids),
            ):
                value = loss(x, target, sample_weight)
                answers.append((value, *torch.autograd.grad(value.sum(), x)))
            tight = {"rtol": 2e-5, "atol": 2e-6} if dtype == torch.float32 else {}
            for answer in answers[1:]:
                torch.testing.assert_close(answer, answers[0], **tight)


def test_ignored_rows_of_another_index(evaluators: str) -> None:
    loss = wl.WassersteinLoss(Ordinal(K), ignore_index=2, reduction="none")
    x = some_logits(3)
    target = wl.SetTarget([[2], [1, 2], [2, 3]])
    values = loss(x, target)
    assert values[0] == 0
    assert (torch.autograd.grad(values.sum(), x)[0][0] == 0).all()
    x_bad = x.detach().clone()
    x_bad[0] = torch.nan
    torch.testing.assert_close(loss(x_bad, target), values)


def test_all_labels_say_nothing(evaluators: str) -> None:
    loss = wl.WassersteinLoss(Ordinal(K), epsilon=0.0, softening=0.4)
    x = some_logits(3)
    value = loss(x, wl.SetTarget([range(K)] * 3))
    assert value.abs() < 1e-12
    assert torch.autograd.grad(value, x)[0].abs().max() < 1e-12


def test_larger_sets_are_nearer(evaluators: str) -> None:
    loss = wl.WassersteinLoss(METRICS["tree"], reduction="none")
    values = loss(some_logits(1).expand(3, K), wl.SetTarget([[1], [1, 2], [0, 1, 2]]))
    assert values[0] > values[1] > values[2]


def test_the_set_is_softened_continuously(evaluators: str) -> None:
    x, target = some_logits(len(ALL_SETS)), wl.SetTarget(ALL_SETS)
    sharp, soft = (
        wl.WassersteinLoss(METRICS["grid"], softening=s, reduction="none") for s in (0.0, 1e-4)
    )
    torch.testing.assert_close(soft(x, target), sharp(x, target))


def test_without_its_entropy_and_kl_it_is_the_nearest_loss(evaluators: str) -> None:
    """Which has the same transport at `epsilon=0`, and targets with masses of their own."""
    x = some_logits(len(ALL_SETS))
    tags = torch.tensor([[float(k in s) for k in range(K)] for s in ALL_SETS], dtype=torch.float64)
    nearest = wl.NearestWassersteinLoss(METRICS["tree"], epsilon=0, kl_weight=0, reduction="none")
    loss = wl.WassersteinLoss(METRICS["tree"], epsilon=0, kl_weight=0, reduction="none")
    torch.testing.assert_close(loss(x, wl.SetTarget(ALL_SETS)), nearest(x, tags))


def test_class_weights_are_averaged_over_the_set(evaluators: str) -> None:
    weight = torch.tensor([1.0, 3.0, 0.0, 0.5, 2.0])
    x = some_logits(2)
    plain = wl.WassersteinLoss(Ordinal(K), reduction="none")(x, wl.SetTarget([[0, 1], [2, 3, 4]]))
    loss = wl.WassersteinLoss(Ordinal(K), weight=weight)
    expected = (2 * plain[0] + 2.5 / 3 * plain[1]) / (2 + 2.5 / 3)
    for target in (
        wl.SetTarget([[0, 1], [2, 3, 4]]),
        wl.SetTarget.from_ranges([0, 2], [1, 4]),
    ):
        torch.testing.assert_close(loss(x, target), expected)


def test_labels_that_are_ruled_out(evaluators: str) -> None:
    x = some_logits(3).detach()
    x[0, 1], x[1, 3:] = -torch.inf, -torch.inf
    x.requires_grad_()
    loss = wl.WassersteinLoss(Ordinal(K), reduction="none")
    values = loss(x, wl.SetTarget([[0, 1], [3, 4], [1]]))
    assert values.isfinite().tolist() == [True, False, True]
    assert values[1] == torch.inf
    assert torch.autograd.grad(values[0], x)[0].isfinite().all()


def test_pixels(evaluators: str) -> None:
    """Logits of more dimensions take sets of the same shape without labels."""
    loss = wl.WassersteinLoss(Ordinal(K), reduction="none")
    x = some_logits(12).detach().reshape(2, 3, 2, K)
    mask = torch.rand(2, 3, 2, K) < 0.5
    mask[..., 0] = True
    found = loss(x.movedim(-1, 1), wl.SetTarget(mask))
    expected = loss(x.reshape(-1, K), wl.SetTarget(mask.reshape(-1, K))).reshape(2, 3, 2)
    torch.testing.assert_close(found, expected)
    alone = loss(x[0, 0, 0], wl.SetTarget(mask)[0, 0, 0])
    torch.testing.assert_close(alone, expected[0, 0, 0])


@pytest.mark.parametrize("layout", ["transposed", "strided", "expanded"])
def test_layouts(layout: str, evaluators: str) -> None:
    loss = wl.WassersteinLoss(METRICS["unordered line"], reduction="none")
    x = laid_out(some_logits(6).detach(), layout).requires_grad_()
    plain = x.detach().contiguous().requires_grad_()
    ends = torch.tensor([[0, 2], [1, 1], [0, 4], [2, 3], [0, 0], [4, 4]])  # columns are strided
    target = wl.SetTarget.from_ranges(ends[:, 0], ends[:, 1])
    found, expected = loss(x, target), loss(plain, wl.SetTarget(target.lists()))
    torch.testing.assert_close(found, expected)
    (one,), (other,) = (torch.autograd.grad(v.sum(), z) for v, z in ((found, x), (expected, plain)))
    torch.testing.assert_close(one, other)


@pytest.mark.parametrize("kind", ["positions", "matrix"])
def test_learned_metrics(kind: str) -> None:
    """The gradient in the metric, by finite differences."""
    x = some_logits(len(ALL_SETS)).detach()

    def loss_of(given: Tensor) -> Tensor:
        metric: GroundMetric = Ordinal(given) if kind == "positions" else Cost(given)
        loss = wl.WassersteinLoss(metric, normalize_cost=False, softening=0.5)
        return loss(x, wl.SetTarget(ALL_SETS))

    given = torch.tensor([0.0, 2.0, 1.1, 3.5, 7.0], dtype=torch.float64)
    if kind == "matrix":
        given = 1 + torch.rand(K, K, dtype=torch.float64)
    assert torch.autograd.gradcheck(loss_of, given.requires_grad_(), fast_mode=True)


def test_many_labels_without_a_table(evaluators: str) -> None:
    """Costs are computed on demand, and equal those of the table."""
    size, batch = 2100, 3
    metric = Ordinal(size)
    loss = wl.WassersteinLoss(metric, reduction="none")
    assert loss.metric.known_costs is None
    x = torch.randn(batch, size, requires_grad=True)
    target = wl.SetTarget.from_ranges([0, 100, 2000], [10, 1500, 2000])
    h, first, last = x.detach().double().softmax(1), target.first, target.last
    place = torch.arange(size)
    gap = torch.maximum(first[:, None] - place, place - last[:, None]).clamp(min=0)
    inside = torch.stack([row[a : b + 1].sum() for row, a, b in zip(h, first, last, strict=True)])
    unit = loss.metric.scale
    expected = (h * (gap / unit + 0.2 * h.log())).sum(1) - 0.5 * inside.log()
    for form in (target, wl.SetTarget(target.lists())):
        torch.testing.assert_close(loss(x, form), expected.float(), rtol=1e-4, atol=1e-5)
    tree = Tree([-1, *[i // 3 for i in range(3 * 1050)]])  # three children each
    codes = tree._subtree_codes[[0, 50, -40, -1]]
    x = torch.randn(len(codes), tree.size)
    target = wl.SetTarget.from_ranges(codes // tree.size, codes % tree.size, tree.label_order)
    loss = wl.WassersteinLoss(tree, reduction="none")
    assert loss.metric.known_costs is None
    lists = wl.SetTarget(target.lists())
    torch.testing.assert_close(loss(x, target), loss(x, lists), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("loss", "name"),
    [
        (wl.WassersteinLoss(Ordinal(K), debiased=True), "debiased"),
        (wl.WassersteinLoss(Ordinal(K), scaling_iterations=3), "scaling_iterations"),
        (wl.WassersteinLoss(Ordinal(K), solver=wl.transport.Sinkhorn()), "solver"),
        (wl.NearestWassersteinLoss(Ordinal(K)), "gamma"),
        (wl.RelaxedWassersteinLoss(Ordinal(K)), "gamma"),
    ],
)
def test_what_has_no_meaning_for_sets_is_refused_by_name(loss: Any, name: str) -> None:
    for _ in range(2):  # also once evaluators have been chosen
        with pytest.raises(ValueError, match=f"{name} must be .* if the target is a SetTarget"):
            loss(some_logits(1), wl.SetTarget([[0, 1]]))


@pytest.mark.parametrize(
    ("target", "message"),
    [
        (wl.SetTarget([[0], []]), "allow at least one label per example, got none in example 1"),
        (wl.SetTarget.from_ranges([0, 3], [2, 2]), "got none in example 1"),
        (wl.SetTarget([[0], [1, K]]), rf"in 0\.\.{K - 1}.*, got {K} in example 1"),
        (wl.SetTarget([[-2], [1]]), "got -2 in example 0"),
        (wl.SetTarget([[0, -100], [1]]), "got -100 in example 0"),
        (wl.SetTarget.from_ranges([0, 1], [2, 9]), "got 9 in example 1"),
        (wl.SetTarget.from_ranges([-1, 1], [2, 2]), "got -1 in example 0"),
        (wl.SetTarget([[0], [1, 1]]), r"each label once per example, got \[1, 1\] in example 1"),
        (wl.SetTarget([[0], [1], [2]]), r"sets of shape \(2,\)"),
        (
            wl.SetTarget.from_ranges([0, 1], [2, 2], [4, 3]),
            r"ranges within its 2 members.*got 0\.\.2",
        ),
    ],
)
def test_bad_sets(target: wl.SetTarget, message: str, evaluators: str) -> None:
    with pytest.raises(ValueError, match=message):
        wl.WassersteinLoss(Ordinal(K))(some_logits(2), target)


def test_others_take_no_sets() -> None:
    target = wl.SetTarget([[0, 1]])
    h = torch.full((1, K), 1 / K)
    for call in (
        lambda: wl.wasserstein(h, target, Ordinal(K)),
        lambda: wl.losses.baselines.KLLoss(K)(h.log(), target),
        lambda: wl.scores.brier_score(h, target),
    ):
        with pytest.raises(TypeError, match="SetTarget"):
            call()


def test_without_the_compiled_core(monkeypatch: pytest.MonkeyPatch) -> None:
    x, target = some_logits(len(ALL_SETS), torch.float32), wl.SetTarget(ALL_SETS)
    compiled = wl.WassersteinLoss(METRICS["tree"])(x, target)
    without_native(monkeypatch)
    torch.testing.assert_close(wl.WassersteinLoss(METRICS["tree"])(x, target), compiled)
