"""The temperature: laws, an independent optimum, what comes in and goes out, bad input."""

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax, logsumexp, softmax

from wassloss.decisions import Temperature
from wassloss.decisions.temperature import likelihood_slope

RNG = np.random.default_rng(0)
Z = RNG.normal(size=(300, 4)) * 2
Y = np.array([RNG.choice(4, p=row) for row in softmax(Z, axis=1)])


@pytest.mark.parametrize("true", [0.4, 1.0, 3.0])
def test_the_temperature_that_labels_were_drawn_with_is_found(true: float) -> None:
    rng = np.random.default_rng(1)
    z = rng.normal(size=(20_000, 5)) * 2
    y = (softmax(z / true, axis=1).cumsum(1) > rng.random((len(z), 1))).argmax(1)
    found = Temperature(logits=True).fit(z, y)
    assert found.temperature == pytest.approx(true, rel=0.05)
    np.testing.assert_allclose(found(z), softmax(z / found.temperature, axis=1))


def test_the_most_probable_label_stays() -> None:
    found = Temperature(logits=True).fit(3 * Z, Y)
    assert found.temperature > 2
    np.testing.assert_array_equal(found(3 * Z).argmax(1), Z.argmax(1))


def test_probabilities_and_their_logits_have_one_temperature() -> None:
    one = Temperature().fit(softmax(Z, axis=1), Y)
    other = Temperature(logits=True).fit(Z, Y)
    assert one.temperature == pytest.approx(other.temperature, rel=1e-6)


@pytest.mark.parametrize("weighted", [False, True])
def test_against_a_search_of_the_likelihood(weighted: bool) -> None:
    weight = RNG.integers(0, 4, len(Y)).astype(float) if weighted else np.ones(len(Y))

    def loss(inverse: float) -> float:
        return float(-(weight * log_softmax(inverse * Z, axis=1)[np.arange(len(Y)), Y]).sum())

    best = 1 / minimize_scalar(loss, bounds=(0.05, 20), method="bounded", options={"xatol": 1e-9}).x
    given = weight if weighted else None
    assert Temperature(logits=True).fit(Z, Y, given).temperature == pytest.approx(best, rel=1e-4)


def test_the_slope_is_that_of_finite_differences() -> None:
    z, y, weight = torch.from_numpy(Z), torch.from_numpy(Y), torch.rand(len(Y)).double()

    def loss(inverse: float) -> float:
        own = inverse * Z[np.arange(len(Y)), Y] - logsumexp(inverse * Z, axis=1)
        return float(-(weight.numpy() * own).sum())

    for inverse in (0.1, 1.0, 4.0):
        expected = (loss(inverse + 1e-5) - loss(inverse - 1e-5)) / 2e-5
        assert likelihood_slope(inverse, z, y, weight) == pytest.approx(expected, rel=1e-6)


def test_bounds_where_every_row_is_right_or_worse_than_chance() -> None:
    assert Temperature(logits=True).fit(Z, Z.argmax(1)).temperature == 1 / 20
    assert Temperature(logits=True).fit(Z, Z.argmin(1)).temperature == 20
    sure = Temperature().fit(np.eye(3)[[0, 1, 2, 2]], [0, 1, 2, 2])
    assert (sure(np.eye(3)) > 0.99)[np.eye(3) == 1].all()


def test_zeros_of_a_forest_are_no_surprise_without_end() -> None:
    p = np.array([[0.75, 0.25, 0.0], [0.5, 0.5, 0.0], [0.0, 0.25, 0.75]])
    found = Temperature().fit(p, [0, 1, 0])
    assert found.floor == pytest.approx(0.25 / 3)
    assert (found(p) > 0).all()
    np.testing.assert_allclose(found(p).sum(1), 1)


def test_answers_are_of_the_kind_that_came_in() -> None:
    pd = pytest.importorskip("pandas")
    p = softmax(Z, axis=1)
    found = Temperature().fit(p, Y)
    assert isinstance(found(p), np.ndarray)
    narrow = torch.from_numpy(p).float()
    assert found(narrow).dtype == torch.float32
    frame = pd.DataFrame(p, columns=list("abcd"), index=range(100, 400))
    answer = found(frame)
    assert list(answer.columns) == list("abcd")
    assert answer.index.equals(frame.index)
    np.testing.assert_allclose(answer, found(p))
    by_name = Temperature().fit(frame, pd.Series(np.array(list("abcd"))[Y]))
    assert by_name.temperature == found.temperature
    assert repr(found) == f"Temperature({found.temperature:.4g})"
    assert repr(Temperature()) == "Temperature(), not fitted"


def good() -> NDArray[np.float64]:
    return np.array([[0.5, 0.5], [0.1, 0.9]])


@pytest.mark.parametrize(
    ("p", "y", "message"),
    [
        (100 * good(), [0, 1], r"probabilities must be in \[0, 1\], got 50 in row 0; for logits"),
        (0.8 * good(), [0, 1], r"must sum to 1 in every row, got 0\.8 in row 0; divide each row"),
        (good() - 0.3, [0, 1], r"must be in \[0, 1\], got -0\.2 in row 1"),
        (good() * [1, np.nan], [0, 1], "must not hold NaN, got one in example 0"),
        (good(), [0, 2], r"y must be in 0\.\.1, got 2 in row 1"),
        (good(), [0, -1], r"y must be in 0\.\.1, got -1 in row 1"),
        (good(), [0], r"y must have shape \(2,\), a label per row, got \(1,\)"),
        (
            good(),
            ["a", "b"],
            "y must hold integers, because labels have no names, got 'a' in row 0",
        ),
        (good()[:0], [], "a row with positive weight"),
    ],
)
def test_bad_input_is_named(p: NDArray[np.float64], y: list[int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Temperature().fit(p, y)


def test_bad_types_and_order_are_named() -> None:
    with pytest.raises(TypeError, match=r"y must hold integers in 0\.\.1, or names of labels"):
        Temperature().fit(good(), [0.0, 1.0])
    with pytest.raises(TypeError, match="logits must be True or False"):
        Temperature(logits="yes")
    with pytest.raises(ValueError, match="must be fitted first"):
        Temperature()(good())
    with pytest.raises(ValueError, match="logits must be finite"):
        Temperature(logits=True).fit([[0.0, np.inf]], [0])
