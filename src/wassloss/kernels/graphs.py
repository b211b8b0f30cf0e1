"""CUDA graphs: many operations on a GPU in one launch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch


def captured(
    run: Callable[[], object], device: torch.device, pool: Any = None
) -> Callable[[], object] | None:
    """Capture `run` in a CUDA graph, and return its replay; None if it cannot be captured.

    Nothing is computed until the replay is called. Tensors that `run` reads must stay in place, and
    each replay overwrites those it creates. Graphs that share a `pool` may read each other's.
    """
    graph, stream = torch.cuda.CUDAGraph(), torch.cuda.Stream(device)
    stream.wait_stream(torch.cuda.current_stream(device))
    try:
        # torch.cuda.graph would collect garbage first, which takes longer than most solves.
        with torch.cuda.stream(stream):
            torch.cuda.current_blas_handle()  # which cannot be created while capturing
            graph.capture_begin(pool, capture_error_mode="thread_local")
            try:
                run()
            finally:
                graph.capture_end()
    except RuntimeError:  # from a library call that cannot be captured
        return None
    torch.cuda.current_stream(device).wait_stream(stream)
    return graph.replay
