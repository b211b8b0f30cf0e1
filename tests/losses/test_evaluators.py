"""Evaluators are chosen once, tried in order, and extended by a class in a list."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest
import torch

import wassloss as wl
from tests.evaluators import evaluate_with
from wassloss.kernels.status import FINE, UNCONVERGED
from wassloss.losses.evaluate import Evaluate
from wassloss.losses.evaluators import EVALUATORS
from wassloss.losses.evaluators.base import Batch, Evaluation, Evaluator
from wassloss.losses.evaluators.composed import ComposedEvaluator
from wassloss.losses.spec import LossSpec
from wassloss.targets import Kind

K, BATCH = 5, 4
IDS = torch.tensor([0, 3, -100, 2])
FEW = wl.SparseTarget(torch.tensor([[0, 1]] * BATCH), torch.full((BATCH, 2), 0.5))


class Toy(Evaluator):
    """A loss of 7 with slope 1 for every example."""

    made = 0
    status = FINE
    takes = True

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        type(self).made += 1

    @classmethod
    def serves(cls, spec: LossSpec, device: torch.device, dtype: torch.dtype, kind: Kind) -> bool:
        return kind is Kind.CLASS_IDS

    def __call__(self, batch: Batch) -> Evaluation | None:
        value, gradient = torch.full_like(batch.x[:, 0], 7.0), torch.ones_like(batch.x)
        status = torch.full((len(value),), self.status, dtype=torch.uint8)
        return Evaluation(value, gradient, status) if self.takes else None


@pytest.fixture
def toy(monkeypatch: pytest.MonkeyPatch) -> type[Toy]:
    class Fresh(Toy):
        pass

    evaluate_with(monkeypatch, Fresh)
    return Fresh


def some_logits() -> torch.Tensor:
    return torch.randn(BATCH, K, requires_grad=True)


def test_a_new_evaluator_is_a_class_in_a_list(toy: type[Toy]) -> None:
    logits = some_logits()
    loss = wl.WassersteinLoss(wl.ground.Ordinal(K), reduction="sum")(logits, IDS)
    assert loss == 7 * BATCH
    loss.backward()
    assert (logits.grad == 1).all()


def test_it_is_chosen_once_per_device_dtype_and_kind(toy: type[Toy]) -> None:
    loss_fn = wl.WassersteinLoss(wl.ground.Ordinal(K))
    for _ in range(3):
        loss_fn(some_logits(), IDS)
    assert toy.made == 1
    loss_fn(some_logits().double(), IDS)
    assert toy.made == 2
    loss_fn(some_logits(), FEW)  # which it does not support
    assert toy.made == 2
    loss_fn.kl_weight = 1.0  # another loss
    loss_fn(some_logits(), IDS)
    assert toy.made == 3


@pytest.mark.parametrize("doubt", [{"status": UNCONVERGED}, {"takes": False}])
def test_a_doubtful_result_is_left_to_the_next_evaluator(toy: type[Toy], doubt: Any) -> None:
    for name, value in doubt.items():
        setattr(toy, name, value)
    logits, loss_fn = some_logits(), wl.WassersteinLoss(wl.ground.Ordinal(K))
    found = loss_fn(logits, IDS)
    (expected,) = (Evaluate(loss_fn.spec)(logits, IDS)[0].reduced("mean") for toy.takes in (False,))
    assert found.item() == expected.item() < 7


def test_the_last_one_takes_everything() -> None:
    assert EVALUATORS[-1] is ComposedEvaluator
    spec = LossSpec.checked(wl.ground.Ordinal(K), epsilon=0.1)
    for kind in Kind:
        assert ComposedEvaluator.serves(spec, torch.device("cpu"), torch.float32, kind)


@pytest.mark.parametrize("again", [copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))])
def test_copies_choose_for_themselves(again: Any) -> None:
    loss_fn, logits = wl.WassersteinLoss(wl.ground.Ordinal(K)), some_logits()
    expected = loss_fn(logits, FEW)
    torch.testing.assert_close(again(loss_fn)(logits, FEW), expected)


def test_nothing_of_a_loss_is_left_to_learn_without_terms() -> None:
    logits = some_logits()
    for target in (IDS, FEW):
        loss_fn = wl.WassersteinLoss(wl.ground.Ordinal(K), kl_weight=0, transport_weight=0)
        for loss in (loss_fn(logits, target), loss_fn(logits.double(), target)):
            (gradient,) = torch.autograd.grad(loss, logits)
            assert loss == 0
            assert (gradient == 0).all()


def test_the_same_without_any_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    evaluate_with(monkeypatch)
    test_nothing_of_a_loss_is_left_to_learn_without_terms()


def test_half_precision_that_overflows_is_nan_as_in_cross_entropy() -> None:
    logits = torch.randn(BATCH, K).half()
    logits[1, 2] = torch.inf
    loss_fn = wl.WassersteinLoss(wl.ground.Ordinal(K), reduction="none")
    for target in (IDS, FEW):
        x = logits.clone().requires_grad_()
        losses = loss_fn(x, target)
        losses.sum().backward()
        assert losses.isnan().tolist() == [False, True, False, False]
        assert x.grad.isnan().any(1).tolist() == [False, True, False, False]
    with pytest.raises(ValueError, match=r"logits must not hold NaN or \+inf"):
        loss_fn(logits.float(), IDS)
