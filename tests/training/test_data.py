"""Training data in memory."""

from typing import Any

import pytest
import torch
from torch import nn

import wassloss as wl
from tests.training.problems import LABELS, grades, linear, tags, wasserstein
from wassloss.training import TrainingPlan, train
from wassloss.training.batches import Examples

PLAN = TrainingPlan(steps=20, batch_size=32)


def dense(target: wl.SparseTarget) -> torch.Tensor:
    zeros = torch.zeros(len(target.weights), LABELS)
    return zeros.scatter_add(1, target.indices, target.weights)


@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support")
def test_targets_in_every_form_train_alike() -> None:
    x, sparse = tags()
    y = dense(sparse)
    models = []
    for target in (sparse, y, y.to_sparse(), y.to_sparse_csr()):
        model = linear()
        train(model, wasserstein(), (x, target), PLAN)
        models.append(model)
    for other in models[1:]:
        torch.testing.assert_close(other.state_dict(), models[0].state_dict())


def test_class_ids_train_as_their_one_hot_weights() -> None:
    x, ids = grades()
    one, other = linear(), linear()
    train(one, wasserstein(), (x, ids), PLAN)
    train(other, wasserstein(), (x, nn.functional.one_hot(ids, LABELS).float()), PLAN)
    torch.testing.assert_close(one.state_dict(), other.state_dict())


def test_sparse_batches_are_as_wide_as_their_fullest_row() -> None:
    indices = torch.tensor([[0, 1, 2], [3, 0, 0], [4, 0, 1]])
    weights = torch.tensor([[0.2, 0.3, 0.5], [1.0, 0, 0], [0.5, 0, 0.5]])
    examples = Examples((torch.zeros(3, 1), wl.SparseTarget(indices, weights)))
    assert [examples.take(torch.tensor([i]))[1].weights.shape[1] for i in range(3)] == [3, 1, 3]
    _, both = examples.take(torch.tensor([1, 2]))
    torch.testing.assert_close(both.weights, weights[1:])


def test_further_columns_reach_the_loss() -> None:
    x, y = grades()
    weights = torch.zeros(len(x))
    weights[:50] = 1.0
    one, other = linear(), linear()
    plan = TrainingPlan(steps=10, batch_size=200)
    train(one, wasserstein(), (x, y, weights), plan)
    train(other, wasserstein(), (x[:50], y[:50]), plan)  # each of its batches four times
    torch.testing.assert_close(one.state_dict(), other.state_dict(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("data", "error", "message"),
    [
        ((torch.zeros(3, 6),), ValueError, r"data must be \(features, target\), got 1"),
        ((torch.zeros(3, 6), torch.zeros(4)), ValueError, r"as many features as targets, got \[3"),
        ((torch.zeros(0, 6), torch.zeros(0)), ValueError, "data must hold examples, got none"),
        (
            (torch.full((3, 6), torch.nan), torch.zeros(3)),
            ValueError,
            "finite features, got nan in row 0",
        ),
        ((torch.zeros(3, 6), [0, 1, 2]), TypeError, "data must hold tensors, .* got list"),
        ((x for x in ()), TypeError, r"data must be \(features, target\), in memory, got gener"),
        ([3, 4], TypeError, "data must hold tensors, .* got int"),
    ],
)
def test_wrong_data(data: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        train(linear(), nn.CrossEntropyLoss(), data, PLAN)
