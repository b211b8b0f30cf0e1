"""The memory budget of everything that is computed piece by piece.

Sizes are in numbers, not bytes, unless the name says otherwise.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch

LARGEST_BLOCK = 2**24  # numbers in a temporary
LARGEST_BLOCK_ON_GPU = 2**28  # a gigabyte in single precision: less would leave the GPU idle
LARGEST_COLUMNS = 2**21  # distances or costs, in addition to a gradient as large as the logits
LARGEST_IN_CACHE = 2**18  # numbers that are read again while they are in a CPU's cache
LARGEST_CHUNK_BYTES = 2**26  # logits of a language model's head, and costs if they are stored


def largest_block(device: torch.device) -> int:
    """The largest size of a temporary on a device."""
    return LARGEST_BLOCK_ON_GPU if device.type == "cuda" else LARGEST_BLOCK


def largest_columns(device: torch.device) -> int:
    """How many costs to compute at once for a kernel that has no table of costs."""
    return LARGEST_BLOCK_ON_GPU if device.type == "cuda" else LARGEST_COLUMNS


def largest_reread(device: torch.device) -> int:
    """How many numbers to compute before they are read again."""
    return LARGEST_BLOCK_ON_GPU if device.type == "cuda" else LARGEST_IN_CACHE


def pieces(count: int, width: int, budget: int) -> Iterator[slice]:
    """Split `count` rows of `width` numbers into consecutive slices of at most `budget` numbers.

    >>> list(pieces(5, 10, 20))
    [slice(0, 2, None), slice(2, 4, None), slice(4, 5, None)]
    >>> list(pieces(0, 10, 20))
    []
    """
    size = max(1, budget // max(1, width))
    for first in range(0, count, size):
        yield slice(first, min(count, first + size))
