"""NumPy's files: ``.npy`` with a list of words beside it, or ``.npz`` with both."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wassloss._files import read_npz
from wassloss.data._streams import open_bytes
from wassloss.data.word_vectors.rows import Rows


def read_npy(path: Path, names: str | os.PathLike[str] | None, rows: Rows) -> None:
    """Read the vectors of an array into ``rows``; ``names`` is the file of its words."""
    listed = path.with_name("words.txt") if names is None else Path(names)
    if names is None and path.exists() and not listed.exists():
        raise ValueError(
            f"it does not say which word each row is of: put them into {listed}, one a line"
        )
    vectors = np.load(path, mmap_mode="r", allow_pickle=False)
    _take(vectors, _lines(listed), str(listed), rows)


def read_archive(path: Path, names: str | os.PathLike[str] | None, rows: Rows) -> None:
    """Read the array ``vectors`` of an archive, and ``words`` unless ``names`` has them."""
    arrays = read_npz(path)
    needed = {"vectors"} if names is not None else {"vectors", "words"}
    if needed - arrays.keys():
        raise ValueError(
            f"it must hold {' and '.join(sorted(needed))}, got {', '.join(sorted(arrays))}"
        )
    if names is not None:
        _take(arrays["vectors"], _lines(Path(names)), os.fspath(names), rows)
    else:
        words = arrays["words"]
        if words.ndim != 1 or words.dtype.kind != "U":
            raise ValueError(f"words must be strings (words,), got {words.dtype} {words.shape}")
        _take(arrays["vectors"], words.tolist(), "words", rows)


def _lines(path: Path) -> list[str]:
    with open_bytes(path) as file:
        content = file.read()
    words = content.decode("utf-8").replace("\r\n", "\n").split("\n")
    if words and not words[-1]:
        words.pop()
    return words


def _take(vectors: NDArray[Any], words: Sequence[str], where: str, rows: Rows) -> None:
    if vectors.ndim != 2 or vectors.dtype.kind != "f":
        raise ValueError(
            f"it must hold floats (words, dimensions), got {vectors.dtype} {vectors.shape}"
        )
    if len(words) != len(vectors):
        raise ValueError(f"{where} must name {len(vectors)} words, got {len(words)}")
    rows.expect(len(words), vectors.shape[1])
    chosen = rows.add_all(words, "row")
    rows.fill(vectors if isinstance(chosen, slice) else vectors[chosen])
