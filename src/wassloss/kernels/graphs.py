"""Work on a GPU that is launched as one: CUDA graphs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch


def captured(
    run: Callable[[], object], device: torch.device, pool: Any = None
) -> Callable[[], object] | None:
    """`run` as one launch instead of one per operation; None where it cannot be captured.

    Nothing is computed until the result is called. What `run` reads must stay where it is, and
    what it makes is overwritten by each call. Graphs of one `pool` may read what others made.
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
    except RuntimeError:  # of a library that cannot be captured
        return None
    torch.cuda.current_stream(device).wait_stream(stream)
    return graph.replay
