"""The kernels of a language model's head agree with the torch version, and compile."""

import pytest
import torch

import wassloss as wl
from tests.kernels.compiling import output_of
from tests.language.test_linear_head import TOKENS, direct, metrics, problem, with_gradients
from tests.triton_kernels import DEVICE, quiet
from wassloss import _memory
from wassloss.language import head_chunks
from wassloss.losses import modules

pytestmark = quiet


def results(given, metric, keywords, triton: bool, monkeypatch) -> list[torch.Tensor]:
    monkeypatch.setattr(head_chunks, "_triton_fits", lambda hidden: triton)
    monkeypatch.setattr(_memory, "LARGEST_CHUNK_BYTES", 2**12)  # several chunks
    monkeypatch.setattr(modules, "LARGEST_TABLE", 0)  # costs on demand
    return with_gradients(direct(metric, *given, **keywords), given[:3])


@pytest.mark.parametrize("name", metrics())
@pytest.mark.parametrize(
    ("dtype", "keywords"),
    [
        (torch.float32, {}),
        (torch.float32, {"softcap": 2.0, "reduction": "none"}),
        (torch.float32, {"regularizer": "product", "kl_weight": 0.0, "softcap": 1.0}),
        (torch.bfloat16, {"transport_weight": 0.5, "reduction": "sum"}),
        (torch.float16, {}),
    ],
)
def test_kernels_compute_the_torch_version(name, dtype, keywords, monkeypatch):
    metric = metrics()[name].to(DEVICE)
    for power in (1.0, 1.5, 2.0):
        given = problem(dtype, DEVICE)
        with torch.no_grad():
            given[2][3], given[2][5] = -torch.inf, 20.0  # an impossible word, and a dominant one
        given[3][given[3] == 3] = 5
        arguments = given, metric.with_cost(power=power), keywords
        found = results(*arguments, True, monkeypatch)
        expected = results(*arguments, False, monkeypatch)
        eps = {torch.float32: 2e-5, torch.float16: 3e-3, torch.bfloat16: 2e-2}[dtype]
        for one, other in zip(found, expected, strict=True):
            torch.testing.assert_close(one, other, rtol=eps, atol=eps * float(other.abs().max()))


def test_more_words_than_a_program_passes_over(monkeypatch):
    monkeypatch.setattr("wassloss.kernels.triton.linear_head.TILES", 1)
    words, vectors = 300, torch.randn(300, 40)
    given = [torch.randn(TOKENS, 8), torch.randn(words, 8), torch.randn(words)]
    given = [x.to(DEVICE).requires_grad_() for x in given]
    given.append(torch.randint(words, (TOKENS,)).to(DEVICE))
    for metric in (wl.ground.Ordinal(words), wl.ground.Embedding(vectors)):
        found = results(given, metric.to(DEVICE), {}, True, monkeypatch)
        expected = results(given, metric.to(DEVICE), {}, False, monkeypatch)
        for one, other in zip(found, expected, strict=True):
            torch.testing.assert_close(one, other, rtol=2e-4, atol=2e-4 * float(other.abs().max()))


def test_a_nan_stays_one(monkeypatch):
    given = problem(torch.float32, DEVICE)
    with torch.no_grad():
        given[0][[1, 4]] = torch.nan  # the second is ignored
    losses = results(given, metrics()["line"].to(DEVICE), {"reduction": "none"}, True, monkeypatch)
    assert losses[0].isnan().nonzero().flatten().tolist() == [1]


COMPILE = """
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from wassloss.kernels.triton.linear_head import gradient_kernel, sums_kernel, tile

def compile(kernel, kind, **more):
    costs = dict(KIND=kind, POWER=1, FEATURES=32, ALIGNED=4, PRECISION="tf32", CAPPED=True)
    rows, columns, warps = tile(kind)
    names, constants = kernel.arg_names, costs | dict(ROWS=rows, COLUMNS=columns) | more
    types = dict.fromkeys(names, "fp32") | dict.fromkeys(["tokens", "words", "width"], "i32")
    types |= dict.fromkeys(["found", "own", "own_squares", "squares", "terms"], "*fp32")
    types |= dict(logits="*bf16", target="*i64", others="*i64" if kind == "places" else "*fp32")
    types = {name: types[name] for name in names} | dict.fromkeys(constants, "constexpr")
    source = ASTSource(kernel, types, {(names.index(n),): x for n, x in constants.items()})
    triton.compile(source, target=GPUTarget("cuda", 90, 32), options=dict(num_warps=warps))

compile(sums_kernel, "places", TILES=8)
compile(gradient_kernel, "vectors")
"""


def test_kernels_compile(tmp_path) -> None:
    output_of(COMPILE, tmp_path)
