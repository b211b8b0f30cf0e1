"""Features brought to one size, and back from a file when a run is opened."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from wassloss._files import read_npz, write_npz


@dataclass(frozen=True)
class Standardization:
    """What features are shifted and divided by."""

    mean: Tensor
    scale: Tensor

    @classmethod
    def of(cls, features: Tensor) -> Standardization:
        """Mean and standard deviation of each feature; one that never changes is only shifted."""
        wide = features.double()
        scale = wide.std(0, correction=0)
        return cls(wide.mean(0).to(features), torch.where(scale > 0, scale, 1.0).to(features))

    def __call__(self, features: Tensor) -> Tensor:
        return (features - self.mean) / self.scale

    def save(self, path: Path) -> None:
        write_npz(path, {"mean": self.mean.numpy(), "scale": self.scale.numpy()})

    @classmethod
    def load(cls, path: Path) -> Standardization:
        arrays = read_npz(path)
        if {"mean", "scale"} - arrays.keys():
            raise ValueError(f"{path} must hold mean and scale, got {sorted(arrays)}")
        return cls(torch.from_numpy(arrays["mean"]), torch.from_numpy(arrays["scale"]))
