"""Losses are bit for bit the same in every process and at every call."""

import random

import numpy as np
import torch

import wassloss as wl
from tests.evaluators import needs_native

pytestmark = needs_native


def test_the_same_call_has_the_same_bits_wherever_its_memory_is() -> None:
    rng = random.Random(0)
    loss_fn = wl.WassersteinLoss(wl.ground.Ordinal(50), reduction="none")
    x, ids = torch.randn(2000, 50), torch.randint(50, (2000,))
    held, found = [], set()
    for _ in range(100):  # allocations in between move the arrays
        held.append([np.empty(rng.choice([40, 50, 64, 2000]), np.float32) for _ in range(4)])
        if rng.random() < 0.5:
            held.pop(rng.randrange(len(held)))
        found.add(loss_fn(x, ids).numpy().tobytes())
    assert len(found) == 1
