"""Training: one loop for any model and loss, with checkpoints that a killed run continues from.

>>> from wassloss import training
>>> training.TrainingPlan(steps=1000, optimizer="adam").learning_rate_at(0)
0.01

Lightning Fabric, safetensors and tqdm, the extra `wassloss[train]`, are imported when first used.
"""

from wassloss.training.checkpoints import CheckpointError, CheckpointWarning, load_checkpoint
from wassloss.training.directory_lock import DirectoryInUseError
from wassloss.training.lbfgs import train_full_batch
from wassloss.training.log import read_log
from wassloss.training.loop import train
from wassloss.training.plan import TrainingPlan
from wassloss.training.run import DivergedError

__all__ = [
    "CheckpointError",
    "CheckpointWarning",
    "DirectoryInUseError",
    "DivergedError",
    "TrainingPlan",
    "load_checkpoint",
    "read_log",
    "train",
    "train_full_batch",
]


def __dir__() -> list[str]:
    return __all__
