"""Decision rules: choose labels from predicted probabilities.

The most probable label is the best decision if all mistakes are equally bad. Otherwise, a label
between two probable ones may be better: :func:`least_cost_label` and :func:`least_cost_labels`
minimise the expected cost. They use the metric's *cost*, as training does; pass
``metric.with_cost(power=1)`` to use the distance.

Predictions are arrays or tensors `(batch, labels)`: tensors return tensors, arrays and lists return
arrays. Probabilities need not sum to 1.

>>> import wassloss as wl
>>> p = [[0.4, 0.0, 0.25, 0.35]]
>>> wl.decisions.top_labels(p), wl.decisions.least_cost_label(p, wl.ground.Ordinal(4))
(array([[0]]), array([2]))
"""

from wassloss.decisions.cutoffs import Cutoffs
from wassloss.decisions.guarantee import Guarantee
from wassloss.decisions.least_cost import least_cost_label
from wassloss.decisions.least_cost_set import least_cost_labels
from wassloss.decisions.temperature import Temperature
from wassloss.decisions.top import top_labels

__all__ = [
    "Cutoffs",
    "Guarantee",
    "Temperature",
    "least_cost_label",
    "least_cost_labels",
    "top_labels",
]


def __dir__() -> list[str]:
    return __all__
