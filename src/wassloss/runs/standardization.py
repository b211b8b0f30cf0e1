"""Features brought to one size, and back from a file when a run is opened."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor


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

    def to(self, device: str) -> Standardization:
        """The same on another device."""
        return Standardization(self.mean.to(device), self.scale.to(device))

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Mean and scale by name, for a file."""
        return {"mean": self.mean.numpy(), "scale": self.scale.numpy()}

    @classmethod
    def from_arrays(cls, arrays: dict[str, NDArray[Any]]) -> Standardization:
        """What `to_arrays` was taken of."""
        return cls(torch.from_numpy(arrays["mean"]), torch.from_numpy(arrays["scale"]))
