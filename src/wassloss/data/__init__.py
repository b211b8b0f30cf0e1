"""Data sets: one record for all, files of several formats, streams, what ships and what is made."""

from wassloss.data.builtin import clipart
from wassloss.data.columns import DataWarning
from wassloss.data.dataset import Dataset
from wassloss.data.distributions import read_distributions
from wassloss.data.downloads import get
from wassloss.data.features import (
    Extraction,
    Extractor,
    OnnxExtractor,
    TorchExtractor,
    extract_features,
    timm_extractor,
    torchvision_extractor,
)
from wassloss.data.files import read, read_features, write
from wassloss.data.flickr8k import flickr8k
from wassloss.data.hypernyms import hypernym_paths
from wassloss.data.mnist import mnist
from wassloss.data.mulan import mulan, read_mulan
from wassloss.data.noise import drop_tags, flip_labels, reduce_redundancy
from wassloss.data.streaming import ParquetStream
from wassloss.data.synthetic import lattice, random_histograms, random_metric
from wassloss.data.tagging import STOP_WORDS, TagSample, yfcc_tags
from wassloss.data.word_vectors import WordVectors, embed_labels, read_word_vectors
from wassloss.data.wordnet import WordNet, read_wordnet

__all__ = [
    "STOP_WORDS",
    "DataWarning",
    "Dataset",
    "Extraction",
    "Extractor",
    "OnnxExtractor",
    "ParquetStream",
    "TagSample",
    "TorchExtractor",
    "WordNet",
    "WordVectors",
    "clipart",
    "drop_tags",
    "embed_labels",
    "extract_features",
    "flickr8k",
    "flip_labels",
    "get",
    "hypernym_paths",
    "lattice",
    "mnist",
    "mulan",
    "random_histograms",
    "random_metric",
    "read",
    "read_distributions",
    "read_features",
    "read_mulan",
    "read_word_vectors",
    "read_wordnet",
    "reduce_redundancy",
    "timm_extractor",
    "torchvision_extractor",
    "write",
    "yfcc_tags",
]
