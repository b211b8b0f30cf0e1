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
from wassloss.training import SGD, TrainingPlan, train_many

SIDES, LEVELS, SEEDS = (3, 6), (0.1, 0.3, 0.5, 0.7, 0.9), (0, 1, 2)
PLAN = TrainingPlan(iterations=5000, optimizer=SGD(lr=0.5), weight_penalty=0.0)


def distances(side: int) -> dict[str, np.ndarray]:
    """Mean distance from the truth on the test part, for each loss, `(levels, seeds)`."""
    metric = wl.ground.Grid((side, side))
    losses = {"cross-entropy": nn.CrossEntropyLoss(), "Wasserstein": wl.WassersteinLoss(metric)}
    settings = [(name, t, seed) for name in losses for t in LEVELS for seed in SEEDS]
    sets = {(t, seed): wl.data.lattice(side, noise=t, seed=seed) for t in LEVELS for seed in SEEDS}
    seen = {key: data.part("train") for key, data in sets.items()}
    features = [seen[t, seed].features for _, t, seed in settings]
    target = [seen[t, seed].target for _, t, seed in settings]

    torch.manual_seed(0)
    models = [wl.models.LinearSoftmax(features=2, labels=side**2) for _ in settings]
    each_loss = [losses[name] for name, _, _ in settings]
    seeds = [seed for _, _, seed in settings]
    train_many(models, each_loss, (features, target), PLAN, seeds=seeds, progress=False)

    off = []
    for model, (_, t, seed) in zip(models, settings, strict=True):
        test = sets[t, seed].part("test")
        logits = model(test.features).detach()
        off.append(float(wl.scores.expected_distance(logits, test.target, metric)))
    shaped = np.reshape(off, (len(losses), len(LEVELS), len(SEEDS)))
    return dict(zip(losses, shaped, strict=True))


# %%
# Thirty models at once for each lattice, with the default ``epsilon`` and no KL.

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
