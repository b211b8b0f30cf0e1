"""
Noisy labels: annotators who confuse neighbours
===============================================

**Claim: if training labels are flipped to neighbours, the Wasserstein loss helps a linear model a
lot on a 6 × 6 lattice of classes; on a 3 × 3 lattice with nine flips in ten it hurts.**

In the paper's lattice each vertex is a class, and each training label is flipped with some
probability to an adjacent vertex. Test labels are true. The paper states neither the number of
examples nor the width of the clouds; we use 100 examples per class and 0.2. The paper trains for
100 000 steps, we train for 5000.
"""

import matplotlib.pyplot as plt
import numpy as np
import torch
from torch import nn

import wassloss as wl

SIDES, LEVELS, SEEDS = (3, 6), (0.1, 0.3, 0.5, 0.7, 0.9), (0, 1, 2)
EACH, STEPS, BATCH, RATE = 100, 5000, 100, 0.5  # examples per class; steps of SGD


def lattice(side: int, noise: float, seed: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return training points, noisy training labels and test points, whose labels are in order."""
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
    """Train one linear model per data set, all together; return weights `(sets, 3, labels)`."""
    generator = torch.Generator().manual_seed(0)
    theta = torch.zeros(len(x), 3, labels, requires_grad=True)
    optimizer = torch.optim.SGD([theta], lr=RATE, momentum=0.7)
    for _ in range(STEPS):
        rows = torch.randint(x.shape[1], (BATCH,), generator=generator)
        logits = torch.bmm(x[:, rows], theta)  # (sets, batch, labels)
        loss = loss_fn(logits.flatten(0, 1), y[:, rows].flatten()) * len(x)  # the mean of each set
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return theta.detach()


def distances(side: int) -> dict[str, np.ndarray]:
    """Mean distance from the truth on the test part, `(levels, seeds)` for each loss."""
    metric = wl.ground.Grid((side, side))
    losses = {
        "cross-entropy": nn.CrossEntropyLoss(),
        "Wasserstein": wl.WassersteinLoss(metric, kl_weight=0),
    }
    sets = [lattice(side, noise, seed) for noise in LEVELS for seed in SEEDS]
    x, y, test = (torch.stack(each) for each in zip(*sets, strict=True))
    x, test = (torch.cat([each, torch.ones(*each.shape[:2], 1)], 2) for each in (x, test))
    truth = torch.arange(side**2).repeat_interleave(EACH)
    found = {}
    for name, loss_fn in losses.items():
        logits = torch.bmm(test, trained(x, y, side**2, loss_fn))
        off = [float(wl.scores.distance_at_k(each, truth, metric)) for each in logits]
        found[name] = np.reshape(off, (len(LEVELS), len(SEEDS)))
    return found


# %%
# Train fifteen models at once for each loss and lattice, with the default ``epsilon`` and no KL.

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
# Bands range from the smallest to the largest of three seeds. With nine flips in ten, the true
# label is rarer than each of its neighbours. We did not study why the small lattice suffers. Eight
# of its nine classes lie on the rim, with all neighbours to one side, which may be part of the
# reason.

# %%
# This is one of thirteen settings that we tried, looking at test results: 3000 to 10 000 steps,
# learning rates 0.5 and 2, with and without the paper's penalty, lattices of side 3, 5, 6 and 7,
# and 20 or 100 examples per class. On the larger lattices with noise of 0.5 or more, the
# Wasserstein loss was ahead, by up to two thirds, in all but two settings:
#
# ================================================  ============  =============
# setting                                           Wasserstein   cross-entropy
# ================================================  ============  =============
# ``epsilon=0.1``, 5 × 5, 20 examples per class     0.75 to 0.84  0.16 to 0.37
# learning rate 2, 7 × 7                            1.2 to 1.3    0.3 to 0.7
# ================================================  ============  =============
#
# At noise 0.1 it was slightly behind once. On 3 × 3 with strong noise it was always behind. The
# gain is real here, but a poor ``epsilon`` or learning rate loses it.
