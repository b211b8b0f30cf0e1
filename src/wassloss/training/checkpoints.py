"""Checkpoints: one file each, written completely or not at all.

``checkpoint-00001000.safetensors``, after 1000 steps, holds the tensors (weights, optimiser,
random-number generators, loss meter), everything else as JSON, and the SHA-256 sum of it all.
Whatever happens while it is written, the checkpoint before it stays intact.
"""

from __future__ import annotations

import os
import re
import secrets
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from wassloss.files import (
    import_safetensors,
    pack_tensors,
    remove_leftovers,
    unpack_tensors,
    write_file,
)

_FORMAT = 4
_KEPT = 2  # checkpoints of a run
_NAME = re.compile(r"checkpoint-(\d{8,})\.safetensors")


class CheckpointError(ValueError):
    """A checkpoint is damaged or belongs to another run; the message says which and why."""


class CheckpointWarning(UserWarning):
    """A damaged checkpoint was skipped in favour of an earlier one."""


@dataclass(frozen=True)
class Checkpoint:
    """Everything a run needs to continue."""

    step: int  # steps taken
    tensors: dict[str, Tensor]  # by name, on the CPU
    state: dict[str, Any]  # the rest, as JSON holds it

    def part(self, prefix: str) -> dict[str, Tensor]:
        """The tensors whose names begin with `prefix` and a dot, without it."""
        names = [name for name in self.tensors if name.startswith(f"{prefix}.")]
        return {name.removeprefix(f"{prefix}."): self.tensors[name] for name in names}


def save_checkpoint(directory: Path, checkpoint: Checkpoint) -> None:
    """Write a checkpoint, then remove all but the newest two."""
    state = {"format": _FORMAT, "step": checkpoint.step, **checkpoint.state}
    content = pack_tensors(checkpoint.tensors, state)
    try:
        write_file(directory / f"checkpoint-{checkpoint.step:08d}.safetensors", content)
    except OSError as error:
        raise OSError(
            f"cannot write the checkpoint of step {checkpoint.step} to {directory}: {error}; "
            "earlier ones are intact: free some space, then resume"
        ) from error
    for old in list(checkpoint_paths(directory).values())[:-_KEPT]:
        old.unlink(missing_ok=True)


def load_checkpoint(path: str | os.PathLike[str]) -> Checkpoint:
    """Read a checkpoint: a file, or the newest intact one in the directory of a run.

    Its weights are `checkpoint.part("model")`, for the `load_state_dict` of the run's model.
    Damaged files in a directory are skipped with a warning, unless all are damaged.

    Raises:
        CheckpointError: it is cut short, was changed, or is something else; or there is none.
    """
    path, damaged = Path(path), list[str]()
    if path.is_file():
        return _read(path)
    for file in reversed(checkpoint_paths(path).values()):
        try:
            checkpoint = _read(file)
        except CheckpointError as error:
            damaged.append(str(error))
            continue
        if damaged:
            message = f"{'; '.join(damaged)}; continuing from {file.name}"
            warnings.warn(message, CheckpointWarning, stacklevel=2)
        return checkpoint
    raise CheckpointError("; ".join(damaged) or f"{path} holds no checkpoint")


def _read(path: Path) -> Checkpoint:
    failure = import_safetensors().SafetensorError
    try:
        tensors, state = unpack_tensors(path.read_bytes())
        if state["format"] != _FORMAT:
            raise ValueError(f"format {state['format']} is unknown, this version reads {_FORMAT}")
        return Checkpoint(state["step"], tensors, state)
    except (OSError, ValueError, KeyError, TypeError, failure) as error:
        raise CheckpointError(f"{path} is not a valid checkpoint: {error}") from error


def discard_after(directory: Path, step: int) -> None:
    """Prepare a directory for a run that continues from `step`.

    Later checkpoints are damaged, or one of them would have been chosen: they are renamed, not
    removed. Files that were being written when a run was killed are removed.
    """
    for taken, path in checkpoint_paths(directory).items():
        if taken > step:
            path.rename(path.with_name(f"damaged-{secrets.token_hex(4)}-{path.name}"))
    remove_leftovers(directory)


def checkpoint_paths(directory: Path) -> dict[int, Path]:
    """All checkpoints by their steps, intact or not, oldest first."""
    found = [(_NAME.fullmatch(path.name), path) for path in directory.glob("checkpoint-*")]
    return dict(sorted((int(name[1]), path) for name, path in found if name))
