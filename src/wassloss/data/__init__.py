"""Data sets: one record for all of them, readers for several formats, streams, built-in sets."""

from wassloss.data._arrow import DataWarning
from wassloss.data.builtin import Definitions, clipart, definitions
from wassloss.data.dataset import Dataset
from wassloss.data.downloads import get
from wassloss.data.files import read, write
from wassloss.data.streaming import ParquetStream
from wassloss.data.word_vectors import WordVectors, read_word_vectors

__all__ = [
    "DataWarning",
    "Dataset",
    "Definitions",
    "ParquetStream",
    "WordVectors",
    "clipart",
    "definitions",
    "get",
    "read",
    "read_word_vectors",
    "write",
]
