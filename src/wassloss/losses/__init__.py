"""Losses as modules, the Wasserstein distance as a function, and baselines.

=========================================  =====================================================
:class:`~wassloss.WassersteinLoss` …       modules: swap one in for `CrossEntropyLoss`
:mod:`wassloss.language`                   modules for the heads of language models
:func:`~wassloss.wasserstein`, `solve`     the distance itself, and its plan
:mod:`wassloss.losses.baselines`           other losses on the same targets, to compare with
=========================================  =====================================================

Gradients are first-order and come from the optimum of each solve. A solve that does not reach its
tolerance raises a :class:`~wassloss.transport.ConvergenceWarning`.

Keywords shared by all of them:

==================  ================================================================================
epsilon             entropic strength, `1/λ` in the paper, in units of the cost; 0 is exact
gamma               weight of the marginal penalties `(γ_a, γ_b)`, or one number for both; infinite
                    is balanced transport, and with `(inf, 0)` mass goes to the nearest targets
regularizer         ``"plan"`` (the paper's) or ``"product"``; :mod:`wassloss.transport.objective`
debiased            the Sinkhorn divergence `OT(h,y) − ½ OT(h,h) − ½ OT(y,y)`, the same for both
                    regularisers and 0 for equal measures
tol                 marginal error to solve to: 1e-5 in single precision, 1e-8 in double by default
max_iterations      iterations after which to give up, with a warning
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
