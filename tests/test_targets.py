"""The loss does not depend on the form of the target."""

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

import wassloss as wl
from tests.losses.per_example import relaxed_wasserstein_loss, wasserstein_loss
from wassloss import _checks
from wassloss.ground import Ordinal
from wassloss.targets import ReadTarget, read_target

K = 6
F64 = torch.float64
METRIC = Ordinal([0.0, 1.0, 2.5, 3.0, 4.5, 7.0], scale="median")

DENSE = torch.tensor(
    [[0.5, 0.0, 0.5, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 1.0, 0.0, 0.0], [0.25, 0.25, 0, 0, 0, 0.5]],
    dtype=F64,
)
INDICES = torch.tensor([[2, 0, 1], [3, 3, 3], [0, 5, 1]])  # unordered, padded with any label
WEIGHTS = torch.tensor([[0.5, 0.5, 0.0], [1.0, 0.0, 0.0], [0.25, 0.5, 0.25]], dtype=F64)


def csr(dense: Tensor) -> Tensor:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch calls CSR a beta feature
        return dense.to_sparse_csr()


def uncoalesced() -> Tensor:
    rows, columns = DENSE.nonzero(as_tuple=True)
    index = torch.stack([rows, columns])
    halves = DENSE[rows, columns] / 2
    return torch.sparse_coo_tensor(
        torch.cat([index, index.flip(1)], 1),
        torch.cat([halves, halves.flip(0)]),
        DENSE.shape,
        check_invariants=True,
    )


FORMS: dict[str, Callable[[], Any]] = {
    "SparseTarget": lambda: wl.SparseTarget(INDICES, WEIGHTS),
    "SparseTarget padded with -1": lambda: wl.SparseTarget(
        torch.where(WEIGHTS > 0, INDICES, -1), WEIGHTS
    ),
    "SparseTarget in int32 and float32": lambda: wl.SparseTarget(INDICES.int(), WEIGHTS.float()),
    "SparseTarget of all labels": lambda: wl.SparseTarget(
        torch.arange(K).expand(3, K).flip(1), DENSE.flip(1)
    ),
    "COO": lambda: DENSE.to_sparse(),
    "COO, uncoalesced": uncoalesced,
    "CSR": lambda: csr(DENSE),
    "single precision": lambda: DENSE.float(),
    "half precision": lambda: DENSE.half(),
    "not contiguous": lambda: DENSE.T.contiguous().T,
}
LOSSES: dict[str, Callable[..., Tensor]] = {
    "exact": lambda x, y: wasserstein_loss(x, y, METRIC, epsilon=0),
    "plan": lambda x, y: wasserstein_loss(x, y, METRIC, epsilon=0.1, kl_weight=0.3),
    "product": lambda x, y: wasserstein_loss(x, y, METRIC, epsilon=0.1, regularizer="product"),
    "debiased": lambda x, y: wasserstein_loss(x, y, METRIC, epsilon=0.1, debiased=True),
    "scaling_iterations": lambda x, y: wasserstein_loss(
        x, y, METRIC, epsilon=0.1, scaling_iterations=7
    ),
    "relaxed": lambda x, y: relaxed_wasserstein_loss(
        x, y, METRIC, epsilon=0.1, gamma=(0.5, 2.0), kl_weight=0.3
    ),
    "relaxed product": lambda x, y: relaxed_wasserstein_loss(
        x, y, METRIC, epsilon=0.1, gamma=(0.5, 2.0), regularizer="product"
    ),
}
losses = pytest.mark.parametrize("loss", [pytest.param(v, id=k) for k, v in LOSSES.items()])


def value_and_gradient(
    loss: Callable[..., Tensor], x: Tensor, target: Any
) -> tuple[Tensor, Tensor]:
    x = x.detach().clone().requires_grad_()
    values = loss(x, target)
    (gradient,) = torch.autograd.grad(values.sum(), x)
    return values.detach(), gradient


