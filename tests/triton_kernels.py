"""Where the Triton kernels run in tests: on a GPU if there is one, else interpreted on the CPU.

`conftest.py` has Triton interpret them, before anything imports it.
"""

import importlib.util

import pytest
import torch

if importlib.util.find_spec("triton") is None:
    pytest.skip("needs triton", allow_module_level=True)

CUDA = torch.cuda.is_available()
DEVICE = torch.device("cuda" if CUDA else "cpu")

# The interpreter computes with NumPy, which has something to say about every infinity.
quiet = pytest.mark.filterwarnings("ignore::RuntimeWarning")
