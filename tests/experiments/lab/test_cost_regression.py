"""A regression of the cost to the nearest true label."""

import numpy as np
import torch
from sklearn.linear_model import Ridge

import wassloss as wl
from experiments.lab.cost_regression import NearestCostRegression


def test_regressed_costs_are_those_of_least_squares() -> None:
    rng = np.random.default_rng(3)
    x, new = rng.normal(size=(600, 2)) + 1, rng.normal(size=(3, 2))
    labels = torch.from_numpy(rng.integers(0, 5, size=(600, 2)))
    weights = torch.tensor([0.5, 0.0]).expand(600, 2).clone()
    weights[::2, 1] = 0.5
    target = wl.SparseTarget(labels, weights)
    costs = np.abs(np.arange(5)[:, None] - np.arange(5)) ** 1.5
    y = np.stack([costs[:, row > 0].min(1) for row in target.dense(5).numpy()])
    # The offset is not penalised; the penalty is added to the mean squared error.
    ridge = Ridge(alpha=600 * 0.3).fit(x, y)
    metric = wl.ground.Ordinal(5, power=1.5)
    fitted = NearestCostRegression(metric, ridge=0.3).fit(torch.from_numpy(x), target)
    np.testing.assert_allclose(fitted.costs(torch.from_numpy(new)), ridge.predict(new), rtol=1e-5)
    assert fitted.costs(torch.from_numpy(new).float()).dtype is torch.float32
