"""The built-in clip art matches its datasheet."""

import subprocess
import sys

import torch

from wassloss import SparseTarget, WassersteinLoss
from wassloss.data import clipart


def test_clipart_is_what_its_datasheet_says() -> None:
    data = clipart()
    assert data.features.shape == (3159, 256)
    assert data.features.dtype == torch.float32
    assert data.label_count == 206
    assert {name: len(rows) for name, rows in data.parts.items()} == {"train": 2218, "test": 941}
    assert isinstance(data.target, SparseTarget)
    used = data.target.weights > 0
    assert round(used.sum(1).double().mean().item(), 1) == 2.4
    torch.testing.assert_close(data.target.weights.sum(1), torch.ones(3159))
    assert data.metric is not None
    assert data.metric.labels == data.label_names
    assert (torch.bincount(data.target.indices[used], minlength=206) < 10).sum() == 71
    mammal, animal = (data.label_names.index(tag) for tag in ("mammal", "animal"))
    has = [((data.target.indices == tag) & used).any(1) for tag in (mammal, animal)]
    assert (int(has[0].sum()), int((has[0] & has[1]).sum())) == (116, 72)


def test_no_group_crosses_the_split() -> None:
    data = clipart()
    assert data.groups is not None
    train, test = (set(data.groups[data.parts[part]].tolist()) for part in ("train", "test"))
    assert not train & test


def test_features_and_tags_belong_together() -> None:
    """Ridge regression finds a right tag first for half of the test drawings (datasheet: .51)."""
    data = clipart()
    target = data.target
    assert isinstance(target, SparseTarget)
    Y = torch.zeros(3159, 206).scatter_add(1, target.indices, (target.weights > 0).float())
    rows, test = data.parts["train"], data.parts["test"]
    X = torch.cat([data.features, torch.ones(3159, 1)], 1)
    gram = X[rows].T @ X[rows] + 300 * torch.eye(257)
    weights = torch.linalg.solve(gram, X[rows].T @ Y[rows])
    first = (X[test] @ weights).argmax(1)
    assert Y[test, first].mean() > 0.48
    popular = Y[rows].sum(0).argmax()
    assert Y[test, popular].mean() < 0.16


def test_it_feeds_the_loss() -> None:
    data = clipart().part("train").take(slice(0, 8))
    assert data.metric is not None
    loss = WassersteinLoss(data.metric, kl_weight=0.1, normalize_cost=False)
    assert loss(torch.zeros(8, 206), data.target).isfinite()


def test_importing_the_package_imports_no_reader() -> None:
    code = (
        "import sys, wassloss; wassloss.data.clipart(); "
        "print([m for m in ('pyarrow', 'pandas') if m in sys.modules])"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"
