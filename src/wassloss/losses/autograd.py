"""Values with a known derivative: how solvers pass their gradients to autograd.

The envelope theorem gives the derivative of an optimal value from the optimum alone. No graph is
kept through the iterations, so memory does not depend on their number.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad


def with_gradient(value: Tensor, *pairs: tuple[Tensor, Tensor]) -> Tensor:
    """Make `value (batch,)` differentiable in each input, given its gradient `(batch, …)`."""
    inputs = [x for x, _ in pairs]
    gradients = [gradient for _, gradient in pairs]
    result: Tensor = _Envelope.apply(value, *inputs, *gradients)
    return result


def independent_of(x: Tensor) -> Tensor:
    """Zeros `(batch,)` with a gradient of 0 in `x (batch, …)`."""
    zeros = x.new_zeros(len(x))
    return with_gradient(zeros, (x, torch.zeros_like(x))) if x.requires_grad else zeros


def with_fused_gradient(value: Tensor, x: Tensor, gradient: Tensor) -> Tensor:
    """A faster `with_gradient`, for one input and outside of `torch.func`'s transforms."""
    result: Tensor = _FusedEnvelope.apply(x, (value, gradient, None))
    return result


def check_reverse_mode(*inputs: Tensor | None) -> None:
    """Refuse forward-mode derivatives: solvers ignore tangents, so they would silently be wrong."""
    if any(x is not None and forward_ad.unpack_dual(x).tangent is not None for x in inputs):
        raise RuntimeError(
            "wassloss losses have no forward-mode derivative (jvp, jacfwd, forward_ad): use "
            "backward, torch.autograd.grad or torch.func.grad"
        )


def reduced_with_fused_gradient(
    reduced: Tensor, x: Tensor, gradient: Tensor, share: Tensor | float | None
) -> Tensor:
    """A mean or sum of values, differentiable in `x`, given the gradient of each value.

    Each gradient is multiplied by `share`, None for 1. This takes one step in the backward pass
    instead of two.
    """
    result: Tensor = _FusedEnvelope.apply(x, (reduced, gradient, share))
    return result


class _Envelope(torch.autograd.Function):
    # torch.func.grad needs a separate setup_context, and jacrev this rule.
    generate_vmap_rule = True

    @staticmethod
    def forward(value: Tensor, *inputs_and_gradients: Tensor) -> Tensor:
        return value.clone()

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        ctx.save_for_backward(*inputs[1:])

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor | None, ...]:
        saved = ctx.saved_tensors
        count = len(saved) // 2
        triples = zip(ctx.needs_input_grad[1:], saved[:count], saved[count:], strict=False)
        results = [_scaled(g, grad_output, x) if needed else None for needed, x, g in triples]
        return None, *results, *[None] * count


class _FusedEnvelope(torch.autograd.Function):
    # No separate setup_context, because torch inspects its signature at every call. All but `x` is
    # in a tuple, because outputs that are not inputs need no copy.
    @staticmethod
    def forward(ctx: Any, x: Tensor, found: tuple[Tensor, Tensor, Tensor | float | None]) -> Tensor:
        value, gradient, ctx.share = found
        ctx.save_for_backward(x, gradient)
        return value

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor, None]:
        x, gradient = ctx.saved_tensors
        if ctx.share is not None:
            grad_output = grad_output * ctx.share
        return _scaled(gradient, grad_output, x), None


def _scaled(gradient: Tensor, grad_output: Tensor, x: Tensor) -> Tensor:
    """Always a new tensor: the caller may change it, and a retained graph reuses `gradient`."""
    if grad_output.dim():  # a tensor with dimensions would promote a gradient in half precision
        grad_output = grad_output.reshape(-1, *[1] * (gradient.dim() - 1))
    return first_order_only(grad_output * gradient, x)


def first_order_only(gradient: Tensor, x: Tensor) -> Tensor:
    """Make a second derivative raise an error, instead of treating the gradient as constant."""
    if torch.is_grad_enabled():
        gradient = _FirstOrderOnly.apply(gradient, x)
    return gradient


class _FirstOrderOnly(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(gradient: Tensor, x: Tensor) -> Tensor:
        return gradient.clone()

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        pass

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor, None]:
        raise RuntimeError(
            "wassloss losses are differentiable once: their gradient comes from the optimum of a "
            "solve, which is not itself differentiated. Leave them out of second derivatives "
            "(double backward, gradient penalties, Hessian-vector products)."
        )
