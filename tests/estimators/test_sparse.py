"""Sparse features give the models of dense ones, without a dense copy."""

from __future__ import annotations

import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy import sparse

import wassloss as wl
from wassloss.app.comparison import tuning
from wassloss.estimators.sparse_rows import SparseRows

RNG = np.random.default_rng(0)
DENSE = np.where(RNG.random((200, 12)) < 0.3, RNG.normal(1, 1, (200, 12)), 0.0)
Y = np.digitize(DENSE @ RNG.normal(size=12) + 0.3 * RNG.normal(size=200), [-1, 0, 1])
X = sparse.csr_array(DENSE)
FORMS = [sparse.csr_array, sparse.csr_matrix, sparse.csc_array, sparse.coo_array]


@pytest.mark.parametrize("form", FORMS)
def test_a_linear_model_is_that_of_dense_features(form: Any) -> None:
    ours = wl.WassersteinClassifier("ordinal", tol=1e-7).fit(form(X), Y)
    dense = wl.WassersteinClassifier("ordinal", tol=1e-7).fit(DENSE, Y)
    np.testing.assert_allclose(ours.coef_, dense.coef_, atol=1e-5)
    np.testing.assert_allclose(ours.intercept_, dense.intercept_, atol=1e-5)
    np.testing.assert_allclose(ours.predict_proba(form(X)), dense.predict_proba(DENSE), atol=1e-5)


@pytest.mark.parametrize("hidden", [(), (8,)])
@pytest.mark.parametrize("solver", ["lbfgs", "adam"])
@pytest.mark.parametrize("standardize", [False, True])
def test_training_takes_the_same_steps(
    hidden: tuple[int, ...], solver: str, standardize: bool
) -> None:
    keywords: dict[str, Any] = {"hidden_layer_sizes": hidden, "solver": solver, "max_iter": 3}
    made = wl.WassersteinClassifier(
        "ordinal", standardize=standardize, random_state=0, tol=1.0, **keywords
    )
    expected = made.fit(DENSE, Y, Y + 1.0).predict_proba(DENSE)
    np.testing.assert_allclose(
        made.fit(X, Y, Y + 1.0).predict_proba(X), expected, rtol=1e-4, atol=1e-6
    )


def test_sparse_and_dense_rows_may_alternate(tmp_path: Path) -> None:
    """A model predicts the same for both, whichever it was fitted to, also after loading."""
    for one in (X, DENSE):
        fitted = wl.WassersteinClassifier("ordinal").fit(one, Y)
        fitted.save(tmp_path / "model")
        for model in (fitted, wl.WassersteinClassifier.load(tmp_path / "model")):
            found = [model.predict_proba(other) for other in (X, DENSE)]
            np.testing.assert_allclose(*found, atol=1e-9)
            np.testing.assert_allclose(found[0], fitted.predict_proba(one), atol=1e-9)


def test_searches_and_comparisons(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tuning, "_MANY", 1)  # one fold to choose by
    few: dict[str, Any] = {"alphas": (10.0, 1.0), "kl_weights": (0.5,), "cv": 2, "tol": 1e-7}
    ours = wl.WassersteinClassifierCV("ordinal", **few).fit(X, Y, Y + 1.0)
    dense = wl.WassersteinClassifierCV("ordinal", **few).fit(DENSE, Y, Y + 1.0)
    np.testing.assert_allclose(ours.scores_, dense.scores_, atol=1e-6)
    found = wl.compare(X, Y, "ordinal")
    assert found.candidates[-1].loss == "ridge"
    assert found.best.score(X, Y) > 0.5


def test_measures() -> None:
    y = 0.1 + np.abs(DENSE @ RNG.normal(size=(12, 3)))
    model = wl.WassersteinMeasureRegressor("ordinal", max_iter=5, solver="adam")
    expected = model.set_params(random_state=0).fit(DENSE, y).predict(DENSE)
    np.testing.assert_allclose(model.fit(X, y).predict(X), expected, rtol=1e-3)


def test_it_fits_in_memory() -> None:
    """As a dense matrix the features would take 800 MB."""
    big = sparse.random_array((2000, 50_000), density=0.001, format="csr", rng=RNG)
    y = np.digitize(big @ RNG.normal(size=50_000), [-0.5, 0.5])
    tracemalloc.start()
    fitted = wl.WassersteinClassifier("ordinal", alpha=10.0).fit(big, y)
    right = fitted.score(big, y)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert right > 0.9
    assert peak < 100e6


def test_features_that_are_too_large() -> None:
    large = X.copy()
    large.data[5] = 1e200
    row, column = (int(each[5]) for each in large.tocoo().coords)
    with pytest.raises(ValueError, match=rf"1e\+200 in row {row}, column {column}"):
        wl.WassersteinClassifier("ordinal", standardize=False).fit(large, Y)


def test_the_gradient_of_a_product() -> None:
    means = torch.from_numpy(DENSE.mean(0))
    rows = SparseRows(X[:5], means)
    weight = torch.randn(3, 12, dtype=torch.float64, requires_grad=True)
    bias = torch.randn(3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(
        lambda w, b: torch.nn.functional.linear(rows, w, b),  # type: ignore[arg-type]
        (weight, bias),
    )
    expected = (torch.from_numpy(DENSE[:5]) - means) @ weight.T
    torch.testing.assert_close(torch.nn.functional.linear(rows, weight), expected)  # type: ignore[arg-type]
    assert len(rows[torch.tensor([3, 0])]) == 2
    with pytest.raises(TypeError):
        torch.relu(rows)  # type: ignore[arg-type]


@pytest.mark.parametrize("means", [None, torch.linspace(-1, 1, 10, dtype=torch.float64)])
def test_products_and_moments_are_those_of_dense_rows(means: torch.Tensor | None) -> None:
    matrix = sparse.random_array((30, 10), density=0.3, rng=np.random.default_rng(0))
    rows, weight = SparseRows(matrix, means), torch.linspace(0.5, 1.5, 30, dtype=torch.float64)
    dense = torch.from_numpy(matrix.toarray()) - (0 if means is None else means)
    left = torch.randn(4, 30, dtype=torch.float64)
    torch.testing.assert_close(left @ rows, left @ dense)
    torch.testing.assert_close(rows.moments(), dense.T @ dense / 30)
    torch.testing.assert_close(rows.moments(weight), (weight.unsqueeze(1) * dense).T @ dense / 30)
