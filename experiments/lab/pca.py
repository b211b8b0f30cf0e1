"""Reduce features to their principal components in the training part."""

from __future__ import annotations

from dataclasses import replace

import torch

from experiments.lab.dataset import Dataset


def compressed(data: Dataset, features: int | None) -> Dataset:
    """Replace features by their principal components; None keeps them."""
    if features is None or features >= data.features.shape[1]:
        return data
    train = data.part("train").features.double()
    mean = train.mean(0)
    directions = torch.linalg.eigh((train - mean).T @ (train - mean)).eigenvectors
    found = (data.features.double() - mean) @ directions[:, -features:].flip(1)
    return replace(data, features=found.to(data.features.dtype))
