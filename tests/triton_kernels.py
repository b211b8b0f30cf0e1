"""Where the Triton kernels run in tests: on a GPU if there is one, else interpreted on the CPU."""

import importlib.util
import sys

import pytest
import torch

if importlib.util.find_spec("triton") is None:
    pytest.skip("needs triton (pip install triton)", allow_module_level=True)

CUDA = torch.cuda.is_available()
DEVICE = torch.device("cuda" if CUDA else "cpu")
if not CUDA:
    if "triton" in sys.modules:
        pytest.skip("needs triton to be imported in here first", allow_module_level=True)
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("TRITON_INTERPRET", "1")  # read where functions are defined, and run
        import wassloss.kernels.triton.cross_entropy
        import wassloss.kernels.triton.euclidean
        import wassloss.kernels.triton.gibbs
        import wassloss.kernels.triton.linear_head
        import wassloss.kernels.triton.loss  # noqa: F401

# The interpreter computes with NumPy, which has something to say about every infinity.
quiet = pytest.mark.filterwarnings("ignore::RuntimeWarning")


@pytest.fixture(autouse=True)
def interpreted(monkeypatch: pytest.MonkeyPatch) -> None:
    """To be imported by the modules that run kernels."""
    if not CUDA:
        monkeypatch.setenv("TRITON_INTERPRET", "1")
