"""
Learning the ground metric
==========================

**Claim: distances are differentiable in the cost, so the positions of labels can be learned from
examples of how far apart measures are.**

Twelve labels have hidden positions in the plane. We are given 300 pairs of measures and the cost of
moving one onto the other, but not the positions. The gradient of a transport cost with respect to
the ground cost is the transport plan, so gradient descent can find them.
"""

import matplotlib.pyplot as plt
import torch

import wassloss as wl

LABELS, PAIRS = 12, 300
torch.manual_seed(3)
hidden = torch.rand(LABELS, 2, dtype=torch.float64)
mixtures = torch.distributions.Dirichlet(torch.full((LABELS,), 0.3, dtype=torch.float64))
h, y = mixtures.sample((PAIRS,)), mixtures.sample((PAIRS,))
known = wl.wasserstein(h, y, wl.ground.Embedding(hidden, normalize=False))  # exact
seen, unseen = slice(0, 200), slice(200, None)

# %%
# Start from random positions, predict the costs by entropic transport, and minimise the error.

vectors = torch.nn.Parameter(0.5 + 0.1 * torch.randn(LABELS, 2, dtype=torch.float64))
start = vectors.detach().clone()
metric = wl.ground.Embedding(vectors, normalize=False)
optimizer = torch.optim.Adam([vectors], lr=0.02)
track = []
for _ in range(160):
    optimizer.zero_grad()
    predicted = wl.wasserstein(h[seen], y[seen], metric, epsilon=0.01, regularizer="product")
    loss = (predicted - known[seen]).square().mean()
    loss.backward()
    optimizer.step()
    track.append(loss.item() ** 0.5)


def aligned(points: torch.Tensor) -> torch.Tensor:
    """Rotate, reflect and shift onto the hidden positions; distances do not determine these."""
    centre, middle = points.mean(0), hidden.mean(0)
    u, _, v = torch.linalg.svd((points - centre).T @ (hidden - middle))
    return (points - centre) @ u @ v + middle


with torch.no_grad():
    found = aligned(vectors)
    error = (wl.wasserstein(h[unseen], y[unseen], metric) - known[unseen]).abs().mean()
    print(f"new pairs: mean error {error:.4f} at a mean cost of {known[unseen].mean():.3f}")
    true = wl.ground.Embedding(hidden, normalize=False)
    blurred = wl.wasserstein(h[unseen], y[unseen], true, epsilon=0.01, regularizer="product")
    print(f"what the entropy alone adds: {(blurred - known[unseen]).abs().mean():.4f}")
    print(f"labels: {(found - hidden).norm(dim=1).mean():.3f} from their places on average")
    print(f"before: {(aligned(start) - hidden).norm(dim=1).mean():.3f}")

# %%
figure, (left, right) = plt.subplots(1, 2, figsize=(9, 4), layout="constrained")
left.semilogy(track, color="#c1272d")
left.set_xlabel("step")
left.set_ylabel("root mean square error of the cost")
left.spines[["top", "right"]].set_visible(False)
for begin, end in zip(aligned(start).tolist(), found.tolist(), strict=True):
    right.plot(*zip(begin, end, strict=True), color="#dddddd", zorder=0)
right.plot(*hidden.T.tolist(), "o", color="none", markeredgecolor="#1f5fa8", markersize=11)
right.plot(*found.T.tolist(), ".", color="#c1272d", markersize=9)
right.set_title("hidden (rings), learned (dots), from where (lines)", fontsize=10)
right.set_aspect("equal")
right.set_xticks([], [])
right.set_yticks([], [])

# %%
# The remaining error is about what the entropy adds: the given costs are exact, while the fitted
# ones are blurred with ``epsilon=0.01``. The data come from labels in a plane, as the model
# assumes; real labels need not have such positions.
