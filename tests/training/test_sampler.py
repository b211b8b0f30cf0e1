"""The order of the examples."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from wassloss.training.batches import Sampler


@given(st.integers(1, 30), st.integers(1, 40), st.integers(0, 3))
def test_every_example_once_an_epoch(size: int, batch_size: int, seed: int) -> None:
    sampler = Sampler(size, batch_size, seed)
    drawn = sampler.rows(0, 3 * size).flatten()
    for epoch in drawn.split(size)[: len(drawn) // size]:
        assert epoch.sort().values.tolist() == list(range(size))


@given(st.integers(1, 30), st.integers(1, 7), st.integers(1, 4))
def test_processes_share_the_batch_of_one(size: int, batch_size: int, world_size: int) -> None:
    alone = Sampler(size, batch_size * world_size, seed=5)
    together = [Sampler(size, batch_size, 5, rank, world_size) for rank in range(world_size)]
    for step in range(10):
        parts = [sampler.rows(step) for sampler in together]
        assert torch.equal(alone.rows(step), torch.cat(parts, dim=1))


@pytest.mark.parametrize(("rank", "world_size"), [(0, 1), (1, 3)])
def test_rows_depend_on_the_step_alone(rank: int, world_size: int) -> None:
    """Not on earlier calls, nor on how many batches are requested at once."""
    one, other = (Sampler(17, 5, 3, rank, world_size) for _ in range(2))
    expected = torch.cat([one.rows(step) for step in range(16)])
    for step, count in ((5, 11), (0, 1), (1, 4), (0, 16)):
        assert torch.equal(other.rows(step, count), expected[step : step + count])


def test_orders_differ_between_seeds_and_epochs() -> None:
    drawn = [Sampler(100, 100, seed).rows(epoch) for seed in range(3) for epoch in range(3)]
    assert len({tuple(rows.flatten().tolist()) for rows in drawn}) == 9
