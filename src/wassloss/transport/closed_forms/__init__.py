"""Problems whose answer takes no iterations, one kind per file."""

from wassloss.transport.closed_forms.line import LineArea, LineQuantiles
from wassloss.transport.closed_forms.nearest import Nearest
from wassloss.transport.closed_forms.nearest_cpu import NearestCPU
from wassloss.transport.closed_forms.one_hot import OneHot
from wassloss.transport.closed_forms.tree import TreeFlow
from wassloss.transport.closed_forms.zero_one import ZeroOne

__all__ = ["LineArea", "LineQuantiles", "Nearest", "NearestCPU", "OneHot", "TreeFlow", "ZeroOne"]
