"""Train the same linear model with three losses and look at how bad its mistakes are.

The labels are ten grades of disease progression (the diabetes data that come with scikit-learn):
a patient graded 4 instead of 3 is a mild mistake, 9 instead of 3 a grave one. Takes seconds:

    python examples/demo_grades.py
"""

from __future__ import annotations

import base64
import io
from collections.abc import Callable
from pathlib import Path
from statistics import mean, stdev
from typing import NamedTuple

import matplotlib as mpl
import numpy as np
import torch
from matplotlib import pyplot as plt
from sklearn.datasets import load_diabetes
from torch import Tensor, nn

import wassloss as wl

GRADES = 10
SEEDS = range(10)  # each its own split, initial weights and order of batches
EPOCHS = 60
REPORT = Path("wassloss_demo.html")

METRIC = wl.ground.Ordinal(GRADES)
LOSSES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "cross-entropy": nn.CrossEntropyLoss(),
    "Wasserstein": wl.WassersteinLoss(METRIC),
    "Wasserstein + 0.1 KL": wl.WassersteinLoss(METRIC, kl_weight=0.1),
}


class Mistakes(NamedTuple):
    """How far off predictions for unseen patients were."""

    distance: float  # mean |predicted - true|
    grave: float  # share of predictions off by five grades or more
    accuracy: float
    shares: Tensor  # (grades,), share of predictions off by 0, 1, ...


def graded_patients() -> tuple[Tensor, Tensor]:
    """Features scaled to unit variance, and ten grades of equal size."""
    features, progression = load_diabetes(return_X_y=True)
    limits = np.quantile(progression, np.arange(1, GRADES) / GRADES)
    grades = torch.from_numpy(np.searchsorted(limits, progression))
    return torch.tensor(features / features.std(0), dtype=torch.float32), grades


def train(loss_fn: Callable[[Tensor, Tensor], Tensor], x: Tensor, y: Tensor) -> nn.Module:
    model = nn.Linear(x.shape[1], GRADES)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.03, weight_decay=1e-3)
    for _ in range(EPOCHS):
        for rows in torch.randperm(len(x)).split(100):
            optimizer.zero_grad()
            loss_fn(model(x[rows]), y[rows]).backward()
            optimizer.step()
    return model


def mistakes(model: nn.Module, x: Tensor, y: Tensor) -> Mistakes:
    off = (model(x).argmax(1) - y).abs()
    shares = torch.bincount(off, minlength=GRADES) / len(off)
    distance = off.float().mean().item()
    return Mistakes(distance, shares[5:].sum().item(), shares[0].item(), shares)


def picture(results: dict[str, list[Mistakes]]) -> str:
    """A bar for each size of mistake, as a data URI."""
    figure, axes = plt.subplots(figsize=(8, 3.6), layout="constrained")
    width = 0.8 / len(results)
    for place, (name, runs) in enumerate(results.items()):
        percent = 100 * torch.stack([run.shares for run in runs]).mean(0).numpy()
        axes.bar(np.arange(GRADES) + (place - 1) * width, percent, width, label=name)
    axes.set_xlabel("how many grades the prediction is off")
    axes.set_ylabel("% of unseen patients")
    axes.set_xticks(range(GRADES))
    axes.legend(frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    buffer = io.BytesIO()
    figure.savefig(buffer, format="svg")
    return "data:image/svg+xml;base64," + base64.b64encode(buffer.getvalue()).decode()


def spread(values: list[float], scale: float = 1.0) -> str:
    return f"{scale * mean(values):.2f} ± {scale * stdev(values):.2f}"


def rows_of(results: dict[str, list[Mistakes]]) -> list[list[str]]:
    return [
        [
            name,
            spread([run.distance for run in runs]),
            spread([run.grave for run in runs], 100),
            spread([run.accuracy for run in runs], 100),
        ]
        for name, runs in results.items()
    ]


def write_report(table: list[list[str]], image: str) -> None:
    header, *rows = table
    cells = "".join(f"<th>{name}</th>" for name in header)
    body = "".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in rows)
    page = f"""<!doctype html>
<html lang="en"><meta charset="utf-8"><title>wassloss: milder mistakes</title>
<style>
body {{ font: 16px/1.5 system-ui, sans-serif; max-width: 52rem; margin: 3rem auto; padding: 0 1em }}
table {{ border-collapse: collapse; margin: 1.5rem 0 }}
th, td {{ padding: .4rem 1rem; border-bottom: 1px solid #ddd; text-align: right }}
th:first-child, td:first-child {{ text-align: left }}
img {{ width: 100% }}
</style>
<h1>Milder mistakes</h1>
<p>The same linear model, trained with three losses to predict the progression of a disease in
{GRADES} grades. The Wasserstein losses know that grade 3 is near 4 and far from 9
(<code>{METRIC!r}</code>); cross-entropy does not. Mean ± standard deviation over {len(SEEDS)}
random splits of the 442 patients, measured on those the model has not seen.</p>
<table><tr>{cells}</tr>{body}</table>
<img src="{image}" alt="Share of unseen patients by size of mistake, for each loss">
</html>
"""
    partial = REPORT.with_suffix(".partial")
    partial.write_text(page)
    partial.replace(REPORT)


def main() -> None:
    mpl.use("Agg")
    torch.set_num_threads(1)  # batches this small only make threads wait for each other
    features, grades = graded_patients()
    results: dict[str, list[Mistakes]] = {name: [] for name in LOSSES}
    for seed in SEEDS:
        for name, loss_fn in LOSSES.items():
            torch.manual_seed(seed)
            order = torch.randperm(len(features))
            seen, unseen = order[:300], order[300:]
            model = train(loss_fn, features[seen], grades[seen])
            results[name].append(mistakes(model, features[unseen], grades[unseen]))
    header = ["loss", "mean distance", "% off by 5 or more", "% right"]
    table = [header, *rows_of(results)]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    for row in table:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)))
    write_report(table, picture(results))
    print(f"\nReport: {REPORT.resolve()}")


if __name__ == "__main__":
    main()
