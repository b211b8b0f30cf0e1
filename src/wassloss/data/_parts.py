"""Parts of a data set: their names, their rows, and how they are drawn at random."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from wassloss._checks import check_seed

KNOWN_PARTS = ("train", "validation", "test")


def part_name(text: str) -> str:
    """The name of a part without outer blanks; the three known names are found in any case.

    >>> part_name(" Test"), part_name("Fold 1 ")
    ('test', 'Fold 1')
    """
    name = text.strip()
    return name.lower() if name.lower() in KNOWN_PARTS else name


def check_parts(parts: Mapping[str, Any], n: int) -> dict[str, Tensor]:
    """Row numbers of each part. Parts must not be empty and must not overlap."""
    checked: dict[str, Tensor] = {}
    owner = torch.full((n,), -1)
    for number, (name, given) in enumerate(parts.items()):
        rows = row_numbers(f"parts[{name!r}]", given, n)
        if len(rows) == 0:
            raise ValueError(f"parts[{name!r}] must not be empty")
        if len(rows.unique()) != len(rows):
            raise ValueError(f"parts[{name!r}] must name each row once")
        taken = owner[rows] >= 0
        if taken.any():
            row = int(rows[taken][0])
            other = list(checked)[int(owner[row])]
            raise ValueError(f"parts must not overlap, got row {row} in {other!r} and {name!r}")
        owner[rows] = number
        checked[name] = rows
    return checked


def row_numbers(name: str, given: Any, n: int) -> Tensor:
    """Row numbers from numbers, a mask or a slice."""
    if isinstance(given, slice):
        return torch.arange(n)[given]
    rows = given if isinstance(given, Tensor) else torch.as_tensor(np.asarray(given))
    if rows.dtype == torch.bool and rows.shape == (n,):
        return rows.nonzero().squeeze(1)
    if rows.numel() == 0:
        return rows.reshape(-1).long()
    if rows.dim() != 1 or rows.is_floating_point() or rows.dtype == torch.bool:
        raise TypeError(
            f"{name} must be a list of row numbers or a mask of {n} rows, got {rows.dtype} of "
            f"shape {tuple(rows.shape)}"
        )
    if int(rows.min()) < 0 or int(rows.max()) >= n:
        wrong = rows[(rows < 0) | (rows >= n)][0].item()
        raise ValueError(f"{name} must hold rows in 0..{n - 1}, got {wrong}")
    return rows.long()


def draw_parts(
    rows: Tensor, groups: Tensor | None, fractions: Mapping[str, float], seed: int
) -> dict[str, Tensor]:
    """Divide ``rows`` at random; the rows of a group stay together."""
    owners = rows if groups is None else groups[rows]
    _, group, sizes = owners.unique(return_inverse=True, return_counts=True)
    # Sort random keys: libraries change how they draw permutations.
    keys = np.random.default_rng(check_seed("seed", seed)).random(len(sizes))
    order = torch.from_numpy(np.argsort(keys, kind="stable"))
    # A group goes where its middle falls, so each part is off by at most half a group.
    ends = sizes[order].cumsum(0)
    middles = torch.empty(len(sizes), dtype=torch.float64)
    middles[order] = (ends - sizes[order] / 2).double() / len(rows)
    bounds = np.cumsum([0.0, *fractions.values()])
    bounds[-1] += 1e-9
    drawn = {}
    for name, low, high in zip(fractions, bounds, bounds[1:], strict=False):
        inside = (middles >= low) & (middles < high)
        drawn[name] = rows[inside[group]]
        if len(drawn[name]) == 0:
            raise ValueError(
                f"fractions leave the part {name!r} empty: {len(rows)} rows in {len(sizes)} groups"
            )
    return drawn
