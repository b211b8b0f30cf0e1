"""Data sets: one record for all, files of several formats, streams, what ships and what is made."""

from wassloss.data.files import read, write
from wassloss.data.record import Dataset
from wassloss.data.streaming import ParquetStream

__all__ = ["Dataset", "ParquetStream", "read", "write"]
