"""Kernels run in the suite, on a GPU or interpreted, whatever was imported first."""

import os

import pytest
import torch


@pytest.mark.skipif(torch.cuda.is_available(), reason="a GPU runs kernels")
def test_kernels_are_interpreted_without_a_gpu() -> None:
    pytest.importorskip("triton")
    import triton.language as tl
    from triton.runtime.interpreter import InterpretedFunction

    from wassloss.kernels.triton import loss

    assert os.environ["TRITON_INTERPRET"] == "1"
    for function in (loss.class_id_kernel, loss.sparse_kernel, tl.sum):
        assert isinstance(function, InterpretedFunction)
