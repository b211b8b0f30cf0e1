import torch

from wassloss.ground import Matrix, Ordinal


def test_triangle_violation_is_found_with_its_triple() -> None:
    distance = 2 - 2 * torch.eye(5)
    distance[1, 4] = distance[4, 1] = 10
    distance[1, 2] = distance[2, 1] = 1.5
    report = Matrix(distance, labels=list("abcde")).check_axioms()
    assert not report.ok
    assert str(report).count(": yes") == 3
    assert "triangle inequality: no, d(b, e) exceeds d(b, c) + d(c, e) by 6.5" in str(report)


def test_coinciding_labels_are_not_distinct() -> None:
    report = Ordinal([1.0, 2.0, 1.0]).check_axioms()
    assert not report.ok
    assert "distinct labels apart: no\n  triangle inequality: yes" in str(report)


def test_distance_is_checked_whatever_the_power() -> None:
    assert Ordinal(5, power=2).check_axioms().ok
    assert not Matrix(Ordinal(5, power=2).cost()).check_axioms().ok


def test_many_labels_are_sampled_and_the_sample_is_always_the_same() -> None:
    metric = Ordinal(torch.rand(1000, dtype=torch.float64), power=2)
    report = metric.check_axioms()
    assert report.ok
    assert "256 of 1000 labels checked" in str(report)
    squared = Matrix(metric.cost())
    found = squared.check_axioms()
    assert "triangle inequality: no" in str(found)
    assert found == squared.check_axioms()


def test_a_twin_outside_the_sample_is_noticed() -> None:
    positions = torch.arange(1000.0)
    positions[999] = 0.5  # between two labels, so not a duplicate
    assert Ordinal(positions).check_axioms().ok
    assert "labels apart: no" in str(Ordinal(positions // 2).check_axioms())
