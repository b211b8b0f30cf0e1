"""Scale pixels as networks trained on ImageNet expect them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

MEAN = (0.485, 0.456, 0.406)
STD = (0.229, 0.224, 0.225)


def scaled(
    images: NDArray[np.uint8],
    mean: tuple[float, float, float] = MEAN,
    std: tuple[float, float, float] = STD,
) -> NDArray[np.float32]:
    """Convert bytes `(n, height, width, 3)` to floats `(n, 3, height, width)`.

    >>> scaled(np.full((1, 1, 1, 3), 255, np.uint8), (0.5, 0.5, 0.5), (0.5, 0.5, 0.5)).ravel()
    array([1., 1., 1.], dtype=float32)
    """
    floats = images.astype(np.float32) / 255
    floats = (floats - np.array(mean, np.float32)) / np.array(std, np.float32)
    return np.ascontiguousarray(floats.transpose(0, 3, 1, 2))
