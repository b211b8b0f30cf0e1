"""A regression of the cost to the nearest true label."""

import numpy as np
import pytest
import torch
from sklearn.linear_model import Ridge

from tests.losses.test_baselines import LABELS, METRIC, dense_of, targets
from wassloss.scores import NearestCostRegression


@pytest.mark.parametrize("kind", targets())
def test_regressed_costs_are_those_of_least_squares(kind: str) -> None:
    rng, target = np.random.default_rng(3), targets()[kind]
    x, new = rng.normal(size=(4, 2)) + 1, rng.normal(size=(3, 2))
    places = np.arange(LABELS)
    costs = np.abs(places[:, None] - places) ** 1.5
    y = np.stack([costs[:, row > 0].min(1) for row in dense_of(target)])
    # The offset is not penalised; the penalty is beside the mean of the squares.
    ridge = Ridge(alpha=4 * 0.3).fit(x, y)
    fitted = NearestCostRegression(METRIC, ridge=0.3).fit(torch.from_numpy(x), target)
    np.testing.assert_allclose(fitted.costs(torch.from_numpy(new)), ridge.predict(new), rtol=1e-5)
    assert fitted.costs(torch.from_numpy(new).float()).dtype is torch.float32


def test_regressed_costs_of_many_examples_are_found_in_pieces() -> None:
    x = torch.randn(600, 3, dtype=torch.float64)
    ids = torch.randint(LABELS, (600,))
    whole = NearestCostRegression(METRIC).fit(x, ids)
    dense = torch.nn.functional.one_hot(ids, LABELS).double()
    torch.testing.assert_close(whole.costs(x), NearestCostRegression(METRIC).fit(x, dense).costs(x))
    with pytest.raises(ValueError, match=r"features must have shape \(n, d\)"):
        NearestCostRegression(METRIC).fit(x[0], ids)
    with pytest.raises(ValueError, match="features must be finite"):
        NearestCostRegression(METRIC).fit(x.where(x < 2, torch.nan), ids)
    with pytest.raises(ValueError, match="ridge must be positive"):
        NearestCostRegression(METRIC, ridge=0.0)
    with pytest.raises(ValueError, match="call fit first"):
        NearestCostRegression(METRIC).costs(x)
