"""A metric on a subset of labels, with all others equally far; for laws, see test_laws.py."""

import pytest
import torch

from wassloss.ground import Cost, Embedding, Matrix, Ordinal, Subset


def test_equals_the_explicit_matrix():
    inner, chosen = Ordinal([0.0, 3.0, 4.0]), [4, 1, 2]
    distance = torch.full((6, 6), 5.0).fill_diagonal_(0.0)
    for i, a in enumerate(chosen):
        for j, b in enumerate(chosen):
            distance[a, b] = inner.distance()[i, j]
    expected = Matrix(distance, power=2, scale="max")
    metric = Subset(inner, chosen, 6, far=5.0, power=2, scale="max")
    torch.testing.assert_close(metric.cost(), expected.cost())
    indices = torch.tensor([0, 4, 2])
    torch.testing.assert_close(metric.cost_columns(indices), expected.cost_columns(indices))
    rows = metric.costs_by_place(indices)[:, metric.places]
    own = indices[:, None] == torch.arange(6)
    torch.testing.assert_close(rows.masked_fill(own, 0), expected.cost_columns(indices))


def test_words_outside_are_as_far_as_the_farthest_inside():
    metric = Subset(Ordinal(10), range(10), 100)
    assert metric.far == 9
    assert metric.in_medians().scale == 9  # nearly all pairs are far
    assert repr(metric) == "Subset(Ordinal(10) within 100)"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([[0.0]], [0], 3), "metric must be a ground metric"),
        ((Cost([[0.0, 1.0], [2.0, 0.0]]), [0, 1], 3), "metric must be a ground metric"),
        ((Embedding(torch.eye(2).requires_grad_()), [0, 1], 3), "that do not require grad"),
        ((Ordinal(2), [0, 0], 3), "indices must be 2 different labels, .* got 1 in 2"),
        ((Ordinal(2), [0, 1, 2], 3), "indices must be 2 different labels, .* got 3 in 3"),
        ((Ordinal(2), [0, 3], 3), r"indices must be in 0..2, got indices\[1\] = 3"),
        ((Ordinal(2), [0, -1], 3), r"indices must be in 0..2, got indices\[1\] = -1"),
        ((Ordinal(2), [0, 1], 3, 0.0), "far must be a positive number, got 0"),
        ((Ordinal(1), [0], 3), "far must be a positive number, got 0"),
    ],
)
def test_wrong_input(arguments, message):
    with pytest.raises(ValueError, match=message):
        Subset(*arguments)
