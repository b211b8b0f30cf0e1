"""Losses for language models, on a metric of words or of numbers.

========================================  ====================================================
:class:`~wassloss.LinearWassersteinLoss`  on hidden states and weight, without storing logits
:class:`~wassloss.NumberTokenLoss`        cross-entropy plus transport over number tokens
========================================  ====================================================
"""

from wassloss.language.linear_head import LinearWassersteinLoss
from wassloss.language.number_tokens import NumberTokenLoss

__all__ = ["LinearWassersteinLoss", "NumberTokenLoss"]


def __dir__() -> list[str]:
    return __all__
