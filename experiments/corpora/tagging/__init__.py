"""The paper's tag pipeline: from Flickr's metadata to tags, targets and a ground metric."""

from experiments.corpora.tagging.pipeline import yfcc_tags
from experiments.corpora.tagging.sample import TagSample
from experiments.corpora.tagging.stop_words import STOP_WORDS

__all__ = ["STOP_WORDS", "TagSample", "yfcc_tags"]
