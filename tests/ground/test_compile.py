"""Columns inside a compiled training step: one graph, no breaks."""

import pytest
import torch

from tests.ground.instances import FACTORIES
from wassloss.ground import Embedding

TRACED = ["discrete", "ordinal", "positions", "grid", "manhattan", "embedding", "matrix", "subset"]


@pytest.fixture(autouse=True)
def forget_other_graphs() -> None:
    torch.compiler.reset()  # one method for all classes would soon reach the recompile limit


@pytest.mark.parametrize("power", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("name", TRACED)
def test_columns_trace_as_one_graph(name: str, power: float) -> None:
    metric = FACTORIES[name](power=power, scale="max")
    indices = torch.tensor([[1, 0], [2, 2]])
    compiled = torch.compile(metric.cost_columns, fullgraph=True, backend="eager")
    torch.testing.assert_close(compiled(indices), metric.cost_columns(indices))


def test_gradient_through_a_graph() -> None:
    vectors = torch.randn(5, 3, requires_grad=True)
    metric = Embedding(vectors, power=0.5)
    indices = torch.tensor([1, 3])
    compiled = torch.compile(metric.cost_columns, fullgraph=True, backend="eager")
    (expected,) = torch.autograd.grad(metric.cost_columns(indices).sum(), vectors)
    (gradient,) = torch.autograd.grad(compiled(indices).sum(), vectors)
    torch.testing.assert_close(gradient, expected)
