import numpy as np
import pytest
import torch

from wassloss.ground import Matrix


def test_rounding_differences_are_averaged_away() -> None:
    distance = torch.tensor([[0.0, 1.0, 2.0], [1.0 + 1e-6, 0.0, 3.0], [2.0, 3.0, 0.0]])
    kept = Matrix(distance).distance()
    assert torch.equal(kept, kept.T)
    torch.testing.assert_close(kept, distance)


def test_exact_input_is_kept_exactly() -> None:
    distance = np.abs(np.subtract.outer(np.arange(5.0) ** 0.5, np.arange(5.0) ** 0.5))
    np.testing.assert_array_equal(Matrix(distance).distance().numpy(), distance)


def test_the_triangle_inequality_is_not_required() -> None:
    assert Matrix([[0, 1, 9], [1, 0, 1], [9, 1, 0]]).max_cost() == 9


@pytest.mark.parametrize("power", [0.5, 1.0, 2.0])
def test_gradient_agrees_with_differences(power: float) -> None:
    points = torch.rand(4, 1, dtype=torch.float64)
    off_diagonal = ~torch.eye(4, dtype=torch.bool)

    def costs(change: torch.Tensor) -> torch.Tensor:
        distance = torch.where(off_diagonal, change + change.T + 1, 0.0)
        return Matrix(distance, power=power, scale=2).cost_columns([1, 2])

    change = ((points - points.T).abs()).requires_grad_()
    assert torch.autograd.gradcheck(costs, change)


def test_gradient_is_finite_at_zero_and_a_parameter_is_followed() -> None:
    distance = torch.nn.Parameter(1 - torch.eye(3))
    metric = Matrix(distance, power=0.5)
    metric.cost_columns([0, 1]).sum().backward()
    assert distance.grad is not None
    assert torch.isfinite(distance.grad).all()
    assert (distance.grad.diagonal() == 0).all()
    with torch.no_grad():
        distance *= 4
    assert metric.cost()[0, 1] == 2


def test_a_data_frame_names_its_labels() -> None:
    pd = pytest.importorskip("pandas")
    names = ["cat", "dog"]
    table = pd.DataFrame([[0.0, 2.0], [2.0, 0.0]], index=names, columns=names)
    assert Matrix(table).labels == ("cat", "dog")
    assert Matrix(table, labels=["a", "b"]).labels == ("a", "b")
    assert Matrix(pd.DataFrame([[0.0, 2.0], [2.0, 0.0]])).labels is None
    with pytest.raises(ValueError, match="same labels in rows and columns"):
        Matrix(table.set_axis(["dog", "cat"]))


def test_labels_of_a_data_frame_give_way_to_those_given() -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame([[0.0, 1.0], [1.0, 0.0]], index=["a", "b"], columns=["a", "b"])
    assert Matrix(frame).labels == ("a", "b")
    assert Matrix(frame, labels=np.array(["x", "y"])).labels == ("x", "y")
    with pytest.raises(ValueError, match="labels must hold 2 names, got 0"):
        Matrix(frame, labels=[])


def test_large_integers_have_no_rounding() -> None:
    far = 10**8  # neighbouring integers are equal in single precision
    with pytest.raises(ValueError, match="distance must not be negative"):
        Matrix(torch.tensor([[0, far, -20000], [far, 0, 5], [-20000, 5, 0]]))
    with pytest.raises(ValueError, match="distance must be symmetric"):
        Matrix(torch.tensor([[0, far], [far + 30000, 0]]))
