"""Independent pieces of work, run through joblib, and kept so that a later call can go on."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import joblib
from sklearn.utils.parallel import Parallel, delayed

from wassloss import __version__
from wassloss._files import write_file
from wassloss._sealed import sealed, unsealed

Progress = Callable[[int, int], None]  # called with how many pieces are done, and of how many


class Pieces:
    """Runs pieces of work whose answers JSON can hold.

    Args:
        shared: what the answers depend on besides the arguments of each piece. Whatever
            `joblib.hash` can tell apart never shares an answer.
        directory: where answers are kept, one file each; None to keep none.
        n_jobs: processes, as in joblib.
        progress: told about every piece.
    """

    def __init__(
        self,
        shared: Any,
        directory: str | os.PathLike[str] | None,
        n_jobs: int | None,
        progress: Progress | None,
    ) -> None:
        self._shared = joblib.hash((__version__, shared))
        self._directory = None if directory is None else Path(directory)
        self._n_jobs, self._progress, self._done = n_jobs, progress, 0

    def run(
        self, function: Callable[..., Any], pieces: Sequence[tuple[Any, ...]], later: int = 0
    ) -> list[Any]:
        """What `function` returns for the arguments of each piece.

        Args:
            function: must not depend on anything but its arguments and `shared`.
            pieces: tuples of arguments.
            later: how many more pieces to expect after these, for `progress`.
        """
        paths = [self._path(function.__name__, piece) for piece in pieces]
        found = [_kept(path) for path in paths]
        missing = [i for i, answer in enumerate(found) if answer is None]
        total = self._done + len(pieces) + later
        self._tell(len(pieces) - len(missing), total)
        parallel = Parallel(n_jobs=self._n_jobs, return_as="generator_unordered")
        with closing(parallel(delayed(_numbered)(i, function, pieces[i]) for i in missing)) as new:
            for i, answer in new:
                path, found[i] = paths[i], answer
                if path is not None:
                    path.parent.mkdir(parents=True, exist_ok=True)
                    write_file(path, sealed({"answer": answer}))
                self._tell(1, total)
        return found

    def _tell(self, done: int, total: int) -> None:
        self._done += done
        if self._progress is not None:
            self._progress(self._done, total)

    def _path(self, name: str, arguments: tuple[Any, ...]) -> Path | None:
        key = joblib.hash((self._shared, name, arguments))
        return None if self._directory is None else self._directory / f"{key}.json"


def _numbered(i: int, function: Callable[..., Any], arguments: tuple[Any, ...]) -> tuple[int, Any]:
    return i, function(*arguments)


def _kept(path: Path | None) -> Any:
    """The answer in a file; None if there is none, or it is damaged."""
    if path is not None:
        with suppress(FileNotFoundError, ValueError):
            return unsealed(path.read_bytes())["answer"]
    return None
