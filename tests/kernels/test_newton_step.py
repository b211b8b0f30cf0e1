"""The linear system of a Newton step on the GPU, solved as a random walk on a graph."""

import pytest
import torch
from torch import Tensor

from tests.triton_kernels import DEVICE, quiet
from wassloss.kernels.launch import start_kernel

# isort: split
import triton
import triton.language as tl

from wassloss.kernels.triton.newton_passes import newton_step

pytestmark = quiet
F64 = torch.float64


def step_function(coupling, excess, right, x, N: tl.constexpr, S: tl.constexpr):
    slot = tl.arange(0, S)
    tile = tl.load(coupling + slot[:, None] * S + slot[None, :])
    found = newton_step(tile, tl.load(excess + slot), tl.load(right + slot), N, S, False)
    tl.store(x + slot, found)


step_kernel = triton.jit(step_function)


def step(coupling: Tensor, excess: Tensor, right: Tensor, labels: int) -> Tensor:
    size = len(excess)
    tensors = [x.to(DEVICE, torch.float32) for x in (coupling, excess, right, torch.empty(size))]
    start_kernel(step_kernel, 1, tuple(tensors), (), (), {"N": labels, "S": size})
    return tensors[3].cpu().double()


def system(size: int, labels: int, spread: float, excess: float) -> tuple[Tensor, Tensor, Tensor]:
    """Couplings between labels over some orders of magnitude; padding has an excess of 1."""
    generator = torch.Generator().manual_seed(size + labels)
    logs = spread * torch.rand(size, size, generator=generator, dtype=F64)
    coupling = torch.exp(-(logs + logs.T))
    diagonal = torch.full((size,), excess, dtype=F64)
    right = torch.randn(size, generator=generator, dtype=F64)
    coupling[labels:] = coupling[:, labels:] = 0
    diagonal[labels:], right[labels:] = 1, 0
    right[:labels] -= right[:labels].mean()
    return coupling, diagonal, right


@pytest.mark.parametrize(("size", "labels"), [(16, 13), (32, 20), (64, 48), (64, 64)])
@pytest.mark.parametrize("spread", [1.0, 5.0])
@pytest.mark.parametrize("excess", [1e-1, 1e-6])
def test_the_step_solves_the_system(size: int, labels: int, spread: float, excess: float) -> None:
    coupling, diagonal, right = system(size, labels, spread, excess)
    off = coupling - coupling.diag().diag()
    expected = torch.linalg.solve((diagonal + off.sum(1)).diag() - off, right)
    found = step(coupling, diagonal, right, labels)
    assert not found[labels:].any()
    # Rounding of the right-hand side shifts all labels equally, by its sum over the excess.
    found, expected = (x[:labels] - x[:labels].mean() for x in (found, expected))
    # The next step corrects the error of a step, so a few percent are enough.
    assert (found - expected).norm() <= 0.05 * expected.norm()
