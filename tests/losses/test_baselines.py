"""Baseline losses: values, gradients, and relations to ours."""

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import wassloss as wl
from wassloss.losses.baselines import (
    CORALLoss,
    CORNLoss,
    CumulativeJensenShannonLoss,
    ExpectedCostLoss,
    HierarchicalCrossEntropyLoss,
    KLLoss,
    PoissonLoss,
    QuadraticFormLoss,
    SoftLabelLoss,
    SquaredEMDLoss,
    WassersteinDiceLoss,
    WeightedKappaLoss,
)

LABELS = 6
METRIC = wl.ground.Ordinal(LABELS, power=1.5)
PATHS = [("a", "x", "0"), ("a", "x", "1"), ("a", "2"), ("b", "3"), ("b", "y", "4"), ("5",)]
TREE = wl.ground.Tree.from_paths(PATHS)
LOSSES = {
    "kl": lambda: KLLoss(LABELS),
    "expected": lambda: ExpectedCostLoss(METRIC, kl_weight=0.2),
    "squared_emd": lambda: SquaredEMDLoss(LABELS),
    "poisson": lambda: PoissonLoss(LABELS),
    "soft": lambda: SoftLabelLoss(METRIC, beta=0.7),
    "sord": lambda: SoftLabelLoss(wl.ground.Ordinal(LABELS, power=2)),
    "cjs": lambda: CumulativeJensenShannonLoss(LABELS),
    "qfd": lambda: QuadraticFormLoss(METRIC),
    "hxe": lambda: HierarchicalCrossEntropyLoss(TREE, alpha=0.4),
}


