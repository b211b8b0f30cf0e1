"""Triton's kernels compile to code for a GPU, where there is none to run it on.

The interpreter that the other tests use is Python: it lets pass what the compiler refuses.
"""

import importlib.util
import os
import subprocess
import sys

import pytest

COMPILE = """
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from wassloss.kernels.triton.loss import sparse_kernel as kernel

names = kernel.arg_names
shape, real = dict(N=5, S=8, TILE=128, UNROLLED=True), {real!r}
chosen = dict(ALIGNED=1, TABLE=True, PRODUCT={product}, NORMALIZE=False, TALLY=True, FIXED={fixed})
constants = {{**shape, **chosen}}
types = dict.fromkeys(names, "fp64")
types |= dict.fromkeys(["labels", "cost_row", "cost_example", "max_iterations"], "i32")
types |= dict.fromkeys(["cost", "weights", "logits", "value", "gradient"], "*" + real)
types |= dict(indices="*i64", status="*u8", unsolved="*i64")
types |= dict.fromkeys(constants, "constexpr")
source = ASTSource(kernel, types, {{(names.index(name),): x for name, x in constants.items()}})
made = triton.compile(source, target=GPUTarget("cuda", 90, 32), options=dict(num_warps=4))
print(len(made.asm["cubin"]))
"""


@pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="needs triton")
@pytest.mark.parametrize(
    ("fixed", "product", "real"),
    [(False, True, "fp64"), (True, False, "fp32"), (True, True, "fp64")],
    ids=["newton", "algorithm one, plan", "algorithm one, product"],
)
def test_losses_of_few_labels_compile(fixed: bool, product: bool, real: str, tmp_path) -> None:
    script = COMPILE.format(fixed=fixed, product=product, real=real)
    environment = {name: x for name, x in os.environ.items() if name != "TRITON_INTERPRET"}
    done = subprocess.run(
        [sys.executable, "-c", script],
        env=environment | {"TRITON_CACHE_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 0
