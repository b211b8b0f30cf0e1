"""The data sets of the experiments: one file per source that is read, made or downloaded."""

from experiments.corpora.downloads import get

__all__ = ["get"]
