"""Devices and processes: the Fabric of a run if the user passes none."""

from __future__ import annotations

import atexit
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

import torch
from torch import nn

if TYPE_CHECKING:
    from lightning_fabric import Fabric

T = TypeVar("T")


def default_fabric(model: nn.Module) -> Fabric:
    """On the model's kind of device, in the processes that `torchrun` started, if any."""
    try:
        from lightning_fabric import Fabric
    except ImportError as error:
        raise ImportError(
            'training needs Lightning Fabric: pip install "wassloss[train]"'
        ) from error
    tensors = [*model.parameters(), *model.buffers()]
    device = tensors[0].device if tensors else torch.device("cpu")
    accelerator = {"cpu": "cpu", "cuda": "cuda", "mps": "mps"}.get(device.type, "auto")
    if not torch.distributed.is_available() or not torch.distributed.is_torchelastic_launched():
        index = [device.index] if device.type == "cuda" and device.index is not None else 1
        return Fabric(accelerator=accelerator, devices=index)
    local = int(os.environ["LOCAL_WORLD_SIZE"])
    nodes = int(os.environ["WORLD_SIZE"]) // local
    fabric = Fabric(accelerator=accelerator, devices=local, num_nodes=nodes, strategy="ddp")
    fabric.launch()
    # Fabric closes NCCL's groups at exit, but gloo's have threads too, which now and then abort a
    # process that ends before them.
    atexit.register(_close_group)
    return fabric


def _close_group() -> None:
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()


def gather(fabric: Fabric, value: T) -> list[T]:
    """Every process's value, in the order of their ranks."""
    if fabric.world_size == 1:
        return [value]
    gathered: list[T | None] = [None] * fabric.world_size
    torch.distributed.all_gather_object(gathered, value)
    return gathered  # type: ignore[return-value]


@contextmanager
def own_random_numbers(device: torch.device, seed: int, rank: int) -> Iterator[None]:
    """Seed random numbers for this process, and restore the caller's afterwards."""
    devices = [device] if device.type == "cuda" else []
    with torch.random.fork_rng(devices=devices):
        torch.manual_seed(seed + rank)
        yield


def random_state(device: torch.device) -> dict[str, torch.Tensor]:
    """The state of torch's generators."""
    state = {"cpu": torch.get_rng_state()}
    if device.type == "cuda":
        state["cuda"] = torch.cuda.get_rng_state(device)
    return state


def set_random_state(state: dict[str, torch.Tensor], device: torch.device) -> None:
    """Restore torch's generators; a run may be resumed on another kind of device."""
    torch.set_rng_state(state["cpu"])
    if device.type == "cuda" and "cuda" in state:
        torch.cuda.set_rng_state(state["cuda"], device)
