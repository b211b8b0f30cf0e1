"""Choose the evaluators, and the implementations of a solver, that a test is about."""

from __future__ import annotations

import pytest
import torch

from wassloss import native
from wassloss.kernels import launch
from wassloss.losses import evaluators
from wassloss.losses.evaluators.base import Evaluation, Evaluator
from wassloss.losses.evaluators.composed import ComposedEvaluator
from wassloss.losses.evaluators.triton import TritonEvaluator
from wassloss.losses.spec import LossSpec
from wassloss.targets import Kind, Target, read_form

needs_native = pytest.mark.skipif(not native.available(), reason="needs the compiled core")


class TritonAnywhere(TritonEvaluator):
    """Triton's kernels, also if they are interpreted on the CPU."""

    @classmethod
    def serves(cls, spec: LossSpec, device: torch.device, dtype: torch.dtype, kind: Kind) -> bool:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(launch, "triton_available", lambda device: True)
            return super().serves(spec, device, dtype, kind)


def evaluate_with(patch: pytest.MonkeyPatch, *chosen: type[Evaluator]) -> None:
    """Try these evaluators first, then the composed one; without any, only the composed one.

    Applies to losses that have not been called before.
    """
    patch.setattr(evaluators, "EVALUATORS", [*chosen, ComposedEvaluator])


def without_native(patch: pytest.MonkeyPatch) -> None:
    """Behave as if the core had not been compiled."""
    patch.setattr(native, "available", lambda: False)


def evaluation(
    evaluator: type[Evaluator], logits: torch.Tensor, target: Target, spec: LossSpec
) -> Evaluation | None:
    """Evaluate `(batch, labels)` logits; None if the evaluator does not support them."""
    from wassloss.losses.evaluators.base import Batch

    read = read_form(target, spec.metric.size, logits.shape[:-1], logits)
    given = logits.device, logits.dtype, read.kind
    if not evaluator.serves(spec, *given):
        return None
    return evaluator(spec, logits.dtype, read.kind)(Batch(logits, read))
