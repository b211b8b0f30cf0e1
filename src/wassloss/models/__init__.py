"""Small models whose outputs the losses take; any other `nn.Module` does as well.

Each describes itself as a small dictionary that JSON can hold, and is built again from it:

>>> from wassloss import models
>>> models.LinearSoftmax(features=4, labels=3).config()
{'kind': 'LinearSoftmax', 'features': 4, 'labels': 3, 'bias': True}
>>> from wassloss.models.config import build
>>> build({"kind": "MLP", "features": 4, "hidden_layer_sizes": [8], "labels": 3})
MLP(4, 8, 3)
"""

from wassloss.models.linear import LinearSoftmax
from wassloss.models.measure import LogMass, MeasureModel
from wassloss.models.mlp import MLP

__all__ = ["MLP", "LinearSoftmax", "LogMass", "MeasureModel"]
