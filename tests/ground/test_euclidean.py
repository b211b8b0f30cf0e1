"""Distances by matrix products equal those by differences, also for near pairs."""

import pytest
import torch
from torch import Tensor

from wassloss import _memory
from wassloss.ground import Embedding, embedding
from wassloss.ground.embedding import by_differences, distances

F32, F64 = torch.float32, torch.float64
FEATURES = 24


def crowded_vectors(count: int, dtype: torch.dtype) -> Tensor:
    """Vectors of which some are far apart, some nearly equal (1e-3, 1e-6), some equal."""
    vectors = torch.randn(count, FEATURES, dtype=F64)
    half = count // 2
    vectors[half:] = vectors[: count - half]
    vectors[half + 4 :] += 1e-3 * torch.randn(count - half - 4, FEATURES, dtype=F64)
    vectors[half + 10 : half + 20] = vectors[10:20] * (1 + 1e-6)
    return vectors.to(dtype)


@pytest.mark.parametrize("size", [1.0, 1e-8, 1e8])
@pytest.mark.parametrize("dtype", [F32, F64])
def test_products_lose_no_digits(monkeypatch, dtype, size):
    monkeypatch.setattr(embedding, "WORTH_A_PRODUCT", 0)
    monkeypatch.setattr(_memory, "LARGEST_COLUMNS", 150)  # several blocks
    vectors = size * crowded_vectors(60, dtype)
    chosen = vectors[::7]
    found = distances(chosen, vectors)
    assert found.dtype == dtype
    expected = by_differences(chosen.double(), vectors.double())
    rounding = 8 * torch.finfo(dtype).eps
    torch.testing.assert_close(found.double(), expected, rtol=rounding, atol=0)
    assert (found[torch.arange(len(chosen)), torch.arange(60)[::7]] == 0).all()


def test_products_are_used_for_many_vectors(monkeypatch):
    vectors = torch.randn(2000, 50)
    used = []
    monkeypatch.setattr(
        embedding, "_by_product", lambda *given: used.append(len(given[0])) or torch.zeros(1, 2000)
    )
    distances(vectors[:30], vectors)
    assert sum(used) == 30


@pytest.mark.parametrize("autocast", [False, True])
def test_mixed_precision_does_not_reach_the_distances(monkeypatch, autocast):
    monkeypatch.setattr(embedding, "WORTH_A_PRODUCT", 0)
    vectors = crowded_vectors(40, F32)
    with torch.autocast("cpu", enabled=autocast):
        found = distances(vectors, vectors)
    torch.testing.assert_close(found, by_differences(vectors, vectors), rtol=1e-5, atol=0)


def test_a_learned_embedding_keeps_its_gradient(monkeypatch):
    monkeypatch.setattr(embedding, "WORTH_A_PRODUCT", 0)
    vectors = torch.randn(20, FEATURES, requires_grad=True)
    Embedding(vectors).cost_columns([1, 2]).sum().backward()
    assert vectors.grad.abs().sum() > 0
