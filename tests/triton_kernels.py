"""The device of Triton kernels in tests: a GPU if there is one, else the CPU's interpreter.

`conftest.py` enables the interpreter before Triton is imported.
"""

import importlib.util

import pytest
import torch

if importlib.util.find_spec("triton") is None:
    pytest.skip("needs triton", allow_module_level=True)

CUDA = torch.cuda.is_available()
DEVICE = torch.device("cuda" if CUDA else "cpu")

# The interpreter computes with NumPy, which warns about every infinity.
quiet = pytest.mark.filterwarnings("ignore::RuntimeWarning")
