"""Ground metrics: how far apart labels are, and what it costs to move mass between them.

>>> from wassloss import ground
>>> ground.Ordinal(10, power=2, scale="max")
Ordinal(10, power=2, scale=9)
"""

from wassloss.ground.base import GroundMetric
from wassloss.ground.discrete import Discrete
from wassloss.ground.embedding import Embedding
from wassloss.ground.graph import Graph, taxonomy
from wassloss.ground.grid import Grid
from wassloss.ground.matrix import Cost, Matrix
from wassloss.ground.ordinal import Ordinal
from wassloss.ground.subset import Subset
from wassloss.ground.tree import Tree

__all__ = [
    "Cost",
    "Discrete",
    "Embedding",
    "Graph",
    "Grid",
    "GroundMetric",
    "Matrix",
    "Ordinal",
    "Subset",
    "Tree",
    "taxonomy",
]


def __dir__() -> list[str]:
    return __all__
