"""Small steps: against a plain loop, as L-BFGS in the limit, early stopping, and progress."""

import math
import sys
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import wassloss as wl
from tests.problems import linear, perceptron, tags, wasserstein
from wassloss.estimators import DivergedError
from wassloss.estimators.lbfgs import fit_at_once
from wassloss.estimators.objective import Examples, MeanLoss
from wassloss.estimators.small_steps import (
    EarlyStopping,
    SmallSteps,
    _batches,
    fit_by_small_steps,
)


def how(**changes: Any) -> SmallSteps:
    given: dict[str, Any] = {
        "optimizer": "sgd",
        "learning_rate": None,
        "momentum": 0.7,
        "weight_decay": 0.02,
        "schedule": "cosine",
        "batch_size": 30,
        "seed": 0,
    }
    return SmallSteps(**given | changes)


def mean_loss() -> MeanLoss:
    return MeanLoss(wasserstein(reduction="none"), 1.0)


def examples(count: int = 200, seed: int = 0) -> Examples:
    return Examples(*tags(count, seed))


def fit(model: nn.Module, given: SmallSteps | None = None, **options: Any) -> int:
    options = {"steps": 20} | options
    return fit_by_small_steps(model, mean_loss(), examples(), given or how(), **options)


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
@pytest.mark.parametrize("schedule", ["cosine", "constant"])
def test_steps_are_those_of_a_plain_loop(optimizer: str, schedule: str) -> None:
    ours, theirs = perceptron(), perceptron()
    fit(ours, how(optimizer=optimizer, schedule=schedule, learning_rate=0.05))
    weights = [p for p in theirs.parameters() if p.dim() == 2]
    biases = [p for p in theirs.parameters() if p.dim() == 1]
    groups: list[dict[str, Any]] = [{"params": weights, "weight_decay": 0.02}, {"params": biases}]
    stepper: torch.optim.Optimizer = torch.optim.Adam(groups, lr=0.05)
    if optimizer == "sgd":
        stepper = torch.optim.SGD(groups, lr=0.05, momentum=0.7)
    scheduler = torch.optim.lr_scheduler.LambdaLR(
        stepper,
        lambda step: 1 if schedule == "constant" else (1 + math.cos(math.pi * step / 20)) / 2,
    )
    (x, target), loss_fn = tags(), wasserstein()
    for rows in _batches(len(x), 30, 20, seed=0):
        stepper.zero_grad()
        loss_fn(theirs(x[rows]), target[rows]).backward()
        stepper.step()
        scheduler.step()
    torch.testing.assert_close(ours.state_dict(), theirs.state_dict(), rtol=1e-5, atol=1e-6)


def test_small_steps_end_where_l_bfgs_does() -> None:
    full, stepped, some = linear(), linear(), examples(60)
    fit_at_once(full, mean_loss(), some, weight_decay=0.02, tol=1e-5, max_iterations=1000)
    given = how(batch_size=60, learning_rate=0.3, schedule="constant")
    fit_by_small_steps(stepped, mean_loss(), some, given, steps=800)
    torch.testing.assert_close(stepped.state_dict(), full.state_dict(), rtol=1e-2, atol=2e-3)


@pytest.mark.parametrize(("size", "batch_size", "steps"), [(7, 3, 14), (6, 3, 4), (5, 5, 3)])
def test_every_pass_sees_every_example_once(size: int, batch_size: int, steps: int) -> None:
    batches = list(_batches(size, batch_size, steps, seed=3))
    assert {len(rows) for rows in batches} == {batch_size}
    seen = torch.cat(batches).tolist()
    for first in range(0, len(seen) - size + 1, size):
        assert sorted(seen[first : first + size]) == list(range(size))
    assert torch.equal(
        torch.cat(list(_batches(size, batch_size, steps, seed=3))), torch.tensor(seen)
    )


@pytest.mark.parametrize(("steps", "passes"), [(1, 1), (6, 1), (7, 1), (8, 2), (20, 3), (21, 4)])
def test_the_number_of_passes(steps: int, passes: int) -> None:
    assert fit(linear(), steps=steps) == passes


def test_early_stopping_keeps_the_best_weights() -> None:
    stopping, model = EarlyStopping(examples(100, seed=1), patience=3, tol=0.0), linear()
    passes = fit(
        model, how(learning_rate=3.0, weight_decay=0.0), steps=1000, early_stopping=stopping
    )
    losses = stopping.losses
    assert passes == len(losses) < math.ceil(1000 * 30 / 200)
    assert stopping.best_pass == 1 + int(np.argmin(losses))
    assert min(losses[:-3]) <= min(losses[-3:])  # the last three passes did not improve on it
    held = stopping.held_out
    assert mean_loss()(model(held.features), held).item() == min(losses)


def test_what_counts_as_an_improvement() -> None:
    stopping = EarlyStopping(examples(100, seed=1), patience=2, tol=100.0)
    assert fit(linear(), steps=1000, early_stopping=stopping) == 3  # the first, and two more
    assert stopping.best_pass == 3  # the best weights are kept all the same


@pytest.mark.parametrize("large", [3e38, math.inf])
def test_a_fit_that_diverges(large: float) -> None:
    x, y = tags()
    model, some = perceptron(), Examples(x, y)
    with pytest.raises(DivergedError, match="look for extreme values"):
        fit_by_small_steps(model, mean_loss(), some, how(learning_rate=1e30), steps=100)
    some.features[5, 3] = large
    with pytest.raises(DivergedError, match="look for extreme values in the data"):
        fit_by_small_steps(linear(), mean_loss(), some, how(), steps=100)


def test_progress_is_a_bar_or_lines(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("tqdm")
    fit(linear())
    assert not "".join(capsys.readouterr())
    fit(linear(), verbose=True)
    assert "3/3" in capsys.readouterr().err
    monkeypatch.setitem(sys.modules, "tqdm", None)
    fit(linear(), verbose=True)
    first, *_, last = capsys.readouterr().err.splitlines()
    assert first.startswith("pass 1/3: loss ")
    assert last.startswith("pass 3/3: loss ")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"learning_rate": 0.0}, "learning_rate must be positive, got 0.0"),
        ({"momentum": 1.0}, "momentum must be at least 0 and less than 1, got 1.0"),
        ({"schedule": "linear"}, "schedule must be 'cosine' or 'constant', got 'linear'"),
        ({"batch_size": 0}, "batch_size must be at least 1, got 0"),
    ],
)
def test_bad_input(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        how(**changes)


def test_sparse_targets_are_as_wide_as_their_fullest_row() -> None:
    target = wl.SparseTarget(
        torch.arange(3).repeat(4, 1), torch.tensor([[1.0, 0, 0]] * 3 + [[0.5, 0.5, 0]])
    )
    some = Examples(torch.zeros(4, 2), target)
    assert some[torch.tensor([0, 2])].target.indices.shape == (2, 1)
    assert some[torch.tensor([0, 3])].target.indices.shape == (2, 2)
