"""The usual losses in one compiled pass, from logits to loss and gradient; see `fused.loss`."""

from wassloss.fused.loss import fused_loss
from wassloss.fused.rule import Fused
from wassloss.fused.status import IGNORED

__all__ = ["IGNORED", "Fused", "fused_loss"]
