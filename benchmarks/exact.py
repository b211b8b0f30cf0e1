"""Exact transport, `epsilon=0`: POT's network simplex, called directly and through wassloss.

wassloss calls it on the target's support, with examples distributed over threads.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from contenders import OURS, Attempt, Contender
from problems import Work
from torch import Tensor

import wassloss as wl


def wassloss(work: Work, iterations: int) -> Attempt:
    return Attempt(
        lambda: wl.wasserstein(work.h, work.target, work.metric, epsilon=0),
        partial(_value_error, work),
    )


def pot_emd2(work: Work, iterations: int, *, restricted: bool) -> Attempt:
    examples = _examples(work, restricted)
    return Attempt(lambda: _emd2(examples), lambda values: _value_error(work, torch.tensor(values)))


def _examples(work: Work, restricted: bool) -> list[tuple[Any, Any, Any]]:
    h = work.h.cpu().double().numpy()
    if restricted:
        y, costs = work.target.weights, work.support_cost.cpu().double().numpy()
    else:
        y, costs = work.dense_target, [work.cost.cpu().double().numpy()] * work.case.batch
    return list(zip(h, y.cpu().double().numpy(), costs, strict=True))


def _emd2(examples: list[tuple[Any, Any, Any]]) -> list[float]:
    import ot

    return [float(ot.emd2(*example, numItermax=10_000_000)) for example in examples]


def _value_error(work: Work, values: Tensor) -> float:
    """The largest difference from POT's value."""
    wanted = torch.tensor(_emd2(_examples(work, restricted=True)))
    return float((values.cpu() - wanted).abs().max())


CONTENDERS = (
    Contender(OURS, wassloss),
    Contender("POT emd2, loop", partial(pot_emd2, restricted=False), one_by_one=True),
    Contender("POT emd2, loop, support only", partial(pot_emd2, restricted=True), one_by_one=True),
)
