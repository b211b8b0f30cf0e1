"""
Ordered labels: milder mistakes at the same accuracy
====================================================

**Claim: on ten grades of disease progression, a linear model trained with a Wasserstein loss makes
about a quarter fewer grave mistakes and is right as often.**

The data come with scikit-learn: 442 patients with 10 measurements each. We divide the progression
into ten grades of equal size and fit the same linear model with two losses, on eight random splits
and with the same weight penalty. All other settings are defaults. Grave mistakes are those of five
grades or more.
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

torch.set_num_threads(1)  # threads do not help problems this small

GRADES, SPLITS = 10, 8
X, progression = load_diabetes(return_X_y=True)
grades = np.searchsorted(np.quantile(progression, np.arange(1, GRADES) / GRADES), progression)

ALPHA = 0.001  # of the penalty ½ alpha Σ‖θ‖², the default of the classifier below
C = 1 / (ALPHA * 0.7 * len(X))  # the same for LogisticRegression
models = {
    "cross-entropy": make_pipeline(StandardScaler(), LogisticRegression(C=C, max_iter=1000)),
    "Wasserstein": wl.WassersteinClassifier("ordinal", alpha=ALPHA),
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
# How far off are the models on unseen patients?

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
# The Wasserstein loss shortens the tail; by accuracy alone, the two models would look equal. ± is
# the standard deviation over splits. Splits share patients, so it is not a confidence interval.
#
# Of seven penalties from 0.001 to 1 this one, 0.001, suits cross-entropy best, by mean distance and
# by grave mistakes on these splits. The Wasserstein loss makes 7.1 % to 7.6 % grave mistakes with
# any of them.

# %%
# The equal accuracy is due to the KL term. Without it (``kl_weight=0``), with scikit-learn's
# ``C=1`` for cross-entropy and twenty splits, the results were:
#
# =============  =============  ==================  =======
# loss           mean distance  off by 5 or more    right
# =============  =============  ==================  =======
# Wasserstein    1.76           4.9 %               17.2 %
# cross-entropy  1.98           9.2 %               19.4 %
# =============  =============  ==================  =======
