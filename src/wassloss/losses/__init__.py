"""Losses as modules, as functions of each example, and the losses one would otherwise pick.

=========================================  =====================================================
:class:`WassersteinLoss` and its siblings  modules: swap one in for `CrossEntropyLoss`
:func:`wasserstein_loss` and its siblings  the same per example, as functions
:func:`wasserstein`, :func:`solve`         the distance itself, and its plan
:mod:`wassloss.losses.baselines`           other losses on the same targets, to compare with
=========================================  =====================================================
"""

from wassloss.losses import baselines
from wassloss.losses.functional import (
    relaxed_wasserstein_loss,
    solve,
    wasserstein,
    wasserstein_loss,
)
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
    "relaxed_wasserstein_loss",
    "solve",
    "wasserstein",
    "wasserstein_loss",
]
