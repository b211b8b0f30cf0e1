"""
Word tags: what the loss changes, and what it does not
======================================================

**Claim: on the built-in clip art, adding the Wasserstein loss to KL makes the first guess of a
linear model a little milder, and changes no other figure.**

The data are 3159 drawings with 206 tags, 2.4 per drawing, and the ground metric is the distance
between the tags' word vectors. We compare the paper's combination, W + α KL, with KL alone: the
same model, the same 400 steps, three seeds each.
"""

import matplotlib.pyplot as plt
import torch

import wassloss as wl

torch.set_num_threads(1)  # threads do not help batches this small
data = wl.datasets.load_clipart()
X_train, y_train = data.data[data.train], data.target[data.train]
X_test, y_test = data.data[data.test], data.target[data.test]
metric = data.metric
print(metric.nearest("dog", 3), metric.nearest("tree", 3))


def kl(logits, target):
    """KL alone, up to a constant: cross-entropy with the tags' weights as target."""
    log_h = logits.log_softmax(1)
    return -(target.weights * log_h.gather(1, target.indices.clamp(min=0))).sum(1).mean()


losses = {"KL": kl, "W + 0.1 KL": wl.WassersteinLoss(metric, kl_weight=0.1)}
RATE = 0.3  # the best of 0.3, 1, 3 and 10 for either loss, on a fifth of the training part

# %%
# Train and compute the paper's top-k cost: the mean distance from the k best guesses to the nearest
# true tag.

ks = [1, 2, 3, 5, 8, 12, 20]
curves = {name: [] for name in losses}
scores = {}
for name, loss_fn in losses.items():
    for seed in range(3):
        torch.manual_seed(seed)
        model = wl.models.Linear(features=data.data.shape[1], labels=metric.size)
        optimizer = torch.optim.SGD(
            [
                {"params": [model.linear.weight], "weight_decay": 0.001},
                {"params": [model.linear.bias]},
            ],
            lr=RATE,
            momentum=0.7,
        )
        for _ in range(400):
            rows = torch.randint(len(X_train), (100,))
            optimizer.zero_grad()
            loss_fn(model(X_train[rows]), y_train[rows]).backward()
            optimizer.step()
        with torch.no_grad():
            scores[name] = model(X_test)
        curves[name].append(wl.scores.top_k_cost(scores[name], y_test, metric, k=ks))
    cost = torch.stack(curves[name])
    auc = wl.scores.ranking_auc(scores[name], y_test)
    print(f"{name:11s} top-1 cost {cost[:, 0].mean():.3f}   top-5 {cost[:, 3].mean():.3f}", end="")
    print(f"   spread over seeds {cost.std(0).max():.3f}   AUC of the last {auc:.3f}")

figure, axes = plt.subplots(figsize=(7, 3.6), layout="constrained")
for (name, runs), colour in zip(curves.items(), ("#999999", "#c1272d"), strict=True):
    runs = torch.stack(runs).numpy()
    axes.plot(ks, runs.mean(0), "o-", color=colour, label=name)
    axes.fill_between(ks, runs.min(0), runs.max(0), color=colour, alpha=0.2, linewidth=0)
axes.set_xlabel("k, number of guesses")
axes.set_ylabel("top-k cost: mean distance to a true tag")
axes.set_xticks(ks)
axes.set_ylim(0.4, 1.05)
axes.legend(frameon=False)
axes.spines[["top", "right"]].set_visible(False)

# %%
# Print some drawings on which the two models disagree, with the tags that people gave:

names = data.target_names
best = {name: s.topk(4).indices for name, s in scores.items()}
differ = (best["KL"].sort(1).values != best["W + 0.1 KL"].sort(1).values).any(1)
print(f"different four best guesses on {100 * differ.float().mean():.0f} % of the drawings\n")
for row in differ.nonzero()[::60, 0][:5].tolist():
    weights, tags = y_test.weights[row], y_test.indices[row]
    print("people said", ", ".join(names[t] for t in tags[weights > 0].tolist()))
    for name, guesses in best.items():
        print(f"   {name:11s}", ", ".join(names[t] for t in guesses[row].tolist()))

# %%
# The top-1 cost falls by a twentieth, more than seeds differ. From the third guess on there is no
# gain, and the AUC is slightly lower. On a data set this small, this is a demonstration, not
# evidence. The learning rate matters as much as the loss: with rates that were not tuned (1 for KL,
# 3 for W + 0.1 KL, 600 steps) the order was reversed, 0.592 against 0.608.
