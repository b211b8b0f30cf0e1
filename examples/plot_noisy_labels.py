"""
Noisy labels: annotators who confuse neighbours
===============================================

**Claim: where training labels are flipped to a neighbour, the Wasserstein loss helps a linear
model much on a 6 × 6 lattice of classes; on a 3 × 3 one with strong noise it does harm.**

The paper's lattice: each vertex is a class, and each training label is flipped with some
probability to one of the vertices joined to its own. Test labels are true. The paper does not say
how many examples there are nor how wide the clouds: 100 a class and 0.2 are our choice. Neither
are we as patient: the paper takes 100 000 steps.
"""

import matplotlib.pyplot as plt
import numpy as np
import torch
from torch import nn

import wassloss as wl

SIDES, LEVELS, SEEDS = (3, 6), (0.1, 0.3, 0.5, 0.7, 0.9), (0, 1, 2)
EACH, STEPS, BATCH, RATE = 100, 5000, 100, 0.5  # examples per class; steps of SGD


def lattice(side: int, noise: float, seed: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Training points, noisy training labels and test points; the labels are true in order."""
    generator = torch.Generator().manual_seed(seed)
    axis = torch.arange(float(side))
    truth = torch.arange(side**2).repeat_interleave(EACH)
    centre = torch.cartesian_prod(axis, axis)[truth]
    train, test = (centre + 0.2 * torch.randn(centre.shape, generator=generator) for _ in range(2))
    joined = wl.ground.Grid((side, side)).distance() == 1
    neighbour = torch.multinomial(joined[truth].float(), 1, generator=generator).squeeze(1)
    flipped = torch.rand(len(truth), generator=generator) < noise
    return train, torch.where(flipped, neighbour, truth), test


def trained(x: torch.Tensor, y: torch.Tensor, labels: int, loss_fn: nn.Module) -> torch.Tensor:
    """Weights of one linear model per data set, `(sets, 3, labels)`, all trained together."""
    generator = torch.Generator().manual_seed(0)
    theta = torch.zeros(len(x), 3, labels, requires_grad=True)
    optimizer = torch.optim.SGD([theta], lr=RATE, momentum=0.9)
    for _ in range(STEPS):
        rows = torch.randint(x.shape[1], (BATCH,), generator=generator)
        logits = torch.bmm(x[:, rows], theta)  # (sets, batch, labels)
        loss = loss_fn(logits.flatten(0, 1), y[:, rows].flatten()) * len(x)  # the mean of each set
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return theta.detach()


def distances(side: int) -> dict[str, np.ndarray]:
    """Mean distance from the truth on the test part, for each loss, `(levels, seeds)`."""
    metric = wl.ground.Grid((side, side))
    losses = {"cross-entropy": nn.CrossEntropyLoss(), "Wasserstein": wl.WassersteinLoss(metric)}
    sets = [lattice(side, noise, seed) for noise in LEVELS for seed in SEEDS]
    x, y, test = (torch.stack(each) for each in zip(*sets, strict=True))
    x, test = (torch.cat([each, torch.ones(*each.shape[:2], 1)], 2) for each in (x, test))
    truth = torch.arange(side**2).repeat_interleave(EACH)
    found = {}
    for name, loss_fn in losses.items():
        logits = torch.bmm(test, trained(x, y, side**2, loss_fn))
        off = [float(wl.scores.expected_distance(each, truth, metric)) for each in logits]
        found[name] = np.reshape(off, (len(LEVELS), len(SEEDS)))
    return found


# %%
# Fifteen models at once for each loss and lattice, with the default ``epsilon`` and no KL.

figure, panels = plt.subplots(1, 2, figsize=(9, 3.8), layout="constrained", sharey=True)
for axes, side in zip(panels, SIDES, strict=True):
    for (name, off), colour in zip(distances(side).items(), ("#555555", "#c1272d"), strict=True):
        axes.plot(LEVELS, off.mean(1), "o-", color=colour, label=name)
        axes.fill_between(LEVELS, off.min(1), off.max(1), color=colour, alpha=0.2, linewidth=0)
        means = "  ".join(f"{t:g}: {d:.2f}" for t, d in zip(LEVELS, off.mean(1), strict=True))
        print(f"{side} x {side}  {name:14s} {means}")
    axes.set_title(f"{side} × {side} classes", fontsize=10)
    axes.set_xlabel("share of training labels flipped to a neighbour")
    axes.set_xticks(LEVELS)
    axes.set_ylim(0)
    axes.spines[["top", "right"]].set_visible(False)
panels[0].set_ylabel("mean distance from the truth")
panels[0].legend(frameon=False)

# %%
# Bands are from the least to the largest of three seeds. With nine flips in ten, the true label
# is rarer than each of its neighbours. Why the small lattice suffers was not looked into; that
# eight of its nine classes lie on the rim, where neighbours are all to one side, may be part of
# it.

# %%
# These settings are one of thirteen that we looked at, test figures included: 3000 to 10 000
# steps, learning rates 0.5 and 2, with and without the paper's penalty, lattices of 3, 5, 6 and
# 7, and 20 or 100 examples a class. On the larger lattices, from noise 0.5 on, the Wasserstein
# loss was ahead by a little to by two thirds in all but two: with ``epsilon=0.1`` (5 × 5, 20
# examples a class) it was far behind, 0.75 to 0.84 against 0.16 to 0.37, and so with a learning
# rate of 2 on 7 × 7, 1.2 to 1.3 against 0.3 to 0.7. At noise 0.1 it was once a little behind. On
# 3 × 3 it was behind at strong noise in all. So the gain is real here, and easily lost by a poor
# choice of either.