def assert_same(
    loss: Callable[..., Tensor], x: Tensor, target: Any, other_x: Tensor, other_target: Any
) -> None:
    """Assert that examples are equal up to the default tolerance of a double-precision solve."""
    values, gradient = value_and_gradient(loss, x, target)
    expected, expected_gradient = value_and_gradient(loss, other_x, other_target)
    torch.testing.assert_close(values, expected.reshape(values.shape), rtol=1e-7, atol=1e-7)
    torch.testing.assert_close(flat(gradient), flat(expected_gradient), rtol=1e-7, atol=1e-7)


def flat(x: Tensor) -> Tensor:
    """Reshape to `(examples, K)`, from labels in dimension 1 or from one example."""
    return x.reshape(-1, K) if x.dim() <= 2 else x.movedim(1, -1).reshape(-1, K)


@losses
@pytest.mark.parametrize("form", FORMS)
def test_any_form_of_weights(loss: Callable[..., Tensor], form: str) -> None:
    x = torch.randn(3, K, dtype=F64)
    assert_same(loss, x, FORMS[form](), x, DENSE)


@losses
@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.uint8], ids=str)
def test_class_ids_are_one_hot_weights(loss: Callable[..., Tensor], dtype: torch.dtype) -> None:
    x, ids = torch.randn(4, K, dtype=F64), torch.tensor([0, 5, 3, 3])
    one_hot = torch.nn.functional.one_hot(ids, K).to(F64)
    assert_same(loss, x, ids.to(dtype), x, one_hot)


@losses
def test_weights_on_few_labels_are_weights_on_all(loss: Callable[..., Tensor]) -> None:
    # A target that requires grad keeps its labels of zero weight; one that does not drops them.
    x = torch.randn(3, K, dtype=F64)
    assert read_target(DENSE, K, torch.Size([3]), x)[0].indices.shape == (3, 3)
    whole = DENSE.clone().requires_grad_()
    assert read_target(whole, K, torch.Size([3]), x)[0].indices.shape == (1, K)
    assert_same(loss, x, DENSE, x, whole)


# Shapes: one example, pixels


@losses
@pytest.mark.parametrize(
    "target",
    [DENSE[0], torch.tensor(4), wl.SparseTarget(INDICES[0], WEIGHTS[0])],
    ids=["dense", "id", "SparseTarget"],
)
def test_one_example_without_a_batch(loss: Callable[..., Tensor], target: Any) -> None:
    x = torch.randn(K, dtype=F64)
    if isinstance(target, wl.SparseTarget):
        batched: Any = wl.SparseTarget(target.indices[None], target.weights[None])
    else:
        batched = target[None]
    assert loss(x, target).shape == ()
    assert_same(loss, x, target, x[None], batched)


def pixels() -> tuple[Tensor, Tensor]:
    """Logits and dense weights with labels in dimension 1, (2, K, 3, 2)."""
    logits = torch.randn(2, K, 3, 2, dtype=F64)
    weights = DENSE[torch.tensor([0, 1, 2, 0, 2, 1, 1, 0, 0, 2, 1, 2])].reshape(2, 3, 2, K)
    return logits, weights.movedim(-1, 1)


@losses
def test_pixels_with_weights(loss: Callable[..., Tensor]) -> None:
    logits, weights = pixels()
    assert loss(logits, weights).shape == (2, 3, 2)
    assert_same(loss, logits, weights, flat(logits), flat(weights))


@losses
def test_pixels_with_class_ids(loss: Callable[..., Tensor]) -> None:
    logits, _ = pixels()
    ids = torch.randint(K, (2, 3, 2))
    assert loss(logits, ids).shape == (2, 3, 2)
    assert_same(loss, logits, ids, flat(logits), ids.reshape(-1))


@losses
def test_pixels_with_a_sparse_target(loss: Callable[..., Tensor]) -> None:
    logits, weights = pixels()
    values, indices = weights.movedim(1, -1).topk(3, dim=-1)  # (2, 3, 2, 3)
    assert_same(loss, logits, wl.SparseTarget(indices, values), logits, weights)


@losses
def test_sequences(loss: Callable[..., Tensor]) -> None:
    logits, ids = torch.randn(2, K, K, dtype=F64), torch.randint(K, (2, K))
    assert_same(loss, logits, ids, logits.transpose(1, 2).reshape(-1, K), ids.reshape(-1))
    # Labels are in dimension 1 of the weights too, even if all dimensions have the same size.
    weights = torch.rand(2, K, K, dtype=F64).softmax(1)
    assert_same(loss, logits, weights, flat(logits), flat(weights))


