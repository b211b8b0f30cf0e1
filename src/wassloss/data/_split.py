"""Parts of a data set, drawn at random."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

from wassloss._checks import check_seed


def draw_parts(
    rows: Tensor, groups: Tensor | None, fractions: Mapping[str, float], seed: int
) -> dict[str, Tensor]:
    """Parts of ``rows``, whole groups in a random order."""
    owners = rows if groups is None else groups[rows]
    _, group, sizes = owners.unique(return_inverse=True, return_counts=True)
    # Sorted random keys rather than a permutation, whose algorithm libraries change.
    keys = np.random.default_rng(check_seed("seed", seed)).random(len(sizes))
    order = torch.from_numpy(np.argsort(keys, kind="stable"))
    # The part of a group is where its middle falls: each part is off by half a group at most.
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
