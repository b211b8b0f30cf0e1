"""The files of a run's directory, written and read with their SHA-256 sums.

``config.json`` holds the sum of every other file that counts, and its own. It is written last and
replaced as a whole: a crash leaves the old one, with the files that it lists, or the new one. Files
that it does not list, left by a crash before it, are ignored.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from wassloss._files import write_file
from wassloss._sealed import sealed, unsealed
from wassloss.runs.task import Task
from wassloss.training.checkpoints import RUN_CONFIG
from wassloss.training.log import LOG_NAME

CONFIG, SCORES, LOG = RUN_CONFIG, "scores.json", LOG_NAME
MODEL = "model.safetensors"
FORMAT = 6

_AGAIN = "restore it from a copy, or train again in another directory"
_REMEDY = {
    **dict.fromkeys((MODEL, SCORES), "delete it, and `wassloss train --resume` writes it again"),
    LOG: "restore it from a copy, or delete it to continue without",
}


def read_config(path: Path) -> dict[str, Any]:
    """The configuration of the run in a directory, if there is one, whole and of this version."""
    file = path / CONFIG
    if not file.is_file():
        what = f"is not a run: it has no {CONFIG}" if path.is_dir() else "does not exist"
        raise FileNotFoundError(f"{path} {what}; `wassloss train DATA --out {path}` makes a run")
    try:
        config = unsealed(file.read_bytes())
        if config["format"] != FORMAT:
            raise ValueError(f"format {config['format']} is unknown, this version reads {FORMAT}")
        Task.from_config(config["task"])
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{file} is not the configuration of a run: {error}; {_AGAIN}") from error
    return config


def write_run(path: Path, config: Mapping[str, Any], files: Mapping[str, bytes]) -> None:
    """Write files of a run, then its configuration, which lists them too from then on.

    A model and scores that it does not list, of a run that was finished before, are removed.
    """
    sums = dict(config["files"])
    for name, content in files.items():
        write_file(path / name, content)
        sums[name] = hashlib.sha256(content).hexdigest()
    write_file(path / CONFIG, sealed({"format": FORMAT, **config, "files": sums}))
    for name in {MODEL, SCORES} - sums.keys():
        (path / name).unlink(missing_ok=True)


def read_checked(path: Path, name: str, config: Mapping[str, Any]) -> bytes:
    """The content of a file of the run; ValueError if it is not what was written."""
    content = (path / name).read_bytes()
    if hashlib.sha256(content).hexdigest() != config["files"].get(name):
        raise ValueError(
            f"{path / name} is damaged, its SHA-256 sum is not the one in {CONFIG}: "
            f"{_REMEDY.get(name, _AGAIN)}"
        )
    return content
