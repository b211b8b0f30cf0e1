"""
Segmentation on a grid: a displaced blob
========================================

**Claim: once two blobs no longer overlap, cross-entropy is flat and gives no direction; the
Wasserstein loss keeps pulling.**

The labels are the pixels of a 32 × 32 image. The target is a disc; the prediction is the same
disc in another place, over a faint uniform background. The model has two parameters, the position
of its disc.
"""

import matplotlib.pyplot as plt
import torch

import wassloss as wl

SIDE = 32
metric = wl.ground.Grid((SIDE, SIDE), power=2, scale="max")
rows, columns = torch.meshgrid(torch.arange(SIDE), torch.arange(SIDE), indexing="ij")


def log_disc(centre: torch.Tensor) -> torch.Tensor:
    """Log mass of each pixel, `(pixels,)`: a soft-edged disc over 2 % of background."""
    distance = ((rows - centre[0]) ** 2 + (columns - centre[1]) ** 2).sqrt().reshape(-1)
    disc = torch.softmax(4 * torch.nn.functional.logsigmoid(2 * (4 - distance)), 0)
    return torch.log(0.98 * disc + 0.02 / SIDE**2)


centre = torch.tensor([10.0, 9.0])
target = log_disc(centre).exp()
losses = {
    "cross-entropy": torch.nn.CrossEntropyLoss(),
    "Wasserstein": wl.WassersteinLoss(metric, epsilon=0.01, kl_weight=0, normalize_cost=False),
}

# %%
# Compute the loss as the prediction slides away, then run plain gradient descent on its position
# from the far corner. The step size of each loss is about a pixel where its curve is steepest.

shifts = torch.linspace(0, 17, 35)
curves, paths = {}, {}
for name, loss_fn in losses.items():
    slid = torch.stack([log_disc(centre + torch.tensor([0.0, s])) for s in shifts])
    values = torch.stack([loss_fn(log_h[None], target[None]) for log_h in slid])
    curves[name] = (values - values.min()) / (values.max() - values.min())
    step = (shifts.diff() / values.diff()).abs().min()

    place = torch.tensor([25.3, 26.4], requires_grad=True)
    path, slopes = [place.detach().clone()], []
    for _ in range(60):
        (slope,) = torch.autograd.grad(loss_fn(log_disc(place)[None], target[None]), place)
        with torch.no_grad():
            place -= step * slope
        path.append(place.detach().clone())
        slopes.append(step * slope.norm())
    paths[name] = torch.stack(path)
    off = (paths[name][-1] - centre).norm()
    print(f"{name:14s} first step {slopes[0]:.0e} pixels; after 60 steps {off:.1f} pixels off")

# %%
figure, (left, right) = plt.subplots(1, 2, figsize=(9, 4), layout="constrained")
colours = {"cross-entropy": "#555555", "Wasserstein": "#c1272d"}
for name, values in curves.items():
    left.plot(shifts.numpy(), values.numpy(), color=colours[name], label=name)
left.axvline(8, color="#bbbbbb", linewidth=1, zorder=0)
left.annotate("no overlap from here on", (8, 0.1), xytext=(6, 0), textcoords="offset points")
left.set_xlabel("displacement in pixels")
left.set_ylabel("loss, from least to largest")
left.legend(frameon=False)
left.spines[["top", "right"]].set_visible(False)

start = log_disc(paths["Wasserstein"][0]).exp()
right.imshow((target - start).reshape(SIDE, SIDE).numpy(), cmap="RdBu_r", vmin=-0.04, vmax=0.04)
for name, path in paths.items():
    right.plot(path[:, 1].numpy(), path[:, 0].numpy(), ".-", color=colours[name], label=name)
right.set_title("descent from the blue disc to the red one", fontsize=10)
right.set_xticks([], [])
right.set_yticks([], [])

# %%
# Here the model can only move what it draws. A network with one logit per pixel also gets a
# gradient from cross-entropy, which lowers some pixels and raises others. But cross-entropy does
# not tell it that a near miss is better than a far one.
