"""
The loss against the distance of a mistake
==========================================

**Claim: cross-entropy charges every wrong label the same; the Wasserstein loss charges by
distance.**

There are ten grades, and the true one is 2. A model puts 90 % of its mass on one grade and spreads
the rest evenly. We move that grade from 0 to 9 and compute each loss.
"""

import matplotlib.pyplot as plt
import torch
from torch.nn.functional import cross_entropy

import wassloss as wl

GRADES, TRUE = 10, 2
guesses = torch.arange(GRADES)
h = torch.full((GRADES, GRADES), 0.1 / (GRADES - 1))
h[guesses, guesses] = 0.9
target = torch.full((GRADES,), TRUE)

losses = {"cross-entropy": cross_entropy(h.log(), target, reduction="none")}
for power in (1, 2):
    metric = wl.ground.Ordinal(GRADES, power=power)
    losses[f"Wasserstein, power={power}"] = wl.wasserstein(h, target, metric)

# %%
# Divide each loss by its value for a mistake of one grade, so that all fit into one picture.

figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
for (name, values), colour in zip(losses.items(), ("#555555", "#c1272d", "#e39a2e"), strict=True):
    axes.plot(guesses, values / values[TRUE + 1], "o-", color=colour, label=name)
axes.axvline(TRUE, color="#bbbbbb", linewidth=1, zorder=0)
axes.annotate("the true grade", (TRUE, 10), xytext=(6, 0), textcoords="offset points")
axes.set_xticks(guesses.tolist())
axes.set_xlabel("grade that got 90 % of the mass")
axes.set_ylabel("loss ÷ loss of a mistake by one grade")
axes.legend(frameon=False, loc="upper center")
axes.spines[["top", "right"]].set_visible(False)

# %%
for name, values in losses.items():
    near, far = values[TRUE + 1].item(), values[9].item()
    print(f"{name:21s} off by one {near:5.2f}   off by seven {far:5.2f}   ratio {far / near:.1f}")

# %%
# Cross-entropy depends only on the mass on grade 2, which is the same for all nine mistakes.
# ``power`` sets how much worse a far mistake is: with ``power=2`` the loss grows with the square of
# the distance.
