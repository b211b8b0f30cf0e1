"""Features by a torch module: your own, torchvision's or timm's. Nothing is downloaded."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from experiments.corpora.features._scaling import MEAN, STD, scaled


class TorchExtractor:
    """A module that takes `(n, 3, height, width)` and gives `(n, features, ...)`.

    Dimensions beyond the second are averaged over.

    Args:
        module: is put into evaluation mode.
        name: what it is, weights included; see :class:`Extractor`.
        size: height and width of its input.
        device: where to run it.
        mean, std: what pixels between 0 and 1 are brought to, for each colour.
    """

    def __init__(
        self,
        module: nn.Module,
        name: str,
        *,
        size: tuple[int, int] = (224, 224),
        device: str | torch.device = "cpu",
        mean: tuple[float, float, float] = MEAN,
        std: tuple[float, float, float] = STD,
    ) -> None:
        self._module = module.eval().to(device)
        self._device = device
        self._scaling = mean, std
        self.size = size
        self.name = f"{name} {mean} {std}"

    @torch.inference_mode()
    def __call__(self, images: NDArray[np.uint8]) -> NDArray[np.floating[Any]]:
        pixels = torch.from_numpy(scaled(images, *self._scaling)).to(self._device)
        found = self._module(pixels).float()
        return np.asarray(found.flatten(2).mean(-1).cpu() if found.dim() > 2 else found.cpu())


def torchvision_extractor(
    model: str, weights: str | os.PathLike[str], **options: Any
) -> TorchExtractor:
    """A classifier of torchvision without its last layer, with weights from a safetensors file."""
    try:
        from torchvision import models
    except ImportError as error:
        raise ImportError("this needs torchvision: pip install torchvision") from error
    module = models.get_model(model, weights=None)
    digest = _load(module, weights)
    for last in ("fc", "classifier", "head", "heads"):
        if hasattr(module, last):
            setattr(module, last, nn.Identity())
            break
    return TorchExtractor(module, f"torchvision {model} {digest}", **options)


def timm_extractor(model: str, weights: str | os.PathLike[str], **options: Any) -> TorchExtractor:
    """A model of timm without its classifier, with weights from a safetensors file."""
    try:
        import timm
    except ImportError as error:
        raise ImportError("this needs timm: pip install timm") from error
    module = timm.create_model(model, pretrained=False)
    digest = _load(module, weights)
    module.reset_classifier(0)
    return TorchExtractor(module, f"timm {model} {digest}", **options)


def _load(module: nn.Module, path: str | os.PathLike[str]) -> str:
    """Weights from a file that holds nothing but tensors; a digest of it."""
    try:
        from safetensors.torch import load
    except ImportError as error:
        raise ImportError("weights need safetensors: pip install safetensors") from error
    raw = Path(path).read_bytes()
    try:
        module.load_state_dict(load(raw))
    except Exception as error:  # safetensors' errors share no other base
        said = " ".join(str(error).split())
        raise ValueError(f"{os.fspath(path)} does not hold the model's weights: {said}") from error
    return hashlib.sha256(raw).hexdigest()[:16]
