"""Training: one loop for any model and loss, with checkpoints that a killed run goes on from.

>>> from wassloss import training
>>> training.TrainingPlan(iterations=1000, optimizer=training.Adam(lr=0.01)).learning_rate(0)
0.01

Lightning Fabric, safetensors and tqdm, the extra `wassloss[train]`, are imported when first used.
"""

from wassloss.training.checkpoints import (
    Checkpoint,
    CheckpointError,
    CheckpointWarning,
    load_checkpoint,
    load_newest,
)
from wassloss.training.directory_lock import DirectoryInUseError
from wassloss.training.lbfgs import Convergence, train_full_batch
from wassloss.training.log import Record, read_log
from wassloss.training.loop import TrainingResult, train
from wassloss.training.meter import DivergedError
from wassloss.training.optimizers import SGD, Adam, AdamW
from wassloss.training.plan import TrainingPlan
from wassloss.training.run import load_model
from wassloss.training.sampler import Sampler
from wassloss.training.schedules import Constant, Cosine, Step, WarmUp

__all__ = [
    "SGD",
    "Adam",
    "AdamW",
    "Checkpoint",
    "CheckpointError",
    "CheckpointWarning",
    "Constant",
    "Convergence",
    "Cosine",
    "DirectoryInUseError",
    "DivergedError",
    "Record",
    "Sampler",
    "Step",
    "TrainingPlan",
    "TrainingResult",
    "WarmUp",
    "load_checkpoint",
    "load_model",
    "load_newest",
    "read_log",
    "train",
    "train_full_batch",
]
