"""Where batches come from: examples in memory, or a stream.

A stream is an iterable of batches `(features, target, …)`; one pass over it is an epoch. To be
resumed, it needs the two methods of torchdata's loaders: `state_dict()`, a dictionary that JSON can
hold and that says which batches it has handed out, and `load_state_dict(state)`, after which the
next iteration begins with the batch that follows. With several processes, a stream hands out the
batches of its own process.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any, Protocol, TypeAlias, runtime_checkable

import torch

from wassloss.targets import SparseTarget, Target
from wassloss.training.examples import Batch, Examples, to_device
from wassloss.training.sampler import Sampler


@runtime_checkable
class Resumable(Protocol):
    """Something that can be put back to where it was."""

    def state_dict(self) -> dict[str, Any]: ...

    def load_state_dict(self, state: dict[str, Any]) -> None: ...


class Batches(Resumable, Protocol):
    """An endless supply of batches."""

    def next(self) -> Batch: ...


Data: TypeAlias = tuple[Target, ...] | list[Target] | Iterable[Batch]


def is_in_memory(data: Data) -> bool:
    """Whether data are columns of examples rather than a stream of batches."""
    return isinstance(data, tuple | list) and any(
        isinstance(column, torch.Tensor | SparseTarget) for column in data
    )


class MemoryBatches:
    """Batches of examples in memory: that of the device, if they fit."""

    def __init__(self, examples: Examples, sampler: Sampler, device: torch.device) -> None:
        self.home = device if _fits(examples, device) else torch.device("cpu")
        self.examples = examples.to(self.home)
        self.sampler = sampler
        self.device = device

    def next(self) -> Batch:
        batch = self.examples.take(self.sampler.next().to(self.home))
        return tuple(to_device(column, self.device) for column in batch)

    def state_dict(self) -> dict[str, Any]:
        return self.sampler.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.sampler.load_state_dict(state)


def _fits(examples: Examples, device: torch.device) -> bool:
    """Whether examples leave at least half of a GPU's free memory to the model."""
    return device.type != "cuda" or examples.nbytes <= torch.cuda.mem_get_info(device)[0] // 2


class StreamBatches:
    """Batches of a stream, which is iterated again when it ends."""

    def __init__(self, stream: Iterable[Batch], device: torch.device) -> None:
        if not isinstance(stream, Iterable):
            raise TypeError(
                "data must be (features, target), or an iterable of such batches, got "
                f"{type(stream).__name__}"
            )
        self.stream = stream
        self.device = device
        self._batches = self._endless()

    def next(self) -> Batch:
        batch = next(self._batches)
        if not isinstance(batch, tuple | list) or len(batch) < 2:
            raise TypeError(f"data must yield (features, target), got {type(batch).__name__}")
        return tuple(to_device(column, self.device) for column in batch)

    def _endless(self) -> Iterator[Batch]:
        was_empty = False  # allowed once: a resumed stream may stand at the end of an epoch
        while True:
            empty = True
            for batch in self.stream:
                empty = False
                yield batch
            if empty and was_empty:
                raise ValueError(
                    "data must be iterable again and again, got no batch from it; a generator "
                    "can be iterated only once, a class with __iter__ any number of times"
                )
            was_empty = empty

    def state_dict(self) -> dict[str, Any]:
        if not isinstance(self.stream, Resumable):
            raise TypeError(
                "data must have state_dict and load_state_dict for a run with checkpoints, got "
                f"{type(self.stream).__name__}; or leave out directory"
            )
        try:
            return dict(json.loads(json.dumps(self.stream.state_dict())))
        except (TypeError, ValueError) as error:
            raise TypeError(f"data.state_dict() must be what JSON can hold: {error}") from error

    def load_state_dict(self, state: dict[str, Any]) -> None:
        if isinstance(self.stream, Resumable):
            self.stream.load_state_dict(state)
            self._batches = self._endless()
