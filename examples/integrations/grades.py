"""Data of these examples: patients, and ten grades of the progression of their diabetes."""

from __future__ import annotations

import numpy as np
import torch
from sklearn.datasets import load_diabetes
from torch import Tensor

GRADES = 10


def graded_patients() -> tuple[Tensor, Tensor]:
    """Return features scaled to unit variance, `(442, 10)`, and ten equally frequent grades."""
    features, progression = load_diabetes(return_X_y=True)
    limits = np.quantile(progression, np.arange(1, GRADES) / GRADES)
    grades = torch.from_numpy(np.searchsorted(limits, progression))
    return torch.tensor(features / features.std(0), dtype=torch.float32), grades
