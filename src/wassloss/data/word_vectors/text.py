"""Text: a word and its numbers on each line, as GloVe, fastText and word2vec write them."""

from __future__ import annotations

import warnings
from io import BufferedIOBase
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wassloss.data._streams import line_blocks
from wassloss.data.word_vectors.rows import Rows

_BLOCK = 8 << 20


def header(line: bytes) -> tuple[int, int] | None:
    """The counts of words and dimensions, if the line holds just these."""
    fields = line.split()
    if len(fields) != 2 or not all(field.isdigit() for field in fields):
        return None
    count, dimensions = map(int, fields)
    return (count, dimensions) if count and dimensions else None


def is_number(field: bytes) -> bool:
    """Whether a field of a line is a number."""
    try:
        float(field)
    except ValueError:
        return False
    return True


def read(file: BufferedIOBase, rows: Rows) -> None:
    """Read vectors into ``rows``."""
    said: tuple[int, int] | None = None
    dimensions = 0
    line_number, vectors = 0, 0
    for block in line_blocks(file, _BLOCK):
        lines = block.split(b"\n")
        if not lines[-1]:  # the block ends with a newline
            lines.pop()
        if line_number == 0:
            said = header(lines[0])
            first = lines[0] if said is None else (lines[1] if len(lines) > 1 else b"")
            dimensions = said[1] if said else len(first.split()) - 1
            if dimensions < 1:
                raise ValueError("line 1 must be a word and its numbers")
            rows.expect(None if said is None else said[0], dimensions)
        numbers: list[bytes] = []
        numbered: list[int] = []
        for line in lines:
            line_number += 1
            if line_number == 1 and said is not None:
                continue
            line = line.rstrip()
            if not line:
                continue
            word, _, rest = line.partition(b" ")
            if rest.count(b" ") != dimensions - 1:
                word, rest = _split(line, dimensions, line_number)
            vectors += 1
            if rows.add(word.decode("utf-8", "backslashreplace"), f"line {line_number}"):
                numbers.append(rest)
                numbered.append(line_number)
        if numbers:
            rows.fill(_parse(numbers, numbered, dimensions))
    if said is not None and vectors != said[0]:
        raise ValueError(f"line 1 says {said[0]} words, but it has {vectors}")


def _split(line: bytes, dimensions: int, number: int) -> tuple[bytes, bytes]:
    """A word with spaces in it, which GloVe's largest file has, or an error."""
    fields = line.split()
    inside = fields[1:-dimensions]
    if len(fields) <= dimensions or any(is_number(field) for field in inside):
        raise ValueError(
            f"line {number} must have {dimensions} numbers after the word, as the others, got "
            f"{len(fields) - 1}"
        )
    return b" ".join(fields[:-dimensions]), b" ".join(fields[-dimensions:])


def _parse(lines: list[bytes], numbered: list[int], dimensions: int) -> NDArray[np.float32]:
    values = _parse_all(lines, dimensions)
    if values is not None and values.shape == (len(lines), dimensions):
        return values
    for line, number in zip(lines, numbered, strict=True):
        for field in line.split():
            if not is_number(field):
                shown = field[:40].decode("utf-8", "backslashreplace")
                raise ValueError(f"line {number} must hold numbers after the word, got {shown!r}")
    # Only spellings that the fast way does not know, such as 1_000.
    return np.array([line.split() for line in lines], dtype=np.float32)


def _parse_all(lines: list[bytes], dimensions: int) -> NDArray[np.float32] | None:
    """All numbers at once, or None where something is amiss."""
    try:
        import pyarrow as pa
        from pyarrow import csv
    except ImportError:  # three times slower
        with warnings.catch_warnings():
            warnings.simplefilter("error", DeprecationWarning)  # older NumPy only warns
            try:
                flat = np.fromstring(b" ".join(lines), np.float32, sep=" ")
            except (DeprecationWarning, ValueError):
                return None
        return flat.reshape(len(lines), -1) if flat.size == len(lines) * dimensions else None
    columns = [str(i) for i in range(dimensions)]
    try:
        table: Any = csv.read_csv(
            pa.BufferReader(b"\n".join(lines)),
            # One thread: more were slower on two cores, and leave the others to the user.
            read_options=csv.ReadOptions(
                column_names=columns, use_threads=False, block_size=2 * _BLOCK
            ),
            parse_options=csv.ParseOptions(delimiter=" ", quote_char=False),
            convert_options=csv.ConvertOptions(
                column_types=dict.fromkeys(columns, pa.float32()), null_values=[]
            ),
        )
    except pa.ArrowInvalid:
        return None
    return np.stack([column.to_numpy() for column in table.columns], axis=1)