def test_distances_take_every_form_too() -> None:
    h = torch.rand(3, K, dtype=F64)
    h = h / h.sum(1, keepdim=True)
    expected = wl.wasserstein(h, DENSE, METRIC)
    for form in FORMS.values():
        torch.testing.assert_close(wl.wasserstein(h, form(), METRIC), expected)
    one = wl.wasserstein(h[0], DENSE[0], METRIC)
    assert one.shape == ()
    torch.testing.assert_close(one, expected[0])


# normalize_target


@pytest.mark.parametrize("form", ["dense", "SparseTarget", "COO"])
def test_normalize_target_divides_by_the_sum(form: str) -> None:
    tags = (DENSE > 0).to(F64)
    target: Any = {
        "dense": tags,
        "SparseTarget": wl.SparseTarget(INDICES, (WEIGHTS > 0).to(F64)),
        "COO": tags.to_sparse(),
    }[form]
    x = torch.randn(3, K, dtype=F64)
    loss_fn = wl.WassersteinLoss(
        METRIC, kl_weight=0.3, normalize_target=True, reduction="none", normalize_cost=False
    )
    plain = wl.WassersteinLoss(METRIC, kl_weight=0.3, reduction="none", normalize_cost=False)
    expected = plain(x, tags / tags.sum(1, keepdim=True))
    torch.testing.assert_close(loss_fn(x, target), expected, rtol=1e-7, atol=1e-7)


def test_rounding_of_the_users_dtype_is_forgiven() -> None:
    logits = torch.randn(64, 1000, dtype=F64)
    metric = Ordinal(1000)
    exact = torch.randn(64, 1000, dtype=F64).softmax(1)
    expected = wasserstein_loss(logits, exact, metric, epsilon=0)
    for dtype, tolerance in ((torch.float32, 1e-6), (torch.half, 1e-3), (torch.bfloat16, 1e-2)):
        values = wasserstein_loss(logits, exact.to(dtype), metric, epsilon=0)
        torch.testing.assert_close(values, expected, rtol=tolerance, atol=0)


# ignore_index


@pytest.mark.parametrize("relaxed", [False, True], ids=["balanced", "relaxed"])
@pytest.mark.parametrize("ignore_index", [-100, 0, 255])
def test_ignored_examples_cost_nothing_and_do_not_learn(relaxed: bool, ignore_index: int) -> None:
    def loss(x: Tensor, ids: Tensor) -> Tensor:
        keywords: dict[str, Any] = {"kl_weight": 0.3, "ignore_index": ignore_index}
        if relaxed:
            return relaxed_wasserstein_loss(x, ids, METRIC, epsilon=0.1, gamma=1.0, **keywords)
        return wasserstein_loss(x, ids, METRIC, epsilon=0.1, **keywords)

    x = torch.randn(4, K, dtype=F64)
    x[1, 0] = -torch.inf  # not even if the substituted label is impossible
    ids = torch.tensor([2, ignore_index, 5, ignore_index])
    values, gradient = value_and_gradient(loss, x, ids)
    kept, ignored = torch.tensor([0, 2]), torch.tensor([1, 3])
    assert (values[ignored] == 0).all()
    assert (gradient[ignored] == 0).all()
    rest, rest_gradient = value_and_gradient(loss, x[kept], ids[kept])
    torch.testing.assert_close(values[kept], rest)
    torch.testing.assert_close(gradient[kept], rest_gradient)


def test_labels_out_of_range_are_marked_and_kept_off_lookups_where_values_cannot_be_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(_checks, "can_read_values", lambda: False)
    given = ReadTarget(torch.tensor([[2, 0], [K, 1], [-1, 3]]), torch.full((3, 2), 0.5))
    target, _ = given.checked(K, torch.float32)
    assert target.weights.isnan().any(1).tolist() == [False, True, True]
    assert target.indices.tolist() == [[2, 0], [K - 1, 1], [0, 3]]
