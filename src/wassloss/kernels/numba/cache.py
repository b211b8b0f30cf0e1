"""Compiled code on disk: written where that is possible, and found wherever it was written.

Numba's own cache fails if a file is damaged or the disk is full, watches only the file of the
function itself, and reads from a directory only if it can write there. This one is for the sources
of the whole folder, and an installation that has become read-only finds what it compiled before.
Whatever goes wrong, the function is compiled again.
"""

from __future__ import annotations

import hashlib
import logging
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, cast

import numba
import platformdirs
from numba.core.caching import FunctionCache, IndexDataCacheFile
from numba.core.compiler import CompileResult

FOLDER = Path(__file__).parent


@cache
def version() -> str:
    """What compiled code depends on, apart from Python, types and processor."""
    paths = [*sorted(FOLDER.glob("*.py")), *sorted(FOLDER.parent.glob("*.py"))]
    # Without sources, as in a zip file, nobody knows: then nothing is found again.
    sources = [path.read_bytes() for path in paths] or [os.urandom(16)]
    parts = [numba.__version__.encode(), *sources]
    return hashlib.sha256(b"\0".join(parts)).hexdigest()[:16]


def directories() -> Iterator[Path]:
    """Where compiled code may be, in order of preference; ``NUMBA_CACHE_DIR`` overrides them."""
    if given := getattr(numba.config, "CACHE_DIR", ""):
        yield Path(given)
        return
    yield FOLDER / "__pycache__"
    yield platformdirs.user_cache_path("wassloss") / "kernels" / version()


@cache
def announce() -> None:
    """Say once that kernels are compiled: in the log, and to whoever waits at a terminal."""
    said = "wassloss: compiling kernels, once; later runs find them on disk"
    logging.getLogger("wassloss").info(said)
    if sys.stderr is not None and sys.stderr.isatty():
        sys.stderr.write(f"{said}\n")


class KernelCache:
    """The compiled versions of one function, as Numba's dispatchers ask for them."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._py_func = function
        self.cache_path = str(next(directories(), ""))  # Numba shows it with its figures

    def load_overload(self, signature: Any, context: Any) -> Any:
        """What was compiled for these types, or None."""
        context.refresh()
        key = self._key(signature, context.codegen())
        for directory in directories():
            with suppress(Exception):  # missing, damaged, not readable
                data = self._file(directory, key).load(key)
                if data is not None:
                    return CompileResult._rebuild(context, *data)
        announce()
        return None

    def save_overload(self, signature: Any, compiled: Any) -> None:
        """Keep what was compiled for these types, in the first directory that takes it."""
        key, data = self._key(signature, compiled.codegen), compiled._reduce()
        for directory in directories():
            with suppress(Exception):  # read-only, full
                directory.mkdir(mode=0o755, parents=True, exist_ok=True)
                self._file(directory, key).save(key, data)
                return

    def _key(self, signature: Any, codegen: Any) -> Any:
        return FunctionCache._index_key(cast(Any, self), signature, codegen)

    def _file(self, directory: Path, key: Any) -> Any:
        """One for each key: processes that compile for other types never write to the same."""
        module, _, name = f"{self._py_func.__module__}.{self._py_func.__name__}".rpartition(".")
        types = hashlib.sha256(repr(key).encode()).hexdigest()[:16]
        base = f"{module.rpartition('.')[2]}.{name}.{sys.implementation.cache_tag}.{types}"
        return IndexDataCacheFile(str(directory), base, version())
