"""The kernel of cross-entropy computes what torch does, also in `NumberTokenLoss`."""

import pytest
import torch

import wassloss as wl
from tests.kernels.compiling import output_of
from tests.triton_kernels import DEVICE, quiet
from wassloss.kernels import launch
from wassloss.language import number_tokens

pytestmark = quiet

TOKENS, WORDS = 7, 300
PRECISION = {torch.float32: 2e-6, torch.float16: 2e-3, torch.bfloat16: 1e-2}


def _logits(dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    torch.manual_seed(0)
    logits = 3 * torch.randn(TOKENS, WORDS)
    logits[0, 5:] = -torch.inf  # impossible words
    logits[1, 7] = 90.0
    logits[2] -= 1e4
    return logits.to(DEVICE, dtype), torch.tensor([3, 7, 8, 0, 299, 150, 4]).to(DEVICE)


@pytest.mark.parametrize("dtype", PRECISION)
@pytest.mark.parametrize("tile", [64, 4096])
def test_the_kernel_is_torch_cross_entropy(dtype, tile, monkeypatch):
    monkeypatch.setattr("wassloss.kernels.triton.cross_entropy.LARGEST_TILE", tile)
    logits, ids = _logits(dtype)
    which, columns = torch.tensor([1, 4]).to(DEVICE), torch.arange(3).to(DEVICE)
    given = logits, ids, which, columns, True
    value, gradient, log_h = number_tokens._cross_entropy_on_gpu(*given)
    wide = logits.double().requires_grad_()
    expected = torch.nn.functional.cross_entropy(wide, ids, reduction="none")
    expected.sum().backward()
    torch.testing.assert_close(value.double(), expected, rtol=1e-5, atol=1e-5)
    assert gradient.dtype == dtype
    eps = PRECISION[dtype]
    torch.testing.assert_close(gradient.double(), wide.grad, rtol=eps, atol=eps)
    at = wide.detach().log_softmax(1)[which][:, columns]
    torch.testing.assert_close(log_h.double(), at, rtol=1e-5, atol=1e-5)


def test_rows_without_a_softmax_are_nan():
    logits, ids = _logits(torch.float32)
    logits[3, 2], logits[4] = torch.nan, -torch.inf
    none = torch.zeros(0, dtype=torch.long, device=DEVICE)
    value, gradient, _ = number_tokens._cross_entropy_on_gpu(logits, ids, none, none, True)
    assert value.isnan().tolist() == [False, False, False, True, True, False, False]
    assert gradient[3].isnan().any()
    assert gradient[4].isnan().all()


@pytest.mark.parametrize("dtype", PRECISION)
@pytest.mark.parametrize("reduction", ["mean", "none"])
def test_numbers_are_the_same_with_and_without_it(dtype, reduction, monkeypatch):
    values = torch.full((WORDS,), torch.nan)
    values[:10] = torch.arange(10.0)
    loss_fn = wl.NumberTokenLoss(values, reduction=reduction).to(DEVICE)
    logits, ids = _logits(dtype)
    ids[5] = -100
    logits[5] = torch.nan  # ignored

    def found(compiled: bool) -> list[torch.Tensor]:
        monkeypatch.setattr(launch, "triton_available", lambda device: compiled)
        x = logits.clone().requires_grad_()
        loss = loss_fn(x, ids)
        loss.sum().backward()
        return [loss.detach(), x.grad]

    eps = PRECISION[dtype]
    for one, other in zip(found(True), found(False), strict=True):
        torch.testing.assert_close(one.double(), other.double(), rtol=eps, atol=eps)


COMPILE = """
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from wassloss.kernels.triton.cross_entropy import cross_entropy_kernel as kernel

names = kernel.arg_names
types = dict(logits="*bf16", ids="*i64", value="*fp32", largest="*fp32")
types |= dict(log_rest="*fp32", gradient="*bf16", words="i32")
types |= dict(TILE="constexpr", GRADIENT="constexpr")
constants = {(names.index("TILE"),): 4096, (names.index("GRADIENT"),): True}
made = triton.compile(
    ASTSource(kernel, types, constants), target=GPUTarget("cuda", 90, 32), options=dict(num_warps=8)
)
print(len(made.asm["cubin"]))
"""


def test_the_kernel_compiles_for_a_gpu(tmp_path):
    assert int(output_of(COMPILE, tmp_path)) > 0
