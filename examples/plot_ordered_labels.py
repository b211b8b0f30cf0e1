"""
Ordered labels: milder mistakes at the same accuracy
====================================================

**Claim: on ten grades of disease progression, a Wasserstein loss spares a linear model more than
a third of its grave mistakes, and it is right as often.**

The data are scikit-learn's: 442 patients, 10 measurements each. We cut the progression into ten
grades of equal size and fit the same linear model with two losses, on eight random splits, with
the same penalty on its weights. All else is left at its default.
"""

import matplotlib.pyplot as plt
import numpy as np
import torch
from sklearn.datasets import load_diabetes
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import wassloss as wl

torch.set_num_threads(1)  # for problems this small, threads only wait for each other

GRADES, SPLITS = 10, 8
X, progression = load_diabetes(return_X_y=True)
grades = np.searchsorted(np.quantile(progression, np.arange(1, GRADES) / GRADES), progression)

PENALTY = 0.0005  # c in c Σ‖θ‖², the default of the classifier below
C = 1 / (2 * PENALTY * 0.7 * len(X))  # the same for LogisticRegression
models = {
    "cross-entropy": make_pipeline(StandardScaler(), LogisticRegression(C=C, max_iter=1000)),
    "Wasserstein": wl.WassersteinClassifier("ordinal", weight_penalty=PENALTY),
}
shares = {name: np.zeros((SPLITS, GRADES)) for name in models}
for split in range(SPLITS):
    X_train, X_test, y_train, y_test = train_test_split(
        X, grades, test_size=0.3, random_state=split
    )
    for name, model in models.items():
        off = np.abs(model.fit(X_train, y_train).predict(X_test) - y_test)
        shares[name][split] = np.bincount(off, minlength=GRADES) / len(off)

# %%
# How far off are they on patients they have not seen?

steps = np.arange(GRADES)
for name, share in shares.items():
    figures = {
        "mean distance": share @ steps,
        "% off by 5 or more": 100 * share[:, 5:].sum(1),
        "% right": 100 * share[:, 0],
    }
    print(
        name,
        *(f"{what} {v.mean():.2f} ± {v.std(ddof=1):.2f}" for what, v in figures.items()),
        sep="   ",
    )

figure, axes = plt.subplots(figsize=(7, 3.8), layout="constrained")
for side, (name, share) in enumerate(shares.items()):
    colour = ("#999999", "#c1272d")[side]
    axes.bar(steps + 0.4 * side - 0.2, 100 * share.mean(0), 0.4, color=colour, label=name)
axes.set_xticks(steps)
axes.set_xlabel("how many grades the prediction is off")
axes.set_ylabel("% of unseen patients")
axes.legend(frameon=False)
axes.spines[["top", "right"]].set_visible(False)

# %%
# The far tail is what shrinks. ± is the standard deviation over splits, which share patients:
# read it as spread, not as a confidence interval. Accuracy alone would have called the two models
# equal.

# %%
# This is the second setting we tried. The first, on twenty splits, had no KL (``kl_weight=0``)
# and scikit-learn's own ``C=1`` for cross-entropy: mean distance 1.76 against 1.98, 4.9 % against
# 9.2 % off by five or more, but 17.2 % against 19.4 % right. That it is right as often is owed to
# the KL.
