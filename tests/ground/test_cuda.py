"""Laws that may break on a GPU, tested if there is one."""

import pytest
import torch

from tests.ground.instances import Factory, every
from wassloss.ground import Embedding, Ordinal

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")


@pytest.mark.parametrize("factory", every())
def test_costs_are_those_of_the_cpu(factory: Factory) -> None:
    metric = factory(power=2, scale="median")
    moved = metric.to("cuda")
    assert moved.device.type == "cuda"
    assert moved.to("cuda") is moved
    indices = torch.tensor([[0, 2], [1, 1]])
    for where in (indices, indices.cuda()):
        columns = moved.cost_columns(where)
        assert columns.is_cuda
        torch.testing.assert_close(columns.cpu(), metric.cost_columns(indices))
    assert moved.with_cost(scale="max").scale == pytest.approx(metric.with_cost(scale="max").scale)
    assert moved.check_axioms().ok
    assert moved.nearest(0, 2) == [(i, pytest.approx(d)) for i, d in metric.nearest(0, 2)]


@pytest.mark.parametrize("factory", [lambda: Ordinal(50), lambda: Embedding(torch.randn(50, 8))])
def test_columns_are_captured_in_a_cuda_graph(factory: Factory) -> None:
    metric = factory().to("cuda")
    indices = torch.zeros(3, dtype=torch.long, device="cuda")
    metric.cost_columns(indices)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        columns = metric.cost_columns(indices)
    indices.copy_(torch.tensor([4, 0, 49]))
    graph.replay()
    torch.testing.assert_close(columns, metric.cost_columns(indices))
