"""Data sets of the experiments: one file per source that is read, generated or downloaded."""

from experiments.corpora.downloads import get

__all__ = ["get"]
