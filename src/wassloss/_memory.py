"""How much is held in memory at once: the one budget of everything that is computed piece by piece.

Counted in numbers, not bytes, unless the name says so.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch

LARGEST_BLOCK = 2**24  # numbers of a temporary
LARGEST_BLOCK_ON_GPU = 2**28  # a gigabyte in single precision: less would leave it idle
LARGEST_COLUMNS = 2**21  # distances or costs, next to a gradient as large as the logits
LARGEST_IN_CACHE = 2**18  # what a CPU should find there when it reads it again
LARGEST_CHUNK_BYTES = 2**26  # logits of a language model's head, and costs where they are stored


def largest_block(device: torch.device) -> int:
    """How many numbers a temporary on a device may have."""
    return LARGEST_BLOCK_ON_GPU if device.type == "cuda" else LARGEST_BLOCK


def largest_columns(device: torch.device) -> int:
    """How many costs a kernel that has no table is given at once."""
    return LARGEST_BLOCK_ON_GPU if device.type == "cuda" else LARGEST_COLUMNS


def largest_reread(device: torch.device) -> int:
    """How many numbers to compute before they are read again."""
    return LARGEST_BLOCK_ON_GPU if device.type == "cuda" else LARGEST_IN_CACHE


def pieces(count: int, width: int, budget: int) -> Iterator[slice]:
    """Consecutive parts of `count` rows, each of at most `budget` numbers, `width` to a row.

    >>> list(pieces(5, 10, 20))
    [slice(0, 2, None), slice(2, 4, None), slice(4, 5, None)]
    >>> list(pieces(0, 10, 20))
    []
    """
    size = max(1, budget // max(1, width))
    for first in range(0, count, size):
        yield slice(first, min(count, first + size))
