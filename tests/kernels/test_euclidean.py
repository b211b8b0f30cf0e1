"""The kernel's costs are those of torch operations; on a GPU if there is one, else interpreted."""

import pytest
import torch
from torch import Tensor

from tests.ground.test_euclidean import crowded_vectors
from tests.triton_kernels import CUDA, DEVICE, quiet
from wassloss.ground import Embedding
from wassloss.ground._cost import cost_of
from wassloss.ground.embedding import NEAR_IN_SINGLE, by_differences
from wassloss.kernels.triton.euclidean import launch

pytestmark = quiet


def costs(chosen: Tensor, vectors: Tensor, power: float, scale: float) -> Tensor:
    found = chosen @ vectors.T
    launch(found, chosen, vectors, power, scale, NEAR_IN_SINGLE)
    return found


@pytest.mark.parametrize("power", [0, 0.5, 1, 2, 13])
@pytest.mark.parametrize("size", [1.0, 100.0])
def test_costs(power, size):
    vectors = crowded_vectors(150, torch.float32)
    vectors = size * vectors / vectors.norm(dim=1, keepdim=True)
    vectors[5] = vectors[70]
    chosen, scale = vectors[[70, 3, 100, 20, 149]], 1.3 * size
    found = costs(chosen.to(DEVICE), vectors.to(DEVICE), power, scale).cpu()
    distance = by_differences(chosen.double(), vectors.double())
    expected = cost_of(distance, power, scale)
    # The squares of near vectors are exact; the others are rounded.
    torch.testing.assert_close(found.double(), expected, rtol=2e-6 * max(1, power), atol=1e-6)
    assert found[0, 5] == 0
    assert found[0, 70] == 0


def test_no_vectors_chosen():
    vectors = torch.randn(10, 4, device=DEVICE)
    assert costs(vectors[:0], vectors, 1, 1.0).shape == (0, 10)


@pytest.mark.skipif(not CUDA, reason="needs a CUDA device")
@pytest.mark.parametrize("precision", ["highest", "high"])
def test_the_users_choice_of_fewer_digits_does_not_reach_the_costs(precision):
    vectors = torch.nn.functional.normalize(torch.randn(3000, 64, device="cuda"), dim=1)
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(precision)
    try:
        found = Embedding(vectors).cost_columns(torch.arange(50))
    finally:
        torch.set_float32_matmul_precision(before)
    expected = by_differences(vectors[:50].double(), vectors.double())
    torch.testing.assert_close(found.double(), expected, rtol=0, atol=1e-6)
