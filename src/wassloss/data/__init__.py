"""Data sets: one record for all of them, readers for several formats, word vectors."""

from wassloss.data._arrow import DataWarning
from wassloss.data.builtin import Definitions, clipart, definitions
from wassloss.data.dataset import Dataset
from wassloss.data.files import read
from wassloss.data.word_vectors import WordVectors, read_word_vectors

__all__ = [
    "DataWarning",
    "Dataset",
    "Definitions",
    "WordVectors",
    "clipart",
    "definitions",
    "read",
    "read_word_vectors",
]


def __dir__() -> list[str]:
    return __all__
