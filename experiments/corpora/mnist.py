"""MNIST: handwritten digits, in the idx format, gzipped or not."""

from __future__ import annotations

import math
import os
import struct
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from experiments.corpora.lookup import find, read_bytes
from experiments.lab.dataset import Dataset
from wassloss.ground import Ordinal

_IDX_TYPES = {0x08: ">u1", 0x09: ">i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}


def mnist() -> Dataset:
    """70 000 digits: 784 features in [0, 1], ten classes, the usual train and test parts.

    The suggested ground metric is the paper's, the difference of two digits as numbers. The four
    files, with their original names (``train-images-idx3-ubyte.gz`` and so on, gzipped or not), are
    looked up in ``mnist/`` of ``$WASSLOSS_DATA`` and of the user's cache.
    """
    images, digits = zip(_part("train"), _part("t10k"), strict=True)
    train = torch.arange(sum(map(len, digits))) < len(digits[0])
    return Dataset(
        torch.cat(images),
        torch.cat(digits),
        parts={"train": train, "test": ~train},
        metric=Ordinal(10, labels=[str(i) for i in range(10)]),
        name="mnist",
        provenance="MNIST of handwritten digits (LeCun, Cortes, Burges), pixels divided by 255.",
    )


def _part(part: str) -> tuple[Tensor, Tensor]:
    paths = [
        find("mnist", f"{part}-{name}.gz", f"{part}-{name}")
        for name in ("images-idx3-ubyte", "labels-idx1-ubyte")
    ]
    images, digits = (read_idx(path) for path in paths)
    if images.ndim != 3 or digits.ndim != 1 or len(images) != len(digits):
        raise ValueError(
            f"{paths[0]} and {paths[1]} must hold as many images as digits, got {images.shape} and "
            f"{digits.shape}"
        )
    pixels = torch.from_numpy(images.reshape(len(images), -1)).float().div_(255)
    return pixels, torch.from_numpy(digits.astype(np.int64))


def read_idx(path: str | os.PathLike[str]) -> NDArray[Any]:
    """Read an idx file: two zero bytes, type, number of axes, their lengths, data."""
    raw, name = read_bytes(path), os.fspath(path)
    if len(raw) < 4 or raw[:2] != b"\0\0" or raw[2] not in _IDX_TYPES:
        raise ValueError(
            f"{name} is not an idx file: it begins with {raw[:4].hex(' ') or 'nothing'}"
        )
    dtype, axes = np.dtype(_IDX_TYPES[raw[2]]), raw[3]
    begin = 4 + 4 * axes
    if len(raw) < begin:
        raise ValueError(f"{name} is cut short: it ends within its header")
    shape = struct.unpack(f">{axes}I", raw[4:begin])
    expected = math.prod(shape) * dtype.itemsize
    if len(raw) - begin != expected:
        raise ValueError(
            f"{name} is damaged or cut short: its header promises {expected} bytes of data, got "
            f"{len(raw) - begin}"
        )
    native = np.frombuffer(raw, dtype, offset=begin).reshape(shape)
    return native.astype(dtype.newbyteorder("="))
