"""Baselines: other losses on the same targets, for comparison.

They are built from the number of ``labels``, or from a ``metric``: a ground metric, or a matrix of
distances (for other costs, :class:`~wassloss.ground.Cost`). ``reduction`` is ``"mean"``, ``"sum"``
or ``"none"``. The losses in `ordinal` are for ordered labels 0, 1, …, K−1.

The losses take logits `(batch, labels)` and targets in any form (see :mod:`wassloss.targets`), and
divide each target by its sum. Exceptions: :class:`PoissonLoss` takes logs of masses, and does not
divide targets; `CORALLoss` and `CORNLoss` take one logit per threshold, of which there is one less
than labels; and `WassersteinDiceLoss` takes whole images.

Soft labels are related to the Wasserstein loss. With one label κ, the plan-regularised loss is, up
to a constant, `ε KL(h ‖ s_κ)` with the softened label `s_κ ∝ exp(−M_·κ/ε)`. KL on softened labels
is `KL(s_κ ‖ h)`: it has the same optimum if the model can reach it, and otherwise makes a different
compromise.
"""

from wassloss.losses.baselines.general import (
    ExpectedCostLoss,
    HierarchicalCrossEntropyLoss,
    KLLoss,
    PoissonLoss,
    QuadraticFormLoss,
    SoftLabelLoss,
    WassersteinDiceLoss,
    WeightedKappaLoss,
)
from wassloss.losses.baselines.ordinal import (
    CORALLoss,
    CORNLoss,
    CumulativeJensenShannonLoss,
    SquaredEMDLoss,
)
from wassloss.losses.baselines.per_example import PerExampleLoss

__all__ = [
    "CORALLoss",
    "CORNLoss",
    "CumulativeJensenShannonLoss",
    "ExpectedCostLoss",
    "HierarchicalCrossEntropyLoss",
    "KLLoss",
    "PerExampleLoss",
    "PoissonLoss",
    "QuadraticFormLoss",
    "SoftLabelLoss",
    "SquaredEMDLoss",
    "WassersteinDiceLoss",
    "WeightedKappaLoss",
]


def __dir__() -> list[str]:
    return __all__
