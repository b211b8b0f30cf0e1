"""Modules that doctests cannot import here are left out of the collection."""

import importlib.util

collect_ignore: list[str] = []
if importlib.util.find_spec("triton") is None:
    collect_ignore += [
        "src/wassloss/fused/_kernels_triton.py",
        "src/wassloss/ground/_euclidean_triton.py",
        "src/wassloss/transport/_newton_triton.py",
        "src/wassloss/transport/_newton_triton_passes.py",
    ]
if importlib.util.find_spec("numba") is None:
    collect_ignore += [
        "src/wassloss/fused/_kernels_numba.py",
        "src/wassloss/training/many/_kernel.py",
        "src/wassloss/transport/_newton_kernel.py",
        "src/wassloss/transport/_vectorized.py",
    ]
if importlib.util.find_spec("torchmetrics") is None:
    collect_ignore += ["src/wassloss/scores/accumulators.py"]
if importlib.util.find_spec("pyarrow") is None:
    collect_ignore += ["src/wassloss/data/streaming.py"]
if importlib.util.find_spec("typer") is None:
    collect_ignore += ["src/wassloss/cli", "tests/cli", "tests/report"]
