"""Checks of values, also where nobody can look at them yet.

While `torch.compile` traces there are only shapes. A check then becomes an operation of its own,
opaque to the compiler, which looks when the graph runs and raises what it would have raised at
once. While a CUDA graph is captured nothing has been computed, and when it is replayed nobody is
there to raise: the examples that make no sense are marked with NaN instead.

Either way the check has to be part of the result, or it would be optimised away: it returns marks,
0 for each example that makes sense, to be added to the target's weights.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec

import torch
from torch import Tensor

P = ParamSpec("P")


def checking() -> bool:
    """Whether values may be looked at."""
    if torch.compiler.is_compiling():
        return False
    return not (torch.cuda.is_initialized() and torch.cuda.is_current_stream_capturing())


def marked(x: Tensor, marks: Tensor | None) -> Tensor:
    """`x (batch, …)` with NaN in the examples marked so; as it is where values were looked at."""
    if marks is None:
        return x
    return x + marks.to(x.dtype).reshape(-1, *[1] * (x.dim() - 1))


def traceable(
    schema: str, wrong: Callable[P, Tensor]
) -> Callable[[Callable[P, None]], Callable[P, Tensor | None]]:
    """Let a check be part of a graph.

    Args:
        schema: name and arguments as an operation of torch, the first a tensor `(batch, …)`.
        wrong: which examples the check would refuse, `(batch,)`, in tensor operations alone.

    Returns:
        A decorator. The check then returns None if it could look, else marks `(batch,)`.
    """
    name = schema.split("(", maxsplit=1)[0]

    def decorate(check: Callable[P, None]) -> Callable[P, Tensor | None]:
        def look(*args: P.args, **kwargs: P.kwargs) -> Tensor | None:
            if checking():
                check(*args, **kwargs)
                return None
            mask = wrong(*args, **kwargs)
            return torch.zeros(mask.shape, device=mask.device).masked_fill(mask, torch.nan)

        def look_when_it_runs(x: Tensor, *rest: object) -> Tensor:
            found = look(x, *rest)  # type: ignore[arg-type, call-arg]
            return x.new_zeros(len(x), dtype=torch.float32) if found is None else found

        operation = torch.library.custom_op(
            f"wassloss::{name}",
            look_when_it_runs,
            mutates_args=(),
            schema=f"{schema[len(name) :]} -> Tensor",
        )
        operation.register_fake(lambda x, *rest: x.new_empty(x.shape[0], dtype=torch.float32))
        traced = getattr(torch.ops.wassloss, name).default

        def checked(*args: P.args, **kwargs: P.kwargs) -> Tensor | None:
            if torch.compiler.is_compiling():
                marks: Tensor = traced(*args, **kwargs)
                return marks
            return look(*args, **kwargs)

        checked.__doc__ = check.__doc__
        return checked

    return decorate
