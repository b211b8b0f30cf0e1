"""Losses as modules, the Wasserstein distance as a function, and baselines.

=========================================  =====================================================
:class:`~wassloss.WassersteinLoss` …       modules, in place of `CrossEntropyLoss`
:mod:`wassloss.language`                   modules for the heads of language models
:func:`~wassloss.wasserstein`, `solve`     the distance itself, and its plan
:mod:`wassloss.losses.baselines`           other losses on the same targets, for comparison
=========================================  =====================================================

Gradients are first-order and come from the optimum of each solve. A solve that does not reach its
tolerance raises a :class:`~wassloss.transport.ConvergenceWarning`.

Shared keywords:

==================  ================================================================================
epsilon             entropic strength, `1/λ` in the paper, in units of the cost; 0 is exact
gamma               weight of the marginal penalties `(γ_a, γ_b)`, or one number for both; infinity
                    is balanced transport, and with `(inf, 0)` mass moves to the nearest targets
regularizer         ``"plan"``, as in the paper, or ``"product"``; see
                    :mod:`wassloss.transport.objective`
debiased            use the Sinkhorn divergence `OT(h,y) − ½ OT(h,h) − ½ OT(y,y)`, which is 0 for
                    equal measures, and the same for both regularisers
tol                 tolerance on the marginals, by default 1e-5 in single and 1e-8 in double
                    precision
max_iterations      the largest number of iterations; a solve that needs more warns
scaling_iterations  run the paper's Algorithm 1 for exactly this many iterations instead
solver              a solver of :mod:`wassloss.transport` instead of the automatic choice
==================  ================================================================================
"""

from wassloss.losses import baselines
from wassloss.losses.functional import solve, wasserstein
from wassloss.losses.modules import (
    NearestWassersteinLoss,
    RelaxedWassersteinLoss,
    WassersteinLoss,
)

__all__ = [
    "NearestWassersteinLoss",
    "RelaxedWassersteinLoss",
    "WassersteinLoss",
    "baselines",
    "solve",
    "wasserstein",
]


def __dir__() -> list[str]:
    return __all__
