import hypothesis.strategies as st
import numpy as np
import pytest
import torch
from hypothesis import given
from sklearn.metrics import label_ranking_loss, roc_auc_score

from tests.scores.cases import Array, scores, tags
from wassloss.scores import ranking_auc


def naive(x: Array, y: Array) -> float:
    """The share of pairs won, pair by pair."""
    won, pairs = 0.0, 0
    for p in np.flatnonzero(y):
        for n in np.flatnonzero(y == 0):
            won += float(x[p] > x[n]) + 0.5 * float(x[p] == x[n])
            pairs += 1
    return won / pairs if pairs else np.nan


def defined(y: Array) -> Array:
    return (y.sum(1) > 0) & (y.sum(1) < y.shape[1])


@given(scores(), st.data())
def test_pairs_won(x: Array, data: st.DataObject) -> None:
    y = data.draw(tags(len(x), empty=True))
    weight = np.array(data.draw(st.lists(st.floats(0.1, 2), min_size=len(x), max_size=len(x))))
    per_example = [naive(row, truth) for row, truth in zip(x, y, strict=True)]
    np.testing.assert_allclose(ranking_auc(x, y, reduction="none"), per_example)
    if defined(y).any():
        mean = np.average(np.array(per_example)[defined(y)], weights=weight[defined(y)])
        assert ranking_auc(x, y, sample_weight=weight) == pytest.approx(mean)


@pytest.mark.parametrize("weighted", [False, True])
def test_equal_to_scikit_learn(weighted: bool) -> None:
    rng = np.random.default_rng(0)
    x = rng.integers(0, 8, size=(60, 20)).astype(float)  # many ties
    y = (rng.random((60, 20)) < 0.3).astype(int)
    y[:, 0], y[:, 1] = 0, 1  # every example and label has both values
    y[0, :2] = 1, 0
    weight = rng.random(60) if weighted else None
    expected = roc_auc_score(y, x, average="samples", sample_weight=weight)
    assert ranking_auc(x, y, sample_weight=weight) == pytest.approx(expected)
    assert ranking_auc(x.T, y.T) == pytest.approx(roc_auc_score(y, x, average="macro"))


@given(scores(ties=False), st.data())
def test_ranking_loss_is_one_minus_auc(x: Array, data: st.DataObject) -> None:
    y = data.draw(tags(len(x), empty=True))
    kept = defined(y)
    if kept.any():
        assert ranking_auc(x, y) == pytest.approx(1 - label_ranking_loss(y[kept], x[kept]))


def test_what_has_no_auc_is_left_out_and_can_be_counted() -> None:
    x = torch.randn(4, 3)
    y = torch.tensor([[1, 0, 0], [0, 0, 0], [1, 1, 1], [1, 0, 1]])
    values = ranking_auc(x, y, reduction="none")
    assert values.isnan().tolist() == [False, True, True, False]
    torch.testing.assert_close(ranking_auc(x, y), values[[0, 3]].mean())


def test_no_example_with_an_auc_is_an_error() -> None:
    with pytest.raises(ValueError, match="and a defined score, got 2 examples"):
        ranking_auc(np.zeros((2, 3)), np.zeros((2, 3)))


@given(scores(ties=False), st.data())
def test_laws(x: Array, data: st.DataObject) -> None:
    y = data.draw(tags(len(x), empty=True))
    values = ranking_auc(x, y, reduction="none")
    # Only the order matters; reversing it, or exchanging true and false, gives 1 − AUC.
    np.testing.assert_allclose(ranking_auc(np.exp(3 * x), y, reduction="none"), values)
    np.testing.assert_allclose(ranking_auc(-x, y, reduction="none"), 1 - values)
    np.testing.assert_allclose(ranking_auc(x, 1 - y, reduction="none"), 1 - values)
    np.testing.assert_allclose(ranking_auc(0 * x, y, reduction="none"), 0 * values + 0.5)
    np.testing.assert_allclose(ranking_auc(y, y, reduction="none"), 0 * values + 1)


def test_ruled_out_labels_are_ranked_last() -> None:
    assert ranking_auc(np.array([[-np.inf, 0.0, -np.inf]]), [[0, 1, 1]]) == 0.75


def test_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = torch.randn(40, 5), torch.rand(40, 5) < 0.4
    expected = ranking_auc(x, y)
    monkeypatch.setattr("wassloss._memory.LARGEST_COLUMNS", 12)
    assert ranking_auc(x, y) == expected
