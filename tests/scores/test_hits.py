import hypothesis.strategies as st
import numpy as np
import pytest
import torch
from hypothesis import given
from sklearn.metrics import accuracy_score, top_k_accuracy_score

from tests.scores.cases import Array, K, ranked, scores, tags
from wassloss.scores import accuracy, precision_at_k, recall_at_k

KS = range(1, K + 1)


@given(scores(), st.data())
def test_hits_counted_by_hand(x: Array, data: st.DataObject) -> None:
    y = data.draw(tags(len(x)))
    hits = np.array(
        [[truth[ranked(row)[:k]].sum() for k in KS] for row, truth in zip(x, y, strict=True)]
    )
    precision = precision_at_k(x, y, KS, reduction="none")
    recall = recall_at_k(x, y, KS, reduction="none")
    np.testing.assert_allclose(precision, hits / np.arange(1, K + 1))
    np.testing.assert_allclose(recall, hits / y.sum(1, keepdims=True))
    assert (recall[:, -1] == 1).all()
    assert accuracy(x, y) == pytest.approx(precision_at_k(x, y, 1)) == precision[:, 0].mean()
    # Only whether a weight is positive matters.
    np.testing.assert_array_equal(precision_at_k(x, 0.1 * y, KS, reduction="none"), precision)


def test_equal_to_scikit_learn() -> None:
    rng = np.random.default_rng(0)
    x, ids, weight = rng.random((50, 6)), rng.integers(6, size=50), rng.random(50)
    expected = accuracy_score(ids, x.argmax(1), sample_weight=weight)
    assert accuracy(x, ids, sample_weight=weight) == pytest.approx(expected)
    for k in (1, 2, 5):
        expected = top_k_accuracy_score(ids, x, k=k, labels=range(6), sample_weight=weight)
        assert recall_at_k(x, ids, k, sample_weight=weight) == pytest.approx(expected)


def test_accuracy_against_a_distribution_is_against_its_mode() -> None:
    y = torch.tensor([[0.2, 0.5, 0.3], [0.4, 0.4, 0.2]])
    right = accuracy(torch.eye(3)[[0, 1]], y, reduction="none")
    assert right.tolist() == [0.0, 1.0]
