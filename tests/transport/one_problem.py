"""One small problem in double precision, all positive, and its answer to thirteen digits."""

from typing import Any, NamedTuple

import numpy as np
import torch

import wassloss as wl
from tests.generators import random_masses, random_metric
from tests.oracles import Array
from wassloss.transport import Newton

K = 6


class Masses(NamedTuple):
    h: Array
    y: Array
    M: Array


def one_problem() -> Masses:
    h, y = random_masses(1, K, seed=11)[0] + 0.02, random_masses(1, K, seed=12)[0] + 0.02
    return Masses((h / h.sum()).numpy(), (y / y.sum()).numpy(), random_metric(K).cost().numpy())


def ours(h: Any, y: Any, M: Any, **keywords: Any) -> wl.Solution:
    rows = (torch.from_numpy(np.atleast_2d(x)) for x in (h, y))
    solver = {} if keywords.get("epsilon", 0) == 0 else {"solver": Newton(1e-13)}
    return wl.solve(*rows, torch.from_numpy(M), **solver, **keywords)