def some_logits() -> Tensor:
    return torch.randn(4, LABELS, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def targets() -> dict[str, wl.SparseTarget | Tensor]:
    dense = torch.rand(4, LABELS, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    few = wl.SparseTarget(
        torch.tensor([[0, 3], [5, 1], [2, 0], [4, 2]]),
        torch.tensor([[0.5, 0.5], [1.0, 0.0], [2.0, 6.0], [0.1, 0.3]], dtype=torch.float64),
    )
    return {"ids": torch.tensor([0, 2, 5, 3]), "dense": dense, "few": few}


def dense_of(target: wl.SparseTarget | Tensor) -> np.ndarray:
    if isinstance(target, wl.SparseTarget):
        found = np.zeros((4, LABELS))
        for row in range(4):
            for index, weight in zip(target.indices[row], target.weights[row], strict=True):
                found[row, index] += float(weight)
    elif target.dim() == 1:
        found = np.eye(LABELS)[target.numpy()]
    else:
        found = target.numpy()
    return found / found.sum(1, keepdims=True)


def _hxe(h: np.ndarray, label: int, alpha: float = 0.4) -> float:
    """The sum from the root down, as in the authors' code up to a constant factor."""

    def mass(node: tuple[str, ...]) -> float:
        inside = [path[: len(node)] == node for path in PATHS]
        return float(h[inside].sum())

    path = PATHS[label]
    steps = [(path[:depth], path[: depth + 1]) for depth in range(len(path))]
    return -sum(np.exp(-alpha * len(up)) * np.log(mass(down) / mass(up)) for up, down in steps)


def expected_value(name: str, logits: np.ndarray, y: np.ndarray) -> np.ndarray:
    log_h = logits - np.log(np.exp(logits).sum(1, keepdims=True))
    h = np.exp(log_h)
    places = np.arange(LABELS)
    distance = np.abs(places[:, None] - places)

    def kl(t: np.ndarray) -> np.ndarray:
        return np.where(t > 0, t * (np.log(np.where(t > 0, t, 1.0)) - log_h), 0.0).sum(1)

    if name == "kl":
        return kl(y)
    if name == "softened":
        kernel = np.exp(-((distance / 1.3) ** 2))
        return kl(y @ (kernel / kernel.sum(1, keepdims=True)))
    if name == "softened nearest":
        to_nearest = np.stack([distance[:, row > 0].min(1) for row in y])
        kernel = np.exp(-((to_nearest / 1.3) ** 2))
        return kl(kernel / kernel.sum(1, keepdims=True))
    if name == "expected":
        return np.einsum("bi,ij,bj->b", h, distance**1.5, y) + 0.2 * kl(y)
    if name in ("soft", "sord"):
        kernel = np.exp(-0.7 * distance**1.5 if name == "soft" else -1.0 * distance**2)
        return kl(y @ (kernel / kernel.sum(1, keepdims=True)))
    if name == "cjs":
        H, Y = h.cumsum(1), y.cumsum(1)
        halves = [t * np.log(np.where(t > 0, t, 1) / ((H + Y) / 2)) for t in (H, Y)]
        return 0.5 * (halves[0] + halves[1]).sum(1)
    if name == "qfd":
        similarity = 1 - distance**1.5 / 5**1.5
        return np.einsum("bi,ij,bj->b", h - y, similarity, h - y)
    if name == "hxe":
        return np.array(
            [
                sum(t * _hxe(row, label) for label, t in enumerate(own))
                for row, own in zip(h, y, strict=True)
            ]
        )
    return ((h - y).cumsum(1) ** 2).sum(1)  # squared_emd


@pytest.mark.parametrize("kind", targets())
@pytest.mark.parametrize("name", [name for name in LOSSES if name != "poisson"])
def test_values_are_those_of_their_formulas(name: str, kind: str) -> None:
    logits, target = some_logits(), targets()[kind]
    loss = LOSSES[name]()
    loss.reduction = "none"
    expected = expected_value(name, logits.numpy(), dense_of(target))
    np.testing.assert_allclose(loss(logits, target).numpy(), expected, rtol=1e-6)
    for reduction, reduce in (("mean", np.mean), ("sum", np.sum)):
        loss.reduction = reduction
        assert float(loss(logits, target)) == pytest.approx(reduce(expected), rel=1e-6)


@pytest.mark.parametrize("kind", targets())
@pytest.mark.parametrize("name", LOSSES)
def test_gradients_are_those_of_finite_differences(name: str, kind: str) -> None:
    logits, target, loss = some_logits().requires_grad_(), targets()[kind], LOSSES[name]()
    assert torch.autograd.gradcheck(lambda x: loss.double()(x, target), logits)


@pytest.mark.parametrize("name", [name for name in LOSSES if name != "poisson"])
def test_certain_predictions_have_finite_gradients(name: str) -> None:
    logits = 300 * torch.eye(LABELS)[[0, 2, 5, 1]] - 300 * torch.eye(LABELS)[[1, 0, 0, 5]]
    for target in targets().values():
        x = logits.clone().requires_grad_()
        LOSSES[name]().float()(x, target).backward()
        assert bool(x.grad.isfinite().all()), name


def threshold_logits() -> Tensor:
    return some_logits()[:, :-1].contiguous()


def test_coral_and_corn_are_the_sums_of_their_papers() -> None:
    z, ids = threshold_logits(), torch.tensor([0, 2, 5, 3])
    log_yes, log_no = nn.functional.logsigmoid(z), nn.functional.logsigmoid(-z)
    coral, corn, asked = 0.0, 0.0, 0
    for n, y in enumerate(ids.tolist()):
        for k in range(LABELS - 1):
            coral -= float(log_yes[n, k] if y > k else log_no[n, k])
            if y >= k:
                corn -= float(log_yes[n, k] if y > k else log_no[n, k])
                asked += 1
    assert float(CORALLoss(LABELS)(z, ids)) == pytest.approx(coral / 4)
    assert float(CORNLoss(LABELS)(z, ids)) == pytest.approx(corn / asked)
    assert float(CORNLoss(LABELS, reduction="sum")(z, ids)) == pytest.approx(corn)


@pytest.mark.parametrize("loss", [CORALLoss, CORNLoss])
@pytest.mark.parametrize("kind", targets())
def test_losses_of_thresholds(loss: type, kind: str) -> None:
    z, target = threshold_logits().requires_grad_(), targets()[kind]
    assert torch.autograd.gradcheck(lambda x: loss(LABELS)(x, target), z)
    # The loss is linear in the target.
    y = torch.from_numpy(dense_of(target))
    each = [loss(LABELS, reduction="none")(z, torch.full((4,), k)) for k in range(LABELS)]
    expected = (torch.stack(each, 1) * y).sum(1)
    torch.testing.assert_close(loss(LABELS, reduction="none")(z, target), expected)


def test_corn_is_the_likelihood_of_its_probabilities() -> None:
    """Each chain of answers has the probability of its label, so CORN's sum is the NLL."""
    z, ids = threshold_logits(), torch.tensor([0, 2, 5, 3])
    h = CORNLoss(LABELS).probabilities(z)
    torch.testing.assert_close(h.sum(1), torch.ones(4, dtype=torch.float64))
    nll = -h.gather(1, ids[:, None]).log().squeeze(1)
    torch.testing.assert_close(CORNLoss(LABELS, reduction="none")(z, ids), nll)
    ordered = z[:, :1] + torch.linspace(2, -2, LABELS - 1, dtype=torch.float64)
    h = CORALLoss(LABELS).probabilities(ordered)
    torch.testing.assert_close(h.sum(1), torch.ones(4, dtype=torch.float64))
    torch.testing.assert_close(1 - h[:, 0], ordered[:, 0].sigmoid())


def test_hxe_without_discount_is_cross_entropy() -> None:
    logits, ids = some_logits(), targets()["ids"]
    plain = nn.functional.cross_entropy(logits, ids)
    torch.testing.assert_close(HierarchicalCrossEntropyLoss(TREE, alpha=0.0)(logits, ids), plain)


def test_hxe_of_a_hopeless_prediction_still_has_a_gradient() -> None:
    logits = torch.tensor([[0.0, 0, 0, 300, 300, 300]], requires_grad=True)
    loss = HierarchicalCrossEntropyLoss(TREE, alpha=0.1)(logits, torch.tensor([0]))
    loss.backward()
    assert loss.isfinite()
    assert float(logits.grad[0, 0]) < -0.1


def test_qfd_on_a_line_is_the_squared_emd() -> None:
    logits, dense = some_logits(), targets()["dense"]
    emd = SquaredEMDLoss(LABELS)(logits, dense)
    qfd = QuadraticFormLoss(wl.ground.Ordinal(LABELS))(logits, dense)
    torch.testing.assert_close(qfd, 2 / (LABELS - 1) * emd)


@pytest.mark.parametrize("kind", targets())
def test_the_kappa_loss_is_one_minus_kappa(kind: str) -> None:
    squares, logits, target = wl.ground.Ordinal(LABELS, power=2), some_logits(), targets()[kind]
    loss = WeightedKappaLoss(squares)
    assert torch.autograd.gradcheck(lambda x: loss(x, target), logits.requires_grad_())
    certain = 1e3 * torch.eye(LABELS, dtype=torch.float64)[[1, 2, 5, 5]]
    kappa = wl.scores.quadratic_weighted_kappa(certain, target)
    torch.testing.assert_close(loss(certain, target), 1 - kappa)
    one = wl.SparseTarget(torch.tensor([[1]]), torch.ones(1, 1, dtype=torch.float64))
    torch.testing.assert_close(loss(logits[:1], one), torch.ones((), dtype=torch.float64))
    assert loss(certain[:1], one) == 0


PIXELS = torch.tensor([[0.0, 1.0, 0.8], [1.0, 0.0, 0.5], [0.8, 0.5, 0.0]], dtype=torch.float64)


def images(batch: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(4)
    logits = torch.randn(batch, 3, 4, 5, generator=generator, dtype=torch.float64)
    return logits, torch.randint(3, (batch, 4, 5), generator=generator)


@pytest.mark.parametrize("batch", [1, 3])
def test_the_wasserstein_dice_by_hand(batch: int) -> None:
    logits, target = images(batch)
    expected = []
    for scores, ids in zip(logits.softmax(1), target, strict=True):
        hits, errors = 0.0, 0.0
        for row, column in np.ndindex(4, 5):
            y = int(ids[row, column])
            off = float(scores[:, row, column] @ PIXELS[y])
            hits += 2 * (1 - off) * (y != 0)
            errors += off
        expected.append(1 - (hits + 1e-5) / (hits + errors + 1e-5))
    loss = WassersteinDiceLoss(3 * PIXELS, reduction="none")
    np.testing.assert_allclose(loss(logits, target).numpy(), expected, rtol=1e-6)
    loss.reduction = "mean"
    assert float(loss(logits, target)) == pytest.approx(np.mean(expected), rel=1e-6)
    assert torch.autograd.gradcheck(lambda x: loss(x, target), logits.requires_grad_())


@pytest.mark.slow
@pytest.mark.parametrize("batch", [1, 3])
def test_the_wasserstein_dice_is_that_of_monai(batch: int) -> None:
    dice = pytest.importorskip("monai.losses.dice").GeneralizedWassersteinDiceLoss
    logits, target = images(batch)
    expected = dice(PIXELS)(logits, target)
    torch.testing.assert_close(WassersteinDiceLoss(PIXELS)(logits, target), expected.double())


def test_the_plan_loss_of_one_label_is_the_reverse_divergence_from_the_softened_label() -> None:
    epsilon, logits, ids = 0.8, some_logits(), targets()["ids"]
    squares = wl.ground.Ordinal(LABELS, power=2)
    soft = (-squares.cost_columns(ids).double() / epsilon).softmax(1)
    own = wl.WassersteinLoss(
        squares, epsilon=epsilon, reduction="none", kl_weight=0.0, normalize_cost=False
    )
    log_h = logits.log_softmax(1)
    reverse = epsilon * (log_h.exp() * (log_h - soft.log())).sum(1)
    constant = own(soft.log(), ids)
    torch.testing.assert_close(own(logits, ids) - constant, reverse, rtol=1e-5, atol=1e-6)


def test_the_expected_cost_is_the_product_loss_of_one_label_and_its_limit_for_many() -> None:
    logits, everything = some_logits(), targets()
    loss = ExpectedCostLoss(METRIC, reduction="none")
    product = wl.WassersteinLoss(
        METRIC,
        epsilon=0.3,
        regularizer="product",
        reduction="none",
        normalize_target=True,
        kl_weight=0.0,
        normalize_cost=False,
    )
    ids, few = everything["ids"], everything["few"]
    torch.testing.assert_close(loss(logits, ids), product(logits, ids))
    blurred = wl.WassersteinLoss(
        METRIC,
        epsilon=1e4,
        regularizer="product",
        reduction="none",
        normalize_target=True,
        kl_weight=0.0,
        normalize_cost=False,
    )
    torch.testing.assert_close(loss(logits, few), blurred(logits, few), rtol=1e-3, atol=0)
    several = (few.weights > 0).sum(1) > 1  # to one label there is only one coupling
    better, expected = product(logits, few), loss(logits, few)
    torch.testing.assert_close(better[~several], expected[~several])
    assert bool((better < expected)[several].all()), "a better coupling costs less"
    assert several.any()


def test_a_label_that_is_ruled_out_costs_nothing_unless_it_is_true() -> None:
    logits = torch.tensor([[0.0, 0.0, -torch.inf, 0.0, 0.0, 0.0]])
    for loss in (KLLoss(LABELS), ExpectedCostLoss(METRIC), SquaredEMDLoss(LABELS)):
        assert bool(loss(logits, torch.tensor([1])).isfinite())
    assert float(KLLoss(LABELS)(logits, torch.tensor([2]))) == torch.inf


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: KLLoss(3, reduction="median"), "reduction must be 'mean', 'sum' or"),
        (lambda: ExpectedCostLoss(METRIC, kl_weight=-0.1), "kl_weight must be"),
        (lambda: KLLoss(3)(torch.zeros(2, 4), torch.tensor([0, 1])), r"logits must have shape"),
        (lambda: KLLoss(3)(torch.zeros(1, 3), torch.tensor([5])), "target must hold class ids"),
        (lambda: SoftLabelLoss(METRIC, beta=0.0), "beta must be positive, got 0.0"),
        (lambda: CORNLoss(3)(torch.zeros(1, 3), torch.tensor([0])), r"logits must have shape \(ba"),
        (lambda: HierarchicalCrossEntropyLoss(TREE, alpha=-1), "alpha must be"),
        (
            lambda: WassersteinDiceLoss(PIXELS)(torch.zeros(1, 3), torch.tensor([0])),
            r"logits must have shape \(batch, 3, …\)",
        ),
        (
            lambda: WassersteinDiceLoss(PIXELS)(torch.zeros(1, 3, 2), torch.tensor([0])),
            r"target must be class ids of shape \(1, 2\), got integers of shape \(1,\)",
        ),
        (
            lambda: WassersteinDiceLoss(PIXELS)(torch.zeros(1, 3, 2), torch.tensor([[0, 3]])),
            "target must hold class ids in 0..2",
        ),
    ],
)
def test_bad_input_is_named(make, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


def test_pixels_have_class_ids_only() -> None:
    with pytest.raises(TypeError, match=r"target must be integer class ids, got torch.float32"):
        WassersteinDiceLoss(PIXELS)(torch.zeros(1, 3, 2), torch.zeros(1, 2))


def test_half_precision_and_autocast_compute_in_single_precision() -> None:
    x, ids = torch.randn(3000, LABELS - 1), torch.randint(LABELS, (3000,))
    expected = wl.losses.baselines.CORNLoss(LABELS)(x.half().float(), ids)
    torch.testing.assert_close(wl.losses.baselines.CORNLoss(LABELS)(x.half(), ids), expected)
    far = ExpectedCostLoss(wl.ground.Ordinal(300, power=2))
    assert far(torch.zeros(1, 300, dtype=torch.half), torch.tensor([0])).isfinite()
    logits = torch.randn(3000, LABELS)
    losses = [
        wl.losses.baselines.QuadraticFormLoss(METRIC), wl.losses.baselines.WeightedKappaLoss(METRIC)
    ]  # fmt: skip
    for loss_fn in losses:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            found = loss_fn(logits, ids)
        torch.testing.assert_close(found, loss_fn(logits, ids), rtol=1e-6, atol=0)


def test_kappa_of_costs_that_depend_on_the_direction() -> None:
    cost = torch.tensor([[0.0, 100.0], [1.0, 0.0]])  # from the predicted to the true label
    logits, ids = torch.randn(5, 2), torch.tensor([0, 1, 1, 0, 1])
    h, y = logits.softmax(1), torch.eye(2)[ids]
    observed = (h[:, :, None] * y[:, None, :]).mean(0)
    by_chance = h.mean(0)[:, None] * y.mean(0)
    found = wl.losses.baselines.WeightedKappaLoss(wl.ground.Cost(cost))(logits, ids)
    torch.testing.assert_close(found, (observed * cost).sum() / (by_chance * cost).sum())


def test_probabilities_add_up_where_thresholds_are_out_of_order() -> None:
    p = wl.losses.baselines.CORALLoss(3).probabilities(torch.tensor([[0.0, 0.8]]))
    torch.testing.assert_close(p, torch.tensor([[0.5, 0.0, 0.5]]))


def test_hierarchical_cross_entropy_has_labels_at_leaves() -> None:
    with pytest.raises(ValueError, match="tree must have labels only at leaves"):
        wl.losses.baselines.HierarchicalCrossEntropyLoss(
            wl.ground.Tree([-1, 0, 1, 0], nodes=[1, 2, 3])
        )


def test_a_single_label() -> None:
    one, ids = wl.ground.Ordinal(1), torch.zeros(2, dtype=torch.long)
    assert wl.losses.baselines.QuadraticFormLoss(one)(torch.zeros(2, 1), ids) == 0
    assert (
        wl.losses.baselines.WassersteinDiceLoss(one)(
            torch.zeros(2, 1, 3), ids[:, None].expand(2, 3)
        )
        == 0
    )
