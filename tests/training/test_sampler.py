"""The order of the examples."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from wassloss.training.batches import Sampler


@given(st.integers(1, 30), st.integers(1, 40), st.integers(0, 3))
def test_every_example_once_an_epoch(size: int, batch_size: int, seed: int) -> None:
    sampler = Sampler(size, batch_size, seed)
    drawn = torch.cat([sampler.next() for _ in range(3 * size)])
    for epoch in drawn.split(size)[: len(drawn) // size]:
        assert epoch.sort().values.tolist() == list(range(size))


@given(st.integers(1, 30), st.integers(1, 7), st.integers(1, 4))
def test_processes_share_the_batch_of_one(size: int, batch_size: int, world_size: int) -> None:
    alone = Sampler(size, batch_size * world_size, seed=5)
    together = [Sampler(size, batch_size, 5, rank, world_size) for rank in range(world_size)]
    for _ in range(10):
        assert torch.equal(alone.next(), torch.cat([sampler.next() for sampler in together]))


@given(st.integers(1, 30), st.integers(1, 40), st.integers(0, 20))
def test_the_state_is_where_it_stands(size: int, batch_size: int, steps: int) -> None:
    sampler, resumed = Sampler(size, batch_size, 1), Sampler(size, batch_size, 1)
    for _ in range(steps):
        sampler.next()
    resumed.load_state_dict(sampler.state_dict())
    for _ in range(5):
        assert torch.equal(sampler.next(), resumed.next())


def test_orders_differ_between_seeds_and_epochs() -> None:
    orders = [Sampler(100, 100, seed) for seed in range(3)]
    drawn = [tuple(sampler.next().tolist()) for sampler in orders for _ in range(3)]
    assert len(set(drawn)) == 9


def test_other_data_are_not_resumed() -> None:
    state = Sampler(10, 2, 0).state_dict()
    with pytest.raises(ValueError, match=r"data must be the run's own 10 examples.* got 9 with"):
        Sampler(9, 2, 0).load_state_dict(state)


@pytest.mark.parametrize(("rank", "world_size"), [(0, 1), (1, 3)])
def test_a_few_batches_at_once_are_the_next_ones(rank: int, world_size: int) -> None:
    one, many = (Sampler(17, 5, 3, rank, world_size) for _ in range(2))
    for count in (1, 4, 11):
        expected = torch.stack([one.next() for _ in range(count)])
        assert torch.equal(many.next_few(count), expected)
    assert one.state_dict() == many.state_dict()
