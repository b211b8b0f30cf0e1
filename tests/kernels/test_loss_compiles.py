"""Triton's kernels compile to code for a GPU, even if there is none to run it on.

The interpreter of the other tests is Python, and accepts code that the compiler refuses.
"""

import importlib.util
from pathlib import Path
from typing import Any

import pytest

from tests.kernels.compiling import output_of

KERNELS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "newton": ("sparse_kernel", "fp64", {"PRODUCT": True}),
    "algorithm one, plan": ("sparse_kernel", "fp32", {"FIXED": True}),
    "algorithm one, product": ("sparse_kernel", "fp64", {"FIXED": True, "PRODUCT": True}),
    "few softened labels": ("sparse_kernel", "fp32", {"SOFT": True}),
    "many labels": (
        *("sparse_kernel", "fp32"),
        {"N": 48, "S": 64, "TILE": 64, "UNROLLED": False},
    ),
    "softened class ids": ("class_id_kernel", "fp32", {"TILE": 1024, "SOFT": True}),
    "softened class ids, double": (
        *("class_id_kernel", "fp64"),
        {"TILE": 1024, "TABLE": False, "SOFT": True},
    ),
    "class ids": ("class_id_kernel", "fp32", {"TILE": 1024}),
}
COMPILE = f"""
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from wassloss.kernels.triton import loss

for kind, (kernel, real, chosen) in {KERNELS!r}.items():
    kernel = getattr(loss, kernel)
    names = kernel.arg_names
    constants = dict(N=5, S=8, TILE=128, UNROLLED=True, ALIGNED=1, TABLE=True, NORMALIZE=False)
    constants |= dict(SUM=True, TALLY=True, PRODUCT=False, FIXED=False, SOFT=False) | chosen
    constants = {{name: x for name, x in constants.items() if name in names}}
    types = dict.fromkeys(names, "fp64")
    types |= dict.fromkeys(["labels", "cost_row", "cost_example", "max_iterations"], "i32")
    types |= dict.fromkeys(["cost", "weights", "logits", "value", "gradient"], "*" + real)
    types |= dict(indices="*i64", ids="*i64", ignore_index="i32", status="*u8", unsolved="*i64")
    types |= dict.fromkeys(["mean_value", "share"], "*" + real)
    types |= dict.fromkeys(["worst", "finished"], "*i32")
    types |= dict.fromkeys(constants, "constexpr")
    types = {{name: types[name] for name in names}}
    source = ASTSource(kernel, types, {{(names.index(name),): x for name, x in constants.items()}})
    made = triton.compile(source, target=GPUTarget("cuda", 90, 32), options=dict(num_warps=4))
    print(kind, len(made.asm["cubin"]), sep=":")
"""


@pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="needs triton")
def test_losses_compile(tmp_path: Path) -> None:
    """In one process, because importing torch takes longer than compiling a kernel."""
    sizes = dict(line.split(":") for line in output_of(COMPILE, tmp_path).splitlines())
    assert sizes.keys() == KERNELS.keys()
    assert all(int(size) > 0 for size in sizes.values())
