"""
A transport plan, drawn
=======================

**Claim: epsilon blurs the plan, and you can see and measure by how much.**

The loss is the cost of the cheapest plan that turns the prediction into the target. Without
entropy (``epsilon=0``) mass moves along few paths; with entropy, every label sends a little mass
everywhere.
"""

import matplotlib.pyplot as plt
import torch

import wassloss as wl

K = 24
metric = wl.ground.Ordinal(K, power=2, scale="max")
place = torch.arange(K, dtype=torch.float64)


def bump(centre: float, width: float) -> torch.Tensor:
    return torch.exp(-(((place - centre) / width) ** 2) / 2)


h = 0.7 * bump(6, 2) + 0.3 * bump(14, 1.5)
y = bump(16, 2.5)
h, y = h / h.sum(), y / y.sum()

# %%
# Solve for the same two measures with three strengths of entropy. Costs lie between 0 and 1.
# ``<T, M>`` is the transport cost of the plan, which is smallest for the exact plan.

strengths = (0.0, 0.005, 0.05)
figure, panels = plt.subplots(
    2,
    4,
    figsize=(10, 3.9),
    layout="constrained",
    width_ratios=[0.35, 1, 1, 1],
    height_ratios=[1, 0.3],
)
for axes, epsilon in zip(panels[0, 1:], strengths, strict=True):
    solution = wl.solve(h[None], y[None], metric, epsilon=epsilon)
    plan = solution.plan()[0]
    paid = (plan * metric.cost()).sum().item()
    axes.imshow(plan.sqrt().numpy(), cmap="Reds", aspect="auto", origin="lower")
    title = "exact" if epsilon == 0 else f"ε = {epsilon:g}"
    axes.set_title(f"{title}:  <T, M> = {paid:.3f}", fontsize=10)
    axes.set_xticks([], [])
    axes.set_yticks([], [])
    print(
        f"epsilon={epsilon:<6g} {solution.status.name:10s} paths above 1e-6: {(plan > 1e-6).sum()}"
    )

panels[0, 0].barh(place.numpy(), h.numpy(), color="#1f5fa8")
panels[0, 0].invert_xaxis()
panels[0, 0].set_ylim(-0.5, K - 0.5)
panels[0, 0].set_ylabel("from: the prediction h")
for axes in panels[1, 1:]:
    axes.bar(place.numpy(), y.numpy(), color="#3d8c40")
    axes.set_xlim(-0.5, K - 0.5)
    axes.set_xlabel("to: the target y")
for axes in (panels[0, 0], *panels[1]):
    axes.axis("on")
    axes.set_xticks([], [])
    axes.set_yticks([], [])
    axes.spines[:].set_visible(False)

# %%
# All three plans have the right marginals. Entropy makes the plan less sharp but the loss smooth:
# the exact loss has kinks, where its gradient jumps, and the entropic loss has none.
