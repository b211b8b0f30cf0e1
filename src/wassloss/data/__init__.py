"""Data sets: one record for all, files of several formats, streams, what ships and what is made."""

from wassloss.data.builtin import clipart
from wassloss.data.distributions import read_distributions
from wassloss.data.files import read, read_features, write
from wassloss.data.flickr8k import flickr8k
from wassloss.data.mnist import mnist
from wassloss.data.mulan import mulan, read_mulan
from wassloss.data.noise import drop_tags, flip_labels, reduce_redundancy
from wassloss.data.record import Dataset
from wassloss.data.streaming import ParquetStream
from wassloss.data.synthetic import lattice, random_histograms, random_metric

__all__ = [
    "Dataset",
    "ParquetStream",
    "clipart",
    "drop_tags",
    "flickr8k",
    "flip_labels",
    "lattice",
    "mnist",
    "mulan",
    "random_histograms",
    "random_metric",
    "read",
    "read_distributions",
    "read_features",
    "read_mulan",
    "reduce_redundancy",
    "write",
]
