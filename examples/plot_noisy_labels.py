"""
Noisy labels: annotators who confuse neighbours
===============================================

**Claim: if training labels are flipped to neighbours, the Wasserstein loss helps a linear model a
lot on a 6 × 6 lattice of classes; on a 3 × 3 lattice with strong noise it hurts.**

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
from wassloss.training import SGD, TrainingPlan, train_many

SIDES, LEVELS, SEEDS = (3, 6), (0.1, 0.3, 0.5, 0.7, 0.9), (0, 1, 2)
PLAN = TrainingPlan(iterations=5000, optimizer=SGD(lr=0.5), weight_penalty=0.0)


def distances(side: int) -> dict[str, np.ndarray]:
    """The mean distance from the truth on the test part, `(levels, seeds)` for each loss."""
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
# Train thirty models at once for each lattice, with the default ``epsilon`` and no KL.

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
