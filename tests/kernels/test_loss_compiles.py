"""Triton's kernels compile to code for a GPU, where there is none to run it on.

The interpreter that the other tests use is Python: it lets pass what the compiler refuses.
"""

import importlib.util
from typing import Any

import pytest

from tests.kernels.compiling import output_of

COMPILE = """
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from wassloss.kernels.triton.loss import {kernel} as kernel

names, real = kernel.arg_names, {real!r}
constants = dict(N=5, S=8, TILE=128, UNROLLED=True, ALIGNED=1, TABLE=True, NORMALIZE=False)
constants |= dict(TALLY=True, PRODUCT=False, FIXED=False, SOFT=False) | {chosen}
constants = {{name: x for name, x in constants.items() if name in names}}
types = dict.fromkeys(names, "fp64")
types |= dict.fromkeys(["labels", "cost_row", "cost_example", "max_iterations"], "i32")
types |= dict.fromkeys(["cost", "weights", "logits", "value", "gradient"], "*" + real)
types |= dict(indices="*i64", ids="*i64", ignore_index="i32", status="*u8", unsolved="*i64")
types |= dict.fromkeys(["mean", "share"], "*" + real) | dict(worst="*i32", examples="i32")
types |= dict.fromkeys(constants, "constexpr")
types = {{name: types[name] for name in names}}
source = ASTSource(kernel, types, {{(names.index(name),): x for name, x in constants.items()}})
made = triton.compile(source, target=GPUTarget("cuda", 90, 32), options=dict(num_warps=4))
print(len(made.asm["cubin"]))
"""


@pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="needs triton")
@pytest.mark.parametrize(
    ("kernel", "real", "chosen"),
    [
        ("sparse_kernel", "fp64", {"PRODUCT": True}),
        ("sparse_kernel", "fp32", {"FIXED": True}),
        ("sparse_kernel", "fp64", {"FIXED": True, "PRODUCT": True}),
        ("sparse_kernel", "fp32", {"SOFT": True}),
        ("sparse_kernel", "fp32", {"N": 48, "S": 64, "TILE": 64, "UNROLLED": False}),
        ("class_id_kernel", "fp32", {"TILE": 1024, "SOFT": True}),
        ("class_id_kernel", "fp64", {"TILE": 1024, "TABLE": False, "SOFT": True}),
        ("class_id_kernel", "fp32", {"TILE": 1024}),
        ("summary_kernel", "fp64", {"TILE": 1024}),
    ],
    ids=[
        *("newton", "algorithm one, plan", "algorithm one, product", "few softened labels"),
        *(
            "many labels",
            "softened class ids",
            "softened class ids, double",
            "class ids",
            "summary",
        ),
    ],
)
def test_losses_compile(kernel: str, real: str, chosen: dict[str, Any], tmp_path) -> None:
    script = COMPILE.format(kernel=kernel, real=real, chosen=chosen)
    assert int(output_of(script, tmp_path)) > 0
