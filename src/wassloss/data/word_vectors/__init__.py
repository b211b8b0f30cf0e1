"""Word vectors in files: word2vec, GloVe, fastText, NumPy; and the ground metric they give."""

from wassloss.data.word_vectors.labels import embed_labels
from wassloss.data.word_vectors.read import read_word_vectors
from wassloss.data.word_vectors.table import WordVectors

__all__ = ["WordVectors", "embed_labels", "read_word_vectors"]
