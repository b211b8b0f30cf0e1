"""Word vectors from a file, whatever its format."""

from __future__ import annotations

import os
from collections.abc import Collection
from pathlib import Path
from typing import Literal, get_args

from wassloss.data._streams import is_compressed, open_bytes
from wassloss.data.word_vectors import arrays, binary, text
from wassloss.data.word_vectors.rows import Rows
from wassloss.data.word_vectors.table import WordVectors

Format = Literal["word2vec", "text", "npy", "npz"]
_CONTROL = set(range(32)) - set(b"\t\n\r")
_NUMERIC = set(b"0123456789+-.eE \t\rnainfNAINF")


def read_word_vectors(
    path: str | os.PathLike[str],
    *,
    words: Collection[str] | None = None,
    format: Format | None = None,
    names: str | os.PathLike[str] | None = None,
    duplicates: Literal["error", "first"] = "error",
) -> WordVectors:
    r"""Read word vectors: word2vec (binary or text), GloVe, fastText text, or NumPy.

    gzip and bzip2 are unpacked on the way. The file is streamed: memory holds the vectors that are
    kept and a block of some megabytes.

    Args:
        path: the file.
        words: the only words to keep; by default all.
        format: ``"word2vec"`` (binary), ``"text"`` (with or without a first line of counts),
            ``"npy"`` or ``"npz"`` (arrays ``vectors`` and ``words``); by default found from the
            file itself.
        names: the file of words of a NumPy file, one a line; by default the archive's own, or
            ``words.txt`` beside a ``.npy``.
        duplicates: ``"error"``, or ``"first"`` to keep the first of each.

    Raises:
        ValueError: one line that names the file and, where there is one, the line.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "glove.txt")
    ...     _ = path.write_text("the 0.1 0.2\ncat 1 -1\n")
    ...     read_word_vectors(path, words=["cat"]).vectors
    array([[ 1., -1.]], dtype=float32)
    """
    if isinstance(words, str):
        raise TypeError(f"words must be a collection of words, got the single string {words!r}")
    if duplicates not in ("error", "first"):
        raise ValueError(f"duplicates must be 'error' or 'first', got {duplicates!r}")
    kept = None if words is None else set(words)
    rows = Rows(kept, first=duplicates == "first")
    found = format or _guess(path)
    if found not in get_args(Format):
        raise ValueError(f"format must be 'word2vec', 'text', 'npy' or 'npz', got {format!r}")
    if names is not None and found in ("word2vec", "text"):
        raise ValueError(f"names is for .npy and .npz, but {os.fspath(path)} has words of its own")
    try:
        if found == "npy":
            arrays.read_npy(Path(path), names, rows)
        elif found == "npz":
            arrays.read_archive(Path(path), names, rows)
        else:
            with open_bytes(path) as file:
                if found == "text":
                    text.read(file, rows)
                else:
                    binary.read(file, rows, _plain_size(path))
        return rows.table()
    except ValueError as error:
        said = " ".join(str(error).split())
        name = os.fspath(path)
        if said.startswith(name):
            raise
        raise ValueError(f"{name} cannot be read as word vectors: {said}") from error


def _guess(path: str | os.PathLike[str]) -> Format:
    suffix = Path(path).suffix
    if suffix in (".npy", ".npz"):
        return "npy" if suffix == ".npy" else "npz"
    with open_bytes(path) as file:
        start = file.read(1 << 16)
    first, _, rest = start.partition(b"\n")
    header = text.header(first)
    if header is None:
        return "text"
    # After the counts, a word and what can be written of numbers is text; anything else is bytes.
    # Bytes may begin like numbers and a newline, but they have control characters further on.
    numbers = rest.partition(b"\n")[0].partition(b" ")[2]
    return "text" if set(numbers) <= _NUMERIC and not set(rest) & _CONTROL else "word2vec"


def _plain_size(path: str | os.PathLike[str]) -> int | None:
    return None if is_compressed(path) else os.path.getsize(path)
