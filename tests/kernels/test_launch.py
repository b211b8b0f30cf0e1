"""Repeated launches of a Triton kernel bypass Triton's own lookup."""

from typing import Any

import pytest
import torch

from wassloss.kernels import launch


class Compiled:
    """The return value of a launch by Triton: `compiled[grid](*arguments)` launches again."""

    def __init__(self) -> None:
        self.launches: list[tuple[Any, ...]] = []

    def __getitem__(self, grid: tuple[int, int, int]):
        return lambda *arguments: self.launches.append((grid, *arguments))


class Kernel:
    """The return value of `triton.jit` for a function with these parameters."""

    arg_names = ("x", "size", "strength", "FIRST", "SECOND")

    def __init__(self) -> None:
        self.found: list[Compiled] = []

    def __getitem__(self, grid: tuple[int]):
        def launched(*arguments: Any, **constants: Any) -> Compiled:
            self.found.append(Compiled())
            return self.found[-1]

        return launched


@pytest.fixture(autouse=True)
def compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launch, "_compiled", {})
    monkeypatch.setattr(launch, "_relaunches", lambda: True)


def start(kernel: Kernel, x=None, size: int = 3, strength: float = 0.5, first: int = 1) -> None:
    x = torch.zeros(8) if x is None else x
    constants = {"SECOND": True, "FIRST": first, "num_warps": 4}
    launch.start_kernel(kernel, 7, (x,), (size,), (strength,), constants)


def test_a_second_launch_has_all_arguments_in_the_order_of_the_kernel() -> None:
    kernel, x = Kernel(), torch.zeros(8)
    start(kernel, x)
    start(kernel, x, strength=0.25)  # kernels are not specialised on a strength
    assert len(kernel.found) == 1
    assert kernel.found[0].launches == [((7, 1, 1), x.data_ptr(), 3, 0.25, 1, True)]


@pytest.mark.parametrize(
    "other",
    [
        {"size": 4},
        {"first": 2},
        {"x": torch.zeros(8, dtype=torch.float64)},
        {"x": torch.zeros(8)[1:]},  # not aligned for vector loads
    ],
    ids=["size", "constant", "dtype", "alignment"],
)
def test_what_triton_compiles_for_is_looked_up_anew(other: dict[str, Any]) -> None:
    kernel = Kernel()
    start(kernel)
    start(kernel, **other)
    assert len(kernel.found) == 2


def test_ever_new_sizes_do_not_fill_the_memory(monkeypatch) -> None:
    monkeypatch.setattr(launch, "_MOST_COMPILED", 3)
    for size in range(10):
        start(Kernel(), size=size)
        assert len(launch._compiled) <= 3


def test_releases_that_launch_in_another_way_are_left_to_it(monkeypatch) -> None:
    monkeypatch.setattr(launch, "_relaunches", lambda: False)
    kernel = Kernel()
    start(kernel)
    start(kernel)
    assert len(kernel.found) == 2
