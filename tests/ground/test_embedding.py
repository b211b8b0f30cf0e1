import numpy as np
import pytest
import torch
from scipy.spatial.distance import cdist

from wassloss.ground import Embedding


@pytest.mark.parametrize("normalize", [True, False])
def test_distances_are_those_of_scipy(normalize: bool) -> None:
    vectors = np.random.default_rng(0).normal(size=(40, 7)) * 3
    metric = Embedding(vectors, normalize=normalize)
    expected = vectors / np.linalg.norm(vectors, axis=1, keepdims=True) if normalize else vectors
    np.testing.assert_allclose(metric.vectors.numpy(), expected, rtol=1e-12)
    np.testing.assert_allclose(metric.distance().numpy(), cdist(expected, expected), atol=1e-12)


def test_near_vectors_keep_their_distance_and_equal_ones_have_none() -> None:
    base = torch.randn(1, 300)
    vectors = base.repeat(60, 1)  # enough rows for torch to prefer the expansion
    vectors[1, 0] += 1e-4
    distance = Embedding(vectors, normalize=False).distance()
    gap = (vectors[1, 0] - vectors[0, 0]).item()
    assert distance[0, 1].item() == pytest.approx(abs(gap), rel=1e-5)
    assert (distance[2:, 2:] == 0).all()


def test_rows_of_any_magnitude_are_normalized() -> None:
    vectors = torch.tensor([[3e30, 4e30], [3e-30, 4e-30], [-4.0, 3.0]])
    metric = Embedding(vectors)
    torch.testing.assert_close(metric.vectors.norm(dim=1), torch.ones(3))
    torch.testing.assert_close(metric.distance()[0], torch.tensor([0.0, 0.0, 2**0.5]))


@pytest.mark.parametrize("normalize", [True, False])
@pytest.mark.parametrize("power", [0.5, 1.0, 2.0])
def test_gradient_agrees_with_differences(normalize: bool, power: float) -> None:
    def costs(vectors: torch.Tensor) -> torch.Tensor:
        metric = Embedding(vectors, normalize=normalize, power=power, scale=2.0)
        return metric.cost_columns(torch.tensor([0, 3]))[:, [1, 2, 4]]  # without i = j

    vectors = torch.randn(5, 3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(costs, vectors)


def test_gradient_is_finite_where_vectors_coincide() -> None:
    vectors = torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]], requires_grad=True)
    metric = Embedding(vectors, power=0.5)
    assert metric.requires_grad
    metric.cost().sum().backward()
    assert vectors.grad is not None
    assert torch.isfinite(vectors.grad).all()
    coinciding = Embedding(vectors[:2], normalize=False, power=0.5).cost().sum()
    (gradient,) = torch.autograd.grad(coinciding, vectors)
    assert (gradient == 0).all()


def test_a_parameter_is_followed_as_it_learns() -> None:
    vectors = torch.nn.Parameter(torch.randn(4, 2))
    metric = Embedding(vectors)
    optimizer = torch.optim.SGD([vectors], lr=0.1)
    for _ in range(2):
        before = metric.cost()[0, 1].item()
        optimizer.zero_grad()
        metric.cost_columns([0])[0, 1].backward()
        optimizer.step()
        assert metric.cost()[0, 1].item() < before


def test_lists_of_vectors() -> None:
    rows = [np.array([1.0, 0.0]), np.array([0.0, 1.0])]
    assert Embedding(rows).dtype == torch.float64
    assert Embedding([torch.tensor([1.0, 0.0]), torch.tensor([0.0, 1.0])]).size == 2


def test_many_labels_never_become_a_square_matrix() -> None:
    metric = Embedding(torch.randn(100_000, 16), scale="median")
    assert metric.cost_columns([0, 5, 99_999]).shape == (3, 100_000)
    assert metric.median_cost() == pytest.approx(1.0)
