"""Checkpoints: tensors in safetensors, the rest in JSON, all or nothing.

A checkpoint is a directory, `checkpoint-00001000` after 1000 iterations, with two files:

==========================  ======================================================================
``tensors.safetensors``     weights, optimiser, random-number generators, loss meter
``state.json``              everything else, the SHA-256 sum of the tensors, and its own
==========================  ======================================================================

It is written under a temporary name, flushed to the disk and renamed: whatever happens meanwhile,
the one before it stays whole. Nothing is ever unpickled.
"""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import shutil
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from wassloss._safetensors import import_safetensors
from wassloss._sealed import sealed, unsealed
from wassloss.training.directory_lock import check_not_in_use

_FORMAT = 2
_NAME = re.compile(r"checkpoint-(\d{8,})")
_TENSORS, _STATE = "tensors.safetensors", "state.json"


class CheckpointError(ValueError):
    """A checkpoint that is damaged, or is not of this run; the message says which and why."""


class CheckpointWarning(UserWarning):
    """A damaged checkpoint was passed over for an earlier one."""


@dataclass(frozen=True)
class Checkpoint:
    """All that a run needs to go on.

    Attributes:
        iteration: steps taken.
        tensors: by name, on the CPU.
        state: the rest, as JSON holds it.
    """

    iteration: int
    tensors: dict[str, Tensor]
    state: dict[str, Any]

    def part(self, prefix: str) -> dict[str, Tensor]:
        """The tensors whose names begin with `prefix` and a dot, without it."""
        start = f"{prefix}."
        return {
            name.removeprefix(start): tensor
            for name, tensor in self.tensors.items()
            if name.startswith(start)
        }


def save_checkpoint(directory: Path, checkpoint: Checkpoint, keep: int = 2) -> Path:
    """Write a checkpoint, then remove the oldest beyond `keep`.

    Raises:
        OSError: the disk is full, say; earlier checkpoints are as they were.
    """
    save = import_safetensors().torch.save
    # Copies of their own: safetensors refuses tensors that share memory, as tied weights do.
    tensors = {
        name: tensor.detach().cpu().clone().contiguous()
        for name, tensor in checkpoint.tensors.items()
    }
    packed = save(tensors)
    state = {
        "format": _FORMAT,
        "iteration": checkpoint.iteration,
        "tensors_sha256": hashlib.sha256(packed).hexdigest(),
        **checkpoint.state,
    }
    target = directory / f"checkpoint-{checkpoint.iteration:08d}"
    temporary = directory / f".{target.name}.{secrets.token_hex(4)}.tmp"
    try:
        temporary.mkdir(parents=True)
        _write(temporary / _TENSORS, packed)
        _write(temporary / _STATE, sealed(state))
        _sync_directory(temporary)
        if target.exists():  # of a run that was taken up again before it
            shutil.rmtree(target)
        temporary.rename(target)
        _sync_directory(directory)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    for old in _paths(directory)[:-keep]:
        shutil.rmtree(old, ignore_errors=True)
    return target


def load_checkpoint(path: str | os.PathLike[str]) -> Checkpoint:
    """Read one checkpoint.

    Raises:
        CheckpointError: it is cut short, was tampered with, or is something else.
    """
    safetensors = import_safetensors()
    path = Path(path)
    try:
        state = _read_state(path / _STATE)
        packed = (path / _TENSORS).read_bytes()
        if state["format"] != _FORMAT:
            raise ValueError(f"format {state['format']} is unknown, this version reads {_FORMAT}")
        if hashlib.sha256(packed).hexdigest() != state["tensors_sha256"]:
            raise ValueError(f"{_TENSORS} is not as it was written")
        return Checkpoint(state["iteration"], safetensors.torch.load(packed), state)
    except (OSError, ValueError, KeyError, safetensors.SafetensorError) as error:
        raise CheckpointError(f"{path} is not a whole checkpoint: {error}") from error


def load_newest(directory: str | os.PathLike[str]) -> Checkpoint | None:
    """The newest whole checkpoint of a run, or None where there is none at all.

    Damaged ones are passed over with a warning.

    Raises:
        CheckpointError: there are checkpoints, but none is whole.
    """
    damaged: list[str] = []
    for path in reversed(_paths(Path(directory))):
        try:
            checkpoint = load_checkpoint(path)
        except CheckpointError as error:
            damaged.append(str(error))
            continue
        if damaged:
            warnings.warn(
                f"{'; '.join(damaged)}; going on from {path.name}", CheckpointWarning, stacklevel=2
            )
        return checkpoint
    if damaged:
        raise CheckpointError("; ".join(damaged))
    return None


def discard_after(directory: Path, iteration: int) -> None:
    """Make way for a run that goes on from `iteration`: no later checkpoint, nothing half-written.

    Later ones are damaged, or they would have been chosen; they are set aside, not removed.
    """
    for path in _paths(directory):
        if _iteration(path) > iteration:
            path.rename(path.with_name(f"damaged-{path.name}-{secrets.token_hex(4)}"))
    for path in directory.glob(".checkpoint-*.tmp"):
        shutil.rmtree(path, ignore_errors=True)


def has_checkpoints(directory: Path) -> bool:
    """Whether there is a run in a directory already."""
    return bool(_paths(directory))


def check_new(directory: Path, resume: bool) -> None:
    """Refuse to begin a run where there is one already."""
    if has_checkpoints(directory) and not resume:
        check_not_in_use(directory)  # which says more
        raise ValueError(
            f"directory must be new, or resume=True, got {directory} with checkpoints of a run in "
            "it"
        )


def _paths(directory: Path) -> list[Path]:
    """Checkpoints, whole or not, oldest first."""
    found = [path for path in directory.glob("checkpoint-*") if _NAME.fullmatch(path.name)]
    return sorted(found, key=_iteration)


def _iteration(path: Path) -> int:
    return int(path.name.removeprefix("checkpoint-"))


def _read_state(path: Path) -> dict[str, Any]:
    try:
        return unsealed(path.read_bytes())
    except ValueError as error:
        raise ValueError(f"{path.name}: {error}") from error


def _write(path: Path, content: bytes) -> None:
    with open(path, "xb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _sync_directory(path: Path) -> None:
    if os.name != "posix":
        return  # elsewhere directories cannot be opened
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
