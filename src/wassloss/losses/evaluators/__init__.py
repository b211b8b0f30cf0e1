"""Ways to evaluate a loss, in the order in which they are tried on a batch.

To add one, write a subclass of `Evaluator` in a file of its own and put it in `EVALUATORS`.
"""

from __future__ import annotations

from wassloss.losses.evaluators.base import Evaluator
from wassloss.losses.evaluators.composed import ComposedEvaluator
from wassloss.losses.evaluators.dense_graphs import DenseGraphEvaluator
from wassloss.losses.evaluators.native import NativeEvaluator
from wassloss.losses.evaluators.native_sets import NativeSetEvaluator
from wassloss.losses.evaluators.triton import TritonEvaluator

EVALUATORS: list[type[Evaluator]] = [
    NativeEvaluator, NativeSetEvaluator, TritonEvaluator, DenseGraphEvaluator, ComposedEvaluator,
]  # fmt: skip
